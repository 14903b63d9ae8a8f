"""Work that has just started is left alone for a while.

How long is said by queues, with a default. For reclaim it may be read from the victim's own queue
and its ancestors (`queue`), or from the level where the two queues part (`lca`), so that a queue's
inner rules do not bind those outside of it. Jobs that can shrink may always lose their surplus.
"""

import math
from collections.abc import Sequence

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Actor, Scenario, SessionPlugin, View
from muster.model.reasons import Reason, Refusal
from muster.model.records import QueueRecord
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Bools, Rows
from muster.numerics.tree import path

_RECLAIM, _PREEMPT = "reclaim", "preempt"


class MinRuntime:
    """KAI's `minruntime`."""

    name = "minruntime"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(
            ("defaultReclaimMinRuntime", "defaultPreemptMinRuntime", "reclaimResolveMethod")
        )
        self._default_s = {
            _RECLAIM: max(0.0, arguments.key("defaultReclaimMinRuntime").duration_s(0.0)),
            _PREEMPT: max(0.0, arguments.key("defaultPreemptMinRuntime").duration_s(0.0)),
        }
        method = arguments.key("reclaimResolveMethod").choice(("lca", "queue"), "lca")
        self._is_by_level = method == "lca"

    def open(self, view: View) -> SessionPlugin:
        queues = view.snapshot.queues.records
        if not any(self._default_s.values()) and not any(_protects(queue) for queue in queues):
            return SessionPlugin()
        return _Protection(view, self._default_s, self._is_by_level)


def _protects(queue: QueueRecord) -> bool:
    return bool(queue.reclaim_min_runtime_s or queue.preempt_min_runtime_s)


class _Protection(SessionPlugin):
    depends_on_time = True

    def __init__(self, view: View, default_s: dict[str, float], is_by_level: bool) -> None:
        self._snapshot = view.snapshot
        self._ledger = view.ledger
        self._now_s = view.now_s
        self._default_s = default_s
        self._is_by_level = is_by_level

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools | None:
        if action not in self._default_s:
            return None
        return np.array(
            [
                self._protected_until_s(action, actor.job, int(job)) is None
                or self._can_shrink(int(job))
                for job in jobs
            ],
            dtype=np.bool_,
        )

    def accept(self, scenario: Scenario) -> Refusal | None:
        """No protected job may fall below its minimum."""
        if scenario.action not in self._default_s:
            return None
        tasks = self._snapshot.tasks
        leaves, taken = np.unique(tasks.leaf[scenario.victims], return_counts=True)
        for leaf, count in zip(leaves, taken, strict=True):
            job = int(self._snapshot.leaves.job[leaf])
            until_s = self._protected_until_s(scenario.action, scenario.job, job)
            used = self._ledger.counts[leaf][IS_ACTIVE_USED].sum()
            if until_s is not None and self._snapshot.leaves.minimum[leaf] > used - count:
                return self._protected(job, until_s)
        return None

    def why_protected(self, action: str, actor: Actor, jobs: Rows) -> Sequence[Refusal]:
        """The job whose protection ends first."""
        if action not in self._default_s:
            return ()
        ends = (
            (until_s, self._snapshot.jobs.records[job].key, job)
            for job in jobs.tolist()
            if (until_s := self._protected_until_s(action, actor.job, job)) is not None
        )
        first = min(ends, default=None)
        return () if first is None else (self._protected(first[2], first[0]),)

    def next_change_s(self) -> float:
        """When the protection of some job ends, under whatever rule it has."""
        jobs, queues = self._snapshot.jobs, self._snapshot.queues.records
        said = {queue.reclaim_min_runtime_s for queue in queues}
        said |= {queue.preempt_min_runtime_s for queue in queues} | set(self._default_s.values())
        runtimes_s = [runtime_s for runtime_s in said if runtime_s]
        starts_s = {jobs.records[job].last_start_s for job in np.flatnonzero(jobs.live).tolist()}
        ends = (start_s + each for start_s in starts_s if start_s for each in runtimes_s)
        return min((end_s for end_s in ends if end_s > self._now_s), default=math.inf)

    def _protected(self, job: int, until_s: float) -> Refusal:
        key = self._snapshot.jobs.records[job].key
        return Refusal(Reason.PROTECTED, subject=key, until_s=until_s)

    def _can_shrink(self, job: int) -> bool:
        leaves = self._snapshot.leaves_of_job(job)
        size = self._snapshot.leaves.start[leaves + 1] - self._snapshot.leaves.start[leaves]
        return bool((size > self._snapshot.leaves.minimum[leaves]).any())

    def _protected_until_s(self, action: str, actor: int, victim: int) -> float | None:
        started_s = self._snapshot.jobs.records[victim].last_start_s
        if started_s is None:
            return None
        until_s = started_s + self._runtime_s(action, actor, victim)
        return until_s if self._now_s < until_s else None

    def _runtime_s(self, action: str, actor: int, victim: int) -> float:
        queues = self._snapshot.queues
        upwards = path(queues.parent, int(self._snapshot.jobs.queue[victim]))
        if action == _PREEMPT:
            found = [queues.records[row].preempt_min_runtime_s for row in upwards]
        else:
            if self._is_by_level:
                upwards = self._from_the_level(upwards, int(self._snapshot.jobs.queue[actor]))
            found = [queues.records[row].reclaim_min_runtime_s for row in upwards]
        return next((each for each in found if each is not None), self._default_s[action])

    def _from_the_level(self, upwards: list[int], actor_queue: int) -> list[int]:
        """The victim's path from just below the queue it has in common with the actor.

        Without a common queue only the victim's top queue speaks.
        """
        ancestors = set(path(self._snapshot.queues.parent, actor_queue))
        common = next((place for place, row in enumerate(upwards) if row in ancestors), None)
        if common is None:
            return upwards[-1:]
        return upwards[max(0, common - 1) :]
