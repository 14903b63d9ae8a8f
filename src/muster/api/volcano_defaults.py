"""What Volcano's admission fills in, and its controllers assume where nobody filled it in."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api.meta import replace
from muster.api.volcano import DEFAULT_QUEUE
from muster.api.volcano_batch import DEFAULT_MAX_RETRY, Job, JobSpec, TaskSpec

SCHEDULER: Final = "volcano"
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "tensorflow": ("svc",),
    "pytorch": ("svc",),
    "mpi": ("svc", "ssh"),
    "ray": ("svc",),
}
"""Plugins that need others."""


def with_defaults(job: Job) -> Job:
    """The job with every default of its spec written out."""
    tasks = tuple(_task(task, index) for index, task in enumerate(job.spec.tasks))
    spec: JobSpec = replace(
        job.spec,
        tasks=tasks,
        queue=job.spec.queue or DEFAULT_QUEUE,
        scheduler_name=job.spec.scheduler_name or SCHEDULER,
        max_retry=job.spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=job.spec.min_available or sum(task.min_available or 0 for task in tasks),
        plugins=_plugins(job.spec.plugins),
    )
    return replace(job, spec=spec)


def default_changes(job: Job) -> dict[str, Any]:
    """The same as the fields of the spec that change, for whoever writes it."""
    full = with_defaults(job).spec
    found: dict[str, Any] = {}
    for field, before, after in (
        ("queue", job.spec.queue, full.queue),
        ("schedulerName", job.spec.scheduler_name, full.scheduler_name),
        ("maxRetry", job.spec.max_retry, full.max_retry),
        ("minAvailable", job.spec.min_available, full.min_available),
        ("plugins", job.spec.plugins, full.plugins),
    ):
        if before != after:
            found[field] = after
    tasks = [_task_changes(*pair) for pair in zip(job.spec.tasks, full.tasks, strict=True)]
    return {**found, "tasks": tasks} if any(tasks) else found


def _task(task: TaskSpec, index: int) -> TaskSpec:
    return replace(
        task,
        name=task.name or f"default{index}",
        min_available=_least(task) if task.min_available is None else task.min_available,
        max_retry=task.max_retry or DEFAULT_MAX_RETRY,
    )


def _least(task: TaskSpec) -> int:
    """All, or the parts that it says start together."""
    parts = task.partition_policy
    if parts is None or parts.min_partitions <= 0:
        return task.replicas
    return parts.min_partitions * parts.partition_size


def _task_changes(before: TaskSpec, after: TaskSpec) -> dict[str, Any]:
    pairs = (
        ("name", before.name, after.name),
        ("minAvailable", before.min_available, after.min_available),
        ("maxRetry", before.max_retry, after.max_retry),
    )
    return {field: new for field, old, new in pairs if old != new}


def _plugins(given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    found = dict(given)
    for name in given:
        for needed in _ALSO.get(name, ()):
            found.setdefault(needed, ())
    return found
