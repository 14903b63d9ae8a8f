"""The life of a job: which action leads from which phase to which, and what counts lead to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.api.volcano_batch import (
    ABORT_JOB,
    ABORTED,
    ABORTING,
    COMPLETE_JOB,
    COMPLETED,
    COMPLETING,
    FAILED,
    PENDING,
    RESTART_JOB,
    RESTART_PARTITION,
    RESTART_POD,
    RESTART_TASK,
    RESTARTING,
    RESUME_JOB,
    RUNNING,
    TERMINATE_JOB,
    TERMINATED,
    TERMINATING,
    Job,
)
from muster.services.volcano.decide.members import Counts, Members


@dataclass(frozen=True, slots=True)
class Transition:
    """What an action does to a job."""

    phase: str
    kills_all: bool = False
    """All pods of now belong to the past: new ones are made."""
    is_retry: bool = False


_RESTART: Final = Transition(RESTARTING, kills_all=True, is_retry=True)
_REPLACE: Final = Transition(RESTARTING, is_retry=True)
_ALIVE: Final[Mapping[str, Transition]] = {
    RESTART_JOB: _RESTART,
    RESTART_TASK: _REPLACE,
    RESTART_POD: _REPLACE,
    RESTART_PARTITION: _REPLACE,
    ABORT_JOB: Transition(ABORTING),
    TERMINATE_JOB: Transition(TERMINATING),
    COMPLETE_JOB: Transition(COMPLETING),
}
# Whoever stopped a job by hand has not used up one of its retries.
_RESUME: Final = {RESUME_JOB: Transition(RESTARTING, kills_all=True)}
TRANSITIONS: Final[Mapping[str, Mapping[str, Transition]]] = {
    PENDING: _ALIVE,
    RUNNING: _ALIVE,
    ABORTING: _RESUME,
    ABORTED: _RESUME,
}
"""By phase and action; what is not here changes nothing."""

_STOPS: Final = {action: _ALIVE[action] for action in (ABORT_JOB, TERMINATE_JOB, COMPLETE_JOB)}
BY_COMMAND: Final[Mapping[str, Mapping[str, Transition]]] = {**TRANSITIONS, RESTARTING: _STOPS}
"""The same of commands: a job that rests before it starts anew can be stopped."""

ENDS: Final = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
"""What becomes of a job whose pods are being killed, once they are gone."""
_AT_ONCE: Final = 3
_PAUSE_S: Final = 10
_PAUSE_MAX_S: Final = 300
MAKES_PODS: Final = (PENDING, RUNNING)
IDLE: Final = (ABORTED, COMPLETED, TERMINATED, FAILED)
"""Phases in which a job has no pods but those that ended."""


def next_phase(job: Job, phase: str, members: Members) -> str:
    """Where the pods, as they are, lead a job."""
    counts = members.counts(job.status.version)
    if phase in ENDS:
        return phase if counts.alive else ENDS[phase]
    decide = _BY_COUNTS.get(phase)
    return decide(job, counts, members) if decide is not None else phase


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def pause_s(retry: int) -> float:
    """How long a job rests before this retry: not at all before those that it has by default, then
    like a container that crashes again and again, from ten seconds to five minutes.
    """
    if retry <= _AT_ONCE:
        return 0.0
    return float(min(_PAUSE_S << min(retry - _AT_ONCE - 1, 10), _PAUSE_MAX_S))


def _from_pending(job: Job, counts: Counts, members: Members) -> str:
    started = counts.running + counts.succeeded + counts.failed
    return RUNNING if started >= (job.spec.min_available or 0) else PENDING


def _from_running(job: Job, counts: Counts, members: Members) -> str:
    total, least = total_replicas(job), job.spec.min_available or 0
    wanted = job.spec.min_success
    if not total:
        return RUNNING
    if wanted is not None and counts.succeeded >= wanted:
        return COMPLETED
    if counts.succeeded + counts.failed == total:
        if _lacks_a_task(job, members) or wanted is not None:
            return FAILED
        return COMPLETED if counts.succeeded >= least else FAILED
    return PENDING if counts.pending > total - least else RUNNING


def _from_restarting(job: Job, counts: Counts, members: Members) -> str:
    if job.status.retry_count >= job.spec.max_retry:
        return FAILED
    left = total_replicas(job) - counts.terminating
    return PENDING if left >= (job.spec.min_available or 0) else RESTARTING


_BY_COUNTS: Final[Mapping[str, Callable[[Job, Counts, Members], str]]] = {
    PENDING: _from_pending,
    RUNNING: _from_running,
    RESTARTING: _from_restarting,
}


def _lacks_a_task(job: Job, members: Members) -> bool:
    """Whether a task has fewer successes than it must. A job that needs less than its tasks in sum
    does not care which of them succeed."""
    needs = {task.name: task.min_available or 0 for task in job.spec.tasks}
    if (job.spec.min_available or 0) < sum(needs.values()):
        return False
    version = job.status.version
    return any(members.counts(version, name).succeeded < least for name, least in needs.items())
