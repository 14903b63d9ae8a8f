"""`gang`: a job starts with its minimum or not at all, and loses nothing of it to others."""

from collections.abc import Sequence

import numpy as np

from muster.engine.gang import failed_binding
from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.engine.tiers.groups import IS_PROMISED, IS_READY, IS_VALID, SubJob
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.reasons import Reason, Refusal
from muster.model.status import TaskStatus
from muster.numerics.arrays import Floats, Rows


class Gang(WithoutArguments):
    """Volcano's and kube-batch's `gang`."""

    name = "gang"

    def open(self, view: View) -> SessionPlugin:
        return _Gangs()


class EarlyGang(WithoutArguments):
    """That of kube-batch: whoever has a task that waits may take from others."""

    name = "gang"

    def open(self, view: View) -> SessionPlugin:
        return _EarlyGangs()


class LooseGang(WithoutArguments):
    """That of kube-batch since 0.4: besides, one that may start alone is no gang."""

    name = "gang"

    def open(self, view: View) -> SessionPlugin:
        return _LooseGangs()


class _Gangs(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def job_valid(self, job: int) -> Refusal | None:
        groups = self._groups
        found, least = groups.valid(job), groups.minimum(job)
        if found < least:
            leaf = groups.leaf(job)
            gated = int(groups.ledger.counts[leaf, TaskStatus.GATED])
            why = Reason.GATED if found + gated >= least else Reason.TOO_FEW_TASKS
            if why is Reason.GATED and (failed := failed_binding(groups.snapshot, leaf)):
                return Refusal(Reason.BIND_REFUSED, subject=failed)
            return Refusal(why, found=found, minimum=least, gated=gated)
        short = groups.short_role(job, IS_VALID, False) or groups.short_policy(job)
        if short is None:
            return None
        name, found, least = short
        return Refusal(Reason.TOO_FEW_TASKS, sub_group=name, found=found, minimum=least)

    def job_keys(self, jobs: Rows) -> Floats:
        """Those that are not ready first."""
        return self._groups.ready_jobs(jobs).astype(np.float64)[:, np.newaxis]

    def sub_job_order(self, left: SubJob, right: SubJob) -> float:
        return self.sub_job_ready(left) - self.sub_job_ready(right)

    def job_ready(self, job: int) -> bool:
        groups = self._groups
        return (
            groups.is_ready(job)
            and groups.has_roles(job, IS_READY, True)
            and groups.has_parts(job, IS_READY)
        )

    def job_pipelined(self, job: int) -> Vote:
        groups = self._groups
        is_pipelined = (
            groups.is_pipelined(job)
            and groups.has_roles(job, IS_PROMISED, True)
            and groups.has_parts(job, IS_PROMISED)
        )
        return Vote.PERMIT if is_pipelined else Vote.REJECT

    def job_starving(self, job: int) -> bool:
        return self._groups.is_starving(job)

    def sub_job_ready(self, part: SubJob) -> bool:
        return self._groups.part_count(part, IS_READY) >= part.minimum

    def sub_job_pipelined(self, part: SubJob) -> Vote:
        has_enough = self._groups.part_count(part, IS_PROMISED) >= part.minimum
        return Vote.PERMIT if has_enough else Vote.REJECT

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        """What is above each job's minimum, counted down candidate by candidate."""
        job_of, left, victims = self._groups.snapshot.tasks.job, dict[int, int](), []
        for candidate in candidates:
            job = int(job_of[candidate])
            spare = left.setdefault(job, self._groups.ready(job) - self._groups.minimum(job))
            if spare > 0:
                left[job] -= 1
                victims.append(candidate)
        return victims

    reclaimable = preemptable

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> Sequence[int]:
        """Bundles see to minimums themselves."""
        return candidates


class _EarlyGangs(_Gangs):
    def job_starving(self, job: int) -> bool:
        return self._groups.has_waiting_tasks(job)


class _LooseGangs(_EarlyGangs):
    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        spare = set(super().preemptable(task, candidates))
        job_of, minimum = self._groups.snapshot.tasks.job, self._groups.minimum
        return [one for one in candidates if one in spare or minimum(int(job_of[one])) == 1]

    reclaimable = preemptable
