"""Whether a plan that differs from KAI's is better than it, by a rule that can be checked.

It is, when every pending job that KAI placed is placed at least as far, fewer GPUs are evicted (or
as many, and more tasks placed), at no priority more GPUs of that priority or above are evicted
than KAI evicted, nothing that must not be touched was evicted, and no node is overbooked. Only
cases that say what became of every task can be judged.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tools.kai_cases import format as kai
from tools.kai_cases.cases import status_of, task_id

from muster.model.records import ClusterRecords, GpuKind, JobRecord, TaskRecord
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.axis import GPU_UNIT
from muster.testing.occupancy import occupancies


@dataclass(frozen=True, slots=True)
class Deeds:
    """What a session did: tasks placed per job, GPUs evicted per job."""

    placed: Mapping[str, int]
    evicted: Mapping[str, float]


def is_better(case: kai.Case, before: ClusterRecords, after: ClusterRecords) -> bool:
    """Whether `after` is a better outcome of `before` than the one the case expects."""
    expected = expected_statuses(case)
    if any(task.uid not in expected for task in before.tasks):
        return False
    theirs = deeds(before, expected)
    ours = deeds(before, {task.uid: task.status for task in after.tasks})
    jobs = {job.key: job for job in before.jobs}
    return (
        all(ours.placed.get(job, 0) >= count for job, count in theirs.placed.items())
        and _is_cheaper(ours, theirs)
        and _keeps_priorities(ours, theirs, jobs)
        and is_sound(before, after, ours)
    )


def is_sound(before: ClusterRecords, after: ClusterRecords, ours: Deeds) -> bool:
    """Whether nothing that must not be touched was evicted, and no node is overbooked."""
    jobs = {job.key: job for job in before.jobs}
    return all(jobs[job].is_preemptible for job in ours.evicted) and not any(
        node.overbooked() for node in occupancies(after).values()
    )


def expected_statuses(case: kai.Case) -> dict[str, TaskStatus]:
    """What the case says of each task, by itself or by its job."""
    expected = case.expected or kai.Expectations()
    said: dict[str, str] = {}
    for job in case.jobs:
        if job.name in (of_jobs := expected.jobs or {}):
            ids = (task_id(job, index) for index in range(len(job.tasks)))
            said.update(dict.fromkeys(ids, of_jobs[job.name].status))
    said.update((name, each.status) for name, each in (expected.tasks or {}).items())
    return {name: status_of(status) for name, status in said.items() if status}


def deeds(before: ClusterRecords, after: Mapping[str, TaskStatus]) -> Deeds:
    """What became of the tasks of a cluster."""
    placed: Counter[str] = Counter()
    evicted: dict[str, float] = {}
    for task in before.tasks:
        status = after[task.uid]
        if task.status is TaskStatus.PENDING and status in ACTIVE_ALLOCATED:
            placed[task.job] += 1
        elif task.status in ACTIVE_ALLOCATED and status is not task.status:
            evicted[task.job] = evicted.get(task.job, 0.0) + _gpus(task)
    return Deeds(placed, evicted)


def _gpus(task: TaskRecord) -> float:
    if task.gpu.kind is GpuKind.FRACTION:
        return task.gpu.devices * task.gpu.portion / GPU_UNIT
    if task.gpu.kind is GpuKind.MEMORY:
        return task.gpu.devices * task.gpu.memory_mib / 100
    return task.gpu.devices + task.gpu.mig_slices


def _is_cheaper(ours: Deeds, theirs: Deeds) -> bool:
    our_gpus, their_gpus = sum(ours.evicted.values()), sum(theirs.evicted.values())
    more_placed = sum(ours.placed.values()) > sum(theirs.placed.values())
    return our_gpus < their_gpus - 1e-9 or (our_gpus < their_gpus + 1e-9 and more_placed)


def _keeps_priorities(ours: Deeds, theirs: Deeds, jobs: Mapping[str, JobRecord]) -> bool:
    def evicted_from(deeds: Deeds, priority: int) -> float:
        return sum(g for job, g in deeds.evicted.items() if jobs[job].priority >= priority)

    priorities = {jobs[job].priority for job in ours.evicted}
    return all(evicted_from(ours, p) <= evicted_from(theirs, p) + 1e-9 for p in priorities)
