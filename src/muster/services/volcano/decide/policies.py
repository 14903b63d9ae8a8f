"""What happened to a job, and what its policies want done about it.

Events are read off the pods as they are, so that a controller that was away misses none but the end
of a pod that is gone without a trace; those it was told of while it watched are `lost`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.api.volcano import UNKNOWN
from muster.api.volcano_batch import (
    ANY_EVENT,
    JOB_UNKNOWN,
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    POD_RUNNING,
    TASK_COMPLETED,
    TASK_FAILED,
    Job,
    LifecyclePolicy,
    TaskSpec,
)
from muster.services.volcano.decide.members import Member, Members

_QUIET = (POD_PENDING, POD_RUNNING)
"""Every pod that is well comes by these: `*` does not mean them."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that holds of a job now."""

    name: str
    task: str = ""
    member: Member | None = None
    since_s: float = 0.0

    def __str__(self) -> str:
        if self.member is None:
            return f"{self.name} of task {self.task}" if self.task else self.name
        code = f" with exit code {self.member.exit_code}" if self.member.exit_code else ""
        return f"{self.name} of pod {self.member.key.name}{code}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a policy wants done, because of an event."""

    action: str
    event: JobEvent


@dataclass(frozen=True, slots=True)
class Wishes:
    """Those that are due, the first first; and when the next is."""

    due: Sequence[Wish] = ()
    next_s: float | None = None


def wishes(job: Job, events: Sequence[JobEvent], now_s: float) -> Wishes:
    due: list[Wish] = []
    later: list[float] = []
    tasks = {task.name: task for task in job.spec.tasks}
    for event in events:
        policy = _policy_for(event, tasks.get(event.task), job)
        if policy is None:
            continue
        due_s = event.since_s + policy.timeout.seconds if policy.timeout else now_s
        if due_s <= now_s:
            due.append(Wish(policy.action, event))
        else:
            later.append(due_s)
    return Wishes(due, min(later, default=None))


def events_of(
    job: Job, members: Members, lost: Sequence[Member], group_phase: str, now_s: float
) -> Iterator[JobEvent]:
    """Everything that policies can be about; of the present version of the job alone."""
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    retries = {task.name: task.max_retry for task in job.spec.tasks}
    gone = {one.uid for one in lost}
    for one in (*lost, *members.all):
        is_counted = one.version == job.status.version and not one.is_replaced
        if not is_counted or one.index >= replicas.get(one.task, 0):
            continue
        if one.uid in gone or (one.is_going and not one.has_ended):
            yield JobEvent(POD_EVICTED, one.task, one, now_s if one.uid in gone else one.since_s)
        elif one.phase == "Failed":
            yield JobEvent(POD_FAILED, one.task, one, one.since_s)
        elif one.restarts > retries[one.task]:
            yield JobEvent(TASK_FAILED, one.task, one, now_s)
        elif one.phase in ("Pending", "Running"):
            name = POD_RUNNING if one.phase == "Running" else POD_PENDING
            yield JobEvent(name, one.task, one, one.since_s)
    for task in job.spec.tasks:
        done = members.counts(job.status.version, task.name).succeeded
        if task.replicas and done >= task.replicas:
            ends = [one.since_s for one in members.by_task[task.name]]
            yield JobEvent(TASK_COMPLETED, task.name, None, max(ends))
    if group_phase == UNKNOWN:
        yield JobEvent(JOB_UNKNOWN, since_s=now_s)


def _policy_for(event: JobEvent, task: TaskSpec | None, job: Job) -> LifecyclePolicy | None:
    """Those of the task go before those of the job; among them, the first that matches."""
    mine = task.policies if task is not None else ()
    return next((one for one in (*mine, *job.spec.policies) if _matches(one, event)), None)


def _matches(policy: LifecyclePolicy, event: JobEvent) -> bool:
    if policy.exit_code is not None:
        failed = event.name == POD_FAILED and event.member is not None
        return failed and event.member is not None and event.member.exit_code == policy.exit_code
    named = policy.all_events
    return event.name in named or (ANY_EVENT in named and event.name not in _QUIET)
