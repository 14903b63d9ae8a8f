"""The pods of a job as the job sees them: which task, which index, how far they got."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.api.meta import Key
from muster.api.volcano import ANNOTATION_TASK
from muster.api.volcano_batch import (
    ANNOTATION_JOB_VERSION,
    ANNOTATION_RESTARTED,
    LABEL_TASK_INDEX,
    ContainerStatus,
    Job,
    JobPod,
    TaskSpec,
)
from muster.base.parse_int import parse_int


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a job."""

    key: Key
    uid: str
    task: str
    index: int
    version: int
    phase: str
    is_going: bool
    """It has been told to end."""
    is_replaced: bool
    """A policy replaces it: its end is no event."""
    exit_code: int
    """Of the first container that failed; 0 when none did."""
    restarts: int
    is_ready: bool
    since_s: float
    """When it came to its phase, or was made; the first that is known."""

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Counts:
    """The pods of a job, or of one task of it, by what they do."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0

    @property
    def alive(self) -> int:
        """Pods that must end before the job has."""
        return self.pending + self.running + self.terminating + self.unknown


_FIELDS = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class Members:
    """All pods of a job, in the order of tasks and indexes."""

    all: Sequence[Member]
    by_task: Mapping[str, Sequence[Member]] = field(default_factory=dict)

    def counts(self, version: int, task: str | None = None) -> Counts:
        found: Counter[str] = Counter()
        for one in self.all if task is None else self.by_task.get(task, ()):
            is_past = one.version != version or one.is_replaced or one.is_going
            found["terminating" if is_past else _FIELDS.get(one.phase, "unknown")] += 1
        return Counts(**found)


def members_of(job: Job, pods: Iterable[JobPod], replaced: frozenset[str] = frozenset()) -> Members:
    """Those of these pods that the job controls; `replaced`: uids of which we know it before the
    server tells us."""
    order = {task.name: place for place, task in enumerate(job.spec.tasks)}
    found = [
        _member(pod, replaced)
        for pod in pods
        if (owner := pod.metadata.controller) is not None and owner.uid == job.metadata.uid
    ]
    found.sort(key=lambda one: (order.get(one.task, len(order)), one.index, one.key))
    by_task: dict[str, list[Member]] = {}
    for one in found:
        by_task.setdefault(one.task, []).append(one)
    return Members(found, by_task)


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    return f"{job.metadata.name}-{task.name}-{index}"


def _member(pod: JobPod, replaced: frozenset[str]) -> Member:
    meta, status = pod.metadata, pod.status
    statuses = (*status.container_statuses, *status.init_container_statuses)
    is_ready = status.phase == "Succeeded" or (
        status.phase == "Running" and all(one.ready for one in status.container_statuses)
    )
    return Member(
        meta.key,
        meta.uid,
        meta.annotations.get(ANNOTATION_TASK, ""),
        parse_int(meta.labels.get(LABEL_TASK_INDEX, "")) or 0,
        parse_int(meta.annotations.get(ANNOTATION_JOB_VERSION, "")) or 0,
        status.phase or "Pending",
        meta.deletion_timestamp is not None,
        ANNOTATION_RESTARTED in meta.annotations or meta.uid in replaced,
        next((code for one in statuses if (code := _exit_code(one))), 0),
        max((one.restart_count for one in statuses), default=0),
        is_ready,
        _since_s(pod),
    )


def _exit_code(status: ContainerStatus) -> int:
    ended = status.state.terminated
    return ended.exit_code if ended is not None else 0


def _since_s(pod: JobPod) -> float:
    ends = [
        one.state.terminated.finished_at
        for one in pod.status.container_statuses
        if one.state.terminated is not None
    ]
    known = [*ends, pod.status.start_time, pod.metadata.creation_timestamp]
    if pod.metadata.deletion_timestamp is not None:
        known.insert(0, pod.metadata.deletion_timestamp)
    elif pod.status.phase in ("", "Pending"):
        known = [pod.metadata.creation_timestamp]
    return next((at.timestamp() for at in known if at is not None), 0.0)
