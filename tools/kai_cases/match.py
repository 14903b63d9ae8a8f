"""Judging a case: does the cluster that a session left look as KAI's table expects?

Checked are status and node of jobs and tasks, whole GPUs of nodes, and the bounds on binds,
evictions and pipelinings. Nodes are compared only where the expected status is not Pending: there
KAI compares with a remnant of the input. Texts, GPU groups and start times are not judged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from tools.kai_cases import format as kai
from tools.kai_cases.cases import state_of, task_id
from tools.kai_cases.devices import devices_after

from muster.model.records import ClusterRecords, TaskRecord
from muster.model.status import TaskStatus
from muster.testing.occupancy import occupancies

_PENDING = "Pending"
_WRITTEN_BACK = {
    TaskStatus.BINDING: TaskStatus.RUNNING,
    TaskStatus.ALLOCATED: TaskStatus.RUNNING,
    TaskStatus.PIPELINED: TaskStatus.PENDING,
    TaskStatus.RELEASING: TaskStatus.PENDING,
}


@dataclass(frozen=True, slots=True)
class CaseSession:
    """What a session left: the cluster, and how often it acted."""

    after: ClusterRecords
    binds: int = 0
    evictions: int = 0
    pipelinings: int = 0

    @property
    def tasks(self) -> dict[str, TaskRecord]:
        """The tasks by id."""
        return {task.uid: task for task in self.after.tasks}


def mismatches(case: kai.Case, session: CaseSession) -> list[str]:
    """What is not as expected; empty when the case passes."""
    expected = case.expected or kai.Expectations()
    tasks = session.tasks
    return [
        *_wrong_jobs(case, expected.jobs or {}, tasks),
        *_wrong_tasks(expected.tasks or {}, tasks),
        *_wrong_nodes(expected.nodes or {}, session.after),
        *over_bounds(case, session),
    ]


def over_bounds(case: kai.Case, session: CaseSession) -> Iterator[str]:
    """Where the session acted more often than its mocks allow. No mocks allow nothing."""
    most = kai.CacheRequirements()
    if case.mocks is not None and case.mocks.cache_requirements is not None:
        most = case.mocks.cache_requirements
    elif case.mocks is not None:
        return
    done = {
        "binds": (session.binds, most.number_of_cache_binds),
        "evictions": (session.evictions, most.number_of_cache_evictions),
        "pipelinings": (session.pipelinings, most.number_of_pipeline_actions),
    }
    for what, (count, bound) in done.items():
        if count > bound:
            yield f"{count} {what}, at most {bound} allowed"


def written_back(case: kai.Case, session: CaseSession) -> kai.Case:
    """The case as the next round finds it: bound tasks run, evicted ones are pending again."""
    tasks = session.tasks
    jobs = tuple(
        msgspec.structs.replace(
            job,
            tasks=tuple(
                _task_written_back(job, before, tasks[task_id(job, index)])
                for index, before in enumerate(job.tasks)
            ),
        )
        for job in case.jobs
    )
    devices = devices_after(case.dra, session.after.cluster_objects)
    return msgspec.structs.replace(case, jobs=jobs, dra=devices)


def _task_written_back(job: kai.Job, before: kai.Task, after: TaskRecord) -> kai.Task:
    stays = job.delete_job_in_test and after.status is TaskStatus.RELEASING
    status = after.status if stays else _WRITTEN_BACK.get(after.status, after.status)
    if status is TaskStatus.PENDING:
        return msgspec.structs.replace(before, state=_PENDING, node_name="")
    return msgspec.structs.replace(
        before, state=state_of(status), node_name=after.node, gpu_groups=after.gpu_shares
    )


def _wrong_jobs(
    case: kai.Case, expected: Mapping[str, kai.Expected], tasks: Mapping[str, TaskRecord]
) -> Iterator[str]:
    jobs = {job.name: job for job in case.jobs}
    for name, wanted in expected.items():
        if name not in jobs:
            yield f"job {name} does not exist"
            continue
        ids = [task_id(jobs[name], index) for index in range(len(jobs[name].tasks))]
        yield from _misread(name, wanted, [tasks[each] for each in ids])
        for each in ids:
            yield from _wrong_task(wanted, tasks[each])


def _wrong_tasks(
    expected: Mapping[str, kai.Expected], tasks: Mapping[str, TaskRecord]
) -> Iterator[str]:
    for name, wanted in expected.items():
        if name in tasks:
            yield from _wrong_task(wanted, tasks[name])


def _wrong_task(wanted: kai.Expected, task: TaskRecord) -> Iterator[str]:
    state = state_of(task.status)
    if wanted.status and state != wanted.status:
        yield f"{task.uid} is {state}{_at(task.node)}, not {wanted.status}{_at(wanted.node_name)}"
    elif wanted.node_name and wanted.status != _PENDING and task.node != wanted.node_name:
        yield f"{task.uid} is {state}{_at(task.node)}, not{_at(wanted.node_name)}"


def _at(node: str) -> str:
    return f" on {node}" if node else ""


def _misread(name: str, wanted: kai.Expected, tasks: list[TaskRecord]) -> Iterator[str]:
    """A check of the reader: what a job requests follows from the input alone."""
    sums = {
        "cpu": wanted.milli_cpu_required,
        "memory": wanted.memory_required,
    }
    for resource, amount in sums.items():
        read = sum(task.request.get(resource, 0) for task in tasks)
        if amount and read != amount:
            yield f"{name} was read as requesting {read} {resource}, not {amount}"


def _wrong_nodes(expected: Mapping[str, kai.ExpectedNode], after: ClusterRecords) -> Iterator[str]:
    found = occupancies(after)
    for name, wanted in expected.items():
        node = found[name]
        if node.idle_gpus != wanted.idle_gpus or node.releasing_gpus != wanted.releasing_gpus:
            yield (
                f"{name} has {node.idle_gpus:g} idle and {node.releasing_gpus:g} releasing GPUs,"
                f" not {wanted.idle_gpus:g} and {wanted.releasing_gpus:g}"
            )
