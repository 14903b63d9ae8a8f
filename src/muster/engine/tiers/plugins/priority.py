"""`priority`: higher first, and lower gives way. `conformance`: what the system needs stays."""

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.groups import SubJob
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.numerics.arrays import Floats, Rows


class Priority(WithoutArguments):
    """Volcano's and kube-batch's `priority`."""

    name = "priority"

    def open(self, view: View) -> SessionPlugin:
        return _Priorities()


class _Priorities(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups
        self._jobs, self._tasks = tiers.groups.snapshot.jobs, tiers.groups.snapshot.tasks

    def job_keys(self, jobs: Rows) -> Floats:
        return -self._jobs.priority[jobs].astype(np.float64)[:, np.newaxis]

    def task_keys(self, tasks: Rows) -> Floats:
        return -self._groups.priorities[tasks][:, np.newaxis]

    def sub_job_order(self, left: SubJob, right: SubJob) -> float:
        highest = [
            max((self._groups.priority(task) for task in part.tasks), default=0)
            for part in (left, right)
        ]
        return highest[1] - highest[0]

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        """Lower jobs, and lower tasks of its own."""
        own = int(self._tasks.job[task])

        def is_lower(other: int) -> bool:
            job = int(self._tasks.job[other])
            if job == own:
                return self._groups.priority(other) < self._groups.priority(task)
            return bool(self._jobs.priority[job] < self._jobs.priority[own])

        return [candidate for candidate in candidates if is_lower(candidate)]

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> Sequence[int]:
        if action != "gangpreempt":
            return candidates
        priority = self._jobs.priority
        return [each for each in candidates if priority[self._tasks.job[each]] < priority[job]]

    def job_starving(self, job: int) -> bool:
        """As long as some task of it has no node, and is not about to have one."""
        return self._groups.has_waiting_tasks(job)


class Conformance(WithoutArguments):
    """Volcano's and kube-batch's `conformance`."""

    name = "conformance"

    def open(self, view: View) -> SessionPlugin:
        return _KeepsTheSystem()


class _KeepsTheSystem(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return [each for each in candidates if not self._groups.pod(each).is_critical]

    reclaimable = preemptable

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> list[int]:
        return [each for each in candidates if not self._groups.pod(each).is_critical]
