"""Meters of the frame, on a registry that is passed in.

Where controller-runtime and client-go have a name for the same thing we use it, so that dashboards
made for other controllers work; what is ours begins with `muster_`.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from muster.client.connection import Outcome
from muster.client.informer import Informer

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ClientMeters:
    """Calls to the API server."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "rest_client_requests_total",
            "Calls to the API server by verb, kind and HTTP status (0: no answer).",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Seconds until the API server answered.",
            ["verb", "resource"],
            buckets=_SECONDS,
            registry=registry,
        )

        self._waited = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that a call waited for its turn, before it was sent: see --qps and --burst.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )

        # To look a meter up by its labels takes longer than to move it.
        self._waited_of = cache(self._waited.labels)
        self._calls_of = cache(self._calls.labels)
        self._seconds_of = cache(self._seconds.labels)

    def waited(self, verb: str, seconds: float) -> None:
        self._waited_of(verb).observe(seconds)

    def observe(self, outcome: Outcome) -> None:
        self._calls_of(outcome.verb, outcome.kind, str(outcome.code)).inc()
        self._seconds_of(outcome.verb, outcome.kind).observe(outcome.seconds)


class ControllerMeters:
    """Work queues and what became of the work, by controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reconciled = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by result: success, requeue_after, error.",
            ["controller", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Seconds that a reconciliation took.",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.added = Counter(
            "workqueue_adds_total", "Keys that came to need work.", ["name"], registry=registry
        )
        self.retried = Counter(
            "workqueue_retries_total", "Keys put back after a failure.", ["name"], registry=registry
        )
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds that a key waited for a worker.",
            ["name"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.depth = Gauge(
            "workqueue_depth", "Keys that wait for a worker.", ["name"], registry=registry
        )
        self.long = Gauge(
            "muster_long_work",
            "Keys whose work lasts so long that it goes on without a worker.",
            ["name"],
            registry=registry,
        )
        self.held = Gauge(
            "muster_long_work_held",
            "Keys that wait because their namespace has enough of such work.",
            ["name"],
            registry=registry,
        )


def meter_leader(registry: CollectorRegistry, lease: str, leads: Callable[[], bool]) -> None:
    what = "1 where this replica leads, else 0."
    gauge = Gauge("leader_election_master_status", what, ["name"], registry=registry)
    gauge.labels(lease).set_function(lambda: float(leads()))


def meter_events(registry: CollectorRegistry, dropped: Callable[[], int]) -> None:
    what = "Events about objects that were not written, since the start: too many, or refused."
    gauge = Gauge("muster_events_dropped", what, registry=registry)
    gauge.set_function(lambda: float(dropped()))


def meter_log(registry: CollectorRegistry, dropped: Callable[[], int]) -> None:
    what = "Lines of the log that were dropped since the start: nobody read, or the disk is full."
    gauge = Gauge("muster_log_lines_dropped", what, registry=registry)
    gauge.set_function(lambda: float(dropped()))


class InformerMeters(Collector):
    """What each informer holds and could not read; read when somebody asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._informers: list[Informer[Any]] = []
        registry.register(self)

    def add(self, informer: Informer[Any]) -> None:
        self._informers.append(informer)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, what, value_of in _INFORMER_GAUGES:
            family = GaugeMetricFamily(f"muster_informer_{name}", what, labels=["kind"])
            for informer in self._informers:
                family.add_metric([informer.kind.full_name], value_of(informer))
            yield family


_INFORMER_GAUGES: tuple[tuple[str, str, Callable[[Informer[Any]], float]], ...] = (
    ("objects", "Objects in the local copy.", lambda one: len(one.objects)),
    (
        "set_aside",
        "Stored objects that cannot be read and are set aside.",
        lambda one: len(one.set_aside),
    ),
    (
        "out_of_step",
        "Objects that a part of the service failed to take in; they are read again.",
        lambda one: len(one.out_of_step),
    ),
    (
        "handler_failures",
        "How often a part of the service failed to take a change in, since the start.",
        lambda one: one.handler_failures,
    ),
    ("synced", "1 once the first list is in.", lambda one: float(one.has_synced)),
    (
        "trouble_seconds",
        "For how long listing and watching have failed without a break; 0: all is well.",
        lambda one: one.reflector.trouble_s,
    ),
    (
        "news_age_seconds",
        "How long ago the server last said something about this kind, were it only that nothing "
        "changed.",
        lambda one: one.reflector.news_age_s,
    ),
    ("lists", "Lists since the start.", lambda one: one.reflector.lists),
)
