"""Past usage as metrics and as a page: what counts against which queue, and how old it is."""

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster.api import names
from muster.base.timefmt import rfc3339
from muster.model.usage import QueueUsage
from muster.numerics.axis import QUEUE_RESOURCES
from muster.usage.fetcher import UsageFetcher

_BUCKETS_MS = tuple(5.0 * 2**step for step in range(12))


class UsageMeters:
    """Under the original's names, where it has them."""

    def __init__(
        self,
        registry: CollectorRegistry,
        fetcher: UsageFetcher,
        prefix: str = names.DEFAULT.metrics_prefix,
    ) -> None:
        self._fetcher = fetcher
        self._by_resource = {
            name: Gauge(
                f"{prefix}_queue_{name}_usage",
                f"Past usage of {name}, as a fraction of the cluster.",
                ["queue_name"],
                registry=registry,
            )
            for name in QUEUE_RESOURCES
        }
        self._fetch_ms = Histogram(
            f"{prefix}_usage_query_latency_milliseconds",
            "Duration of reading past usage.",
            buckets=_BUCKETS_MS,
            registry=registry,
        )
        age = Gauge(
            f"{prefix}_usage_age_seconds", "Age of the usage that counts.", registry=registry
        )
        age.set_function(lambda: fetcher.age_s or 0.0)
        stale = Gauge(
            f"{prefix}_usage_stale",
            "1 when past usage is wanted and is old or missing.",
            registry=registry,
        )
        stale.set_function(lambda: float(fetcher.is_stale))
        failures = Counter(
            f"{prefix}_usage_fetch_failures",
            "Readings of past usage that failed.",
            registry=registry,
        )
        fetcher.on_failure = failures.inc

    def show(self, usage: QueueUsage | None) -> None:
        """What counts from now on; None: nothing, and nothing was read."""
        if usage is not None:
            self._fetch_ms.observe(self._fetcher.last_fetch_s * 1000)
        by_queue = {} if usage is None else usage.by_queue
        for name, gauge in self._by_resource.items():
            gauge.clear()
            for queue, used in by_queue.items():
                gauge.labels(queue).set(used.get(name, 0.0))


def idle_meter(registry: CollectorRegistry, prefix: str) -> Callable[[Mapping[str, float]], None]:
    """Shows the jobs whose GPUs are idle, and how many they hold."""
    gauge = Gauge(
        f"{prefix}_idle_gpus",
        "GPUs held by jobs that have not used them for the time of the policy.",
        ["namespace", "pod_group"],
        registry=registry,
    )

    def show(held: Mapping[str, float]) -> None:
        gauge.clear()
        for job, gpus in held.items():
            namespace, _, name = job.partition("/")
            gauge.labels(namespace, name).set(gpus)

    return show


def usage_page(fetcher: UsageFetcher) -> dict[str, Any]:
    """For people: what counts, as of when, and whether that is old."""
    newest = fetcher.newest
    return {
        "read": None if newest is None else rfc3339(newest.at_s),
        "ageSeconds": fetcher.age_s,
        "stale": fetcher.is_stale,
        "failures": fetcher.failures,
        "queues": {} if newest is None else {q: dict(u) for q, u in newest.by_queue.items()},
    }
