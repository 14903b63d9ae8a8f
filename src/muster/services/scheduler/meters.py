"""Meters of the scheduler, under the original's names and labels."""

from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.base.clock import Clock
from muster.engine.explain import Explanation
from muster.engine.plan import Plan

_SERIES_MAX = 5000
"""Groups whose evictions are counted, each by itself: the latest. Names and uids have no end."""
_SERIES_LAST_S = 600.0
"""How long after its latest eviction a group's are shown: by then they have been scraped."""
_BUCKETS_MS = tuple(5.0 * 2**step for step in range(10))


class SchedulerMeters:
    def __init__(
        self, registry: CollectorRegistry, prefix: str = names.DEFAULT.metrics_prefix
    ) -> None:
        def gauge(name: str, help_: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"{prefix}_{name}", help_, labels, registry=registry)

        def counter(name: str, help_: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"{prefix}_{name}", help_, labels, registry=registry)

        def histogram(name: str, help_: str) -> Histogram:
            return Histogram(f"{prefix}_{name}", help_, buckets=_BUCKETS_MS, registry=registry)

        self.cycle_ms = gauge("e2e_scheduling_latency_milliseconds", "Duration of the last cycle.")
        self.open_ms = gauge("open_session_latency_milliseconds", "Duration of the last snapshot.")
        self.close_ms = gauge(
            "close_session_latency_milliseconds", "Duration of the last hand-over and report."
        )
        self.action_ms = gauge(
            "action_scheduling_latency_milliseconds",
            "Duration of the last run of an action.",
            ("action",),
        )
        self.task_ms = histogram(
            "task_scheduling_latency_milliseconds", "From a pod's creation to its decision."
        )
        self.bind_ms = histogram(
            "task_bind_latency_milliseconds", "Duration of writing a bind decision."
        )
        self._counted = {
            what: counter(name, help_, ("action",))
            for what, name, help_ in (
                ("scheduled", "podgroups_scheduled_by_action", "Pod groups that got nodes."),
                (
                    "tried",
                    "podgroups_acted_on_by_action",
                    "Pod groups that victims were sought for.",
                ),
                ("simulated", "scenarios_simulation_by_action", "Sets of victims tried out."),
                (
                    "cut_short",
                    "podgroups_search_cut_short_by_action",
                    "Pod groups whose search for victims was cut short for want of time.",
                ),
            )
        }
        self._evicted = counter(
            "pod_group_evicted_pods_total",
            "Pods evicted.",
            ("podgroup", "namespace", "uid", "nodepool", "action"),
        )
        self.evictions_refused = counter(
            "evictions_refused_total", "Evictions that the API server did not allow.", ("cause",)
        )
        self.binds_refused = counter(
            "gang_binds_refused_total", "Gangs whose bind requests were not taken.", ("cause",)
        )
        self._evicted_series: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._fair_shares = {
            "gpu": (gauge("queue_fair_share_gpu", "Fair share of GPUs.", ("queue_name",)), 1000),
            "cpu": (
                gauge("queue_fair_share_cpu_cores", "Fair share of CPU.", ("queue_name",)),
                1000,
            ),
            "memory": (
                gauge("queue_fair_share_memory_gb", "Fair share of memory.", ("queue_name",)),
                10**9,
            ),
        }
        self.cycles = counter("scheduling_cycles", "Cycles run.")
        self._status_backlog = gauge(
            "status_updates_waiting", "Conditions and annotations that are still to be written."
        )
        self._status_oldest_s = gauge(
            "status_update_oldest_seconds", "How long the oldest of them has waited."
        )
        self.failed_cycles = counter(
            "failed_scheduling_cycles",
            "Cycles that decided nothing because of an error, by the plugin that raised it.",
            ("plugin",),
        )
        self.cycles_not_kept = counter(
            "cycles_not_kept", "Cycles that the journal did not keep, because the disk did not."
        )
        self.plugin_failures = counter(
            "plugin_failures",
            "Questions of cycles that a plugin answered with an error, and what was safe counted.",
            ("plugin", "hook"),
        )
        self._decisions = counter(
            "decisions",
            "Pods that cycles decided about: bound, nominated (they wait for what others leave), "
            "evicted (the reason is the action that did it).",
            ("result", "reason"),
        )
        self._waiting = gauge(
            "waiting_podgroups",
            "Pod groups that the last cycle left waiting, by the reason.",
            ("reason",),
        )
        self.resync_depth = gauge(
            "resync_depth", "Pods of which it is being found out what became of a write."
        )
        self.oldest_assumption_s = gauge(
            "oldest_assumption_seconds",
            "Age of the oldest decision that the watch does not confirm; 0: there is none.",
        )
        self.overdue = counter(
            "overdue_assumptions", "Decisions not confirmed in time, whose pods were read again."
        )
        self.being_written = gauge(
            "decisions_in_flight",
            "Pod groups, plans of evictions and requests that are being written.",
        )

    def count(self, counters: Mapping[str, int]) -> None:
        """What the actions of one cycle did, by `<action>.<what>`."""
        for name, amount in counters.items():
            action, _, what = name.rpartition(".")
            if what in self._counted:
                self._counted[what].labels(action).inc(amount)

    def decided(self, plan: Plan, explanation: Explanation) -> None:
        """What one cycle decided, and what keeps waiting, by what most nodes say."""
        self._decisions.labels("bound", "").inc(len(plan.binds))
        self._decisions.labels("nominated", "").inc(len(plan.nominations))
        for action, number in Counts(one.action for one in plan.evictions).items():
            self._decisions.labels("evicted", action).inc(number)
        waiting = Counts(refusals[0].dominant for refusals in explanation.refusals.values())
        self._waiting.clear()
        for reason, number in waiting.items():
            self._waiting.labels(reason.name.lower()).set(number)

    def watch_status_updates(
        self, backlog: Callable[[], int], oldest_s: Callable[[], float]
    ) -> None:
        """Read when somebody looks."""
        self._status_backlog.set_function(backlog)
        self._status_oldest_s.set_function(oldest_s)

    def fair_shares(self, by_queue: Mapping[str, Mapping[str, float]]) -> None:
        """Of each queue by the name that people see; those of queues that are gone are removed."""
        for resource, (gauge, unit) in self._fair_shares.items():
            gauge.clear()
            for queue, amounts in by_queue.items():
                gauge.labels(queue).set(amounts[resource] / unit)

    def evicted(self, group: PodGroup, pool: str, action: str, now_s: float) -> None:
        meta = group.metadata
        series = (meta.name, meta.namespace, meta.uid, pool, action)
        self._evicted.labels(*series).inc()
        self._evicted_series[series] = now_s
        self._evicted_series.move_to_end(series)
        if len(self._evicted_series) > _SERIES_MAX:
            self._forget_oldest()

    async def age(self, clock: Clock) -> None:
        """Let go the series of groups that nothing was taken from for long: most are gone."""
        while True:
            await clock.sleep(_SERIES_LAST_S / 10)
            until_s = clock.monotonic_s() - _SERIES_LAST_S
            while self._evicted_series and next(iter(self._evicted_series.values())) < until_s:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest, _ = self._evicted_series.popitem(last=False)
        self._evicted.remove(*oldest)
