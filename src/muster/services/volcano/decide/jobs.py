"""A job, its pods and its group as they are -> what to write next.

A step that ends pods is written into the status of the job first (or, where only some pods are
replaced, onto these pods), and carried out from there: whoever takes over in between finds what was
meant. Every write either names the version that it was decided on, or does no harm twice.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.meta import Key, replace
from muster.api.validation.problems import errors
from muster.api.validation.volcano_jobs import job_problems
from muster.api.volcano import PENDING as GROUP_PENDING
from muster.api.volcano import PodGroup
from muster.api.volcano_batch import (
    ANNOTATION_RESTARTED,
    DEPENDS_ANY,
    FINISHED_PHASES,
    PENDING,
    RESTARTING,
    Command,
    Job,
    JobPod,
    TaskSpec,
)
from muster.api.volcano_defaults import with_defaults
from muster.services.volcano.decide import job_status
from muster.services.volcano.decide.groups import PriorityOf, group_of, group_patch, group_spec
from muster.services.volcano.decide.job_status import Json, Why
from muster.services.volcano.decide.members import Member, Members, members_of, pod_name
from muster.services.volcano.decide.phases import (
    BY_COMMAND,
    IDLE,
    MAKES_PODS,
    TRANSITIONS,
    Transition,
    next_phase,
    pause_s,
)
from muster.services.volcano.decide.plugins import plugin_objects
from muster.services.volcano.decide.pods import PodsOf, claim_name, owner_reference
from muster.services.volcano.decide.policies import events_of, wishes
from muster.services.volcano.decide.replacing import REPLACES, replaceable

CREATE_AT_ONCE: Final = 200
"""Pods made for a job in one go; when the server shows them, the next are."""
END_AT_ONCE: Final = 1000
"""Pods of a job that are marked, or told to go, in one look at it: the rest in the next."""
_AGAIN_S: Final = 1.0
INVALID: Final = "InvalidSpec"
BECAUSE: Final = " because of "
"""Between an action and its event: what a policy did, and no command."""


@dataclass(frozen=True, slots=True)
class JobView:
    """All that a decision is made from."""

    job: Job
    pods: Sequence[JobPod] = ()
    lost: Sequence[JobPod] = ()
    """Pods that are gone since the last look, as they were last seen."""
    replaced: frozenset[str] = frozenset()
    """Uids of pods that were marked for replacement, as far as we know."""
    made: frozenset[str] = frozenset()
    """Names of pods that were made a moment ago, and are not among the pods yet."""
    group: PodGroup | None = None
    commands: Sequence[Command] = ()
    priority_of: PriorityOf = lambda name: 0


@dataclass(frozen=True, slots=True)
class Gone:
    """A pod to be deleted, that very one."""

    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class JobDecision:
    """What to write, in this order."""

    objects: Sequence[tuple[str, Json]] = ()
    """Kind and body of what must exist before pods do."""
    needs_ssh_key: bool = False
    create_group: Json | None = None
    patch_group: Json | None = None
    delete_group: bool = False
    mark: Sequence[Gone] = ()
    """Pods that a policy replaces."""
    delete: Sequence[Gone] = ()
    create: Sequence[Json] = ()
    """Pods: each is built when it is taken, which many of a large template at once would be long.
    """
    status: Json | None = None
    """A merge patch of the job's status, for the version that it was decided on."""
    done_commands: Sequence[Key] = ()
    delete_job: bool = False
    event: Why | None = None
    requeue_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """A job with its defaults, and what was made of its pods."""

    job: Job
    view: JobView
    members: Members
    lost: Sequence[Member]
    now_s: float
    phase: str = field(default=PENDING)


def decide(view: JobView, now_s: float) -> JobDecision:
    job = with_defaults(view.job)
    phase = job.status.state.phase or PENDING
    wrong = errors(job_problems(view.job)) if phase not in FINISHED_PHASES else []
    if wrong:
        why = Why(INVALID, "; ".join(map(str, wrong[:3])), is_warning=True)
        same = job.status.state.reason == INVALID and job.status.state.message == why.message
        status = None if same else job_status.patch(job, phase, None, now_s, why)
        return JobDecision(status=status, event=None if same else why)
    members = members_of(job, view.pods, view.replaced)
    lost = members_of(job, view.lost, view.replaced).all
    case = _Case(job, view, members, lost, now_s, phase)
    return _commanded(case) or _by_policy(case) or _synced(case)


def _commanded(case: _Case) -> JobDecision | None:
    """The oldest command that was not carried out yet."""
    for command in sorted(case.view.commands, key=lambda one: one.metadata.age_order):
        what = f"command {command.metadata.name} ({command.metadata.uid[:8]})"
        if what in case.job.status.state.message:
            return JobDecision(done_commands=[command.key])
        step = BY_COMMAND.get(case.phase, {}).get(command.action)
        if step is None or (step.phase == RESTARTING and not step.kills_all):
            message = (
                f"{what} asks for {command.action!r}, which does nothing to a job in {case.phase}"
            )
            why = Why("CommandIgnored", message, is_warning=True)
            return JobDecision(done_commands=[command.key], event=why)
        said = f": {command.message}" if command.message else ""
        return _stepped(case, step, Why(command.action, f"{command.action} by {what}{said}"))
    return None


def _by_policy(case: _Case) -> JobDecision | None:
    """The first thing that a policy wants now; those that replace single pods go together."""
    steps = TRANSITIONS.get(case.phase, {})
    events = _events(case) if steps else ()
    due = wishes(case.job, tuple(events), case.now_s).due
    due = [wish for wish in due if wish.action in steps]
    pods = replaceable(case.job, case.members) if due else None
    due = [wish for wish in due if wish.action not in REPLACES or (pods and pods.by(wish))]
    if not due or pods is None:
        return None
    first = due[0]
    why = Why(first.action, f"{first.action}{BECAUSE}{first.event}")
    step = _stepped(case, steps[first.action], why)
    if first.action not in REPLACES:
        return step
    marked = pods.by_all(wish for wish in due if wish.action in REPLACES)
    gone = [Gone(one.key, one.uid) for one in marked]
    if len(gone) > END_AT_ONCE:
        return JobDecision(mark=gone[:END_AT_ONCE], requeue_after_s=0.0)
    return _with(step, mark=gone)


def _stepped(case: _Case, step: Transition, why: Why) -> JobDecision:
    """Say what is to be done; the pods are seen to when that is stored."""
    job = case.job
    status = replace(
        job.status,
        version=job.status.version + step.kills_all,
        retry_count=job.status.retry_count + step.is_retry,
    )
    changed = replace(job, status=status)
    patch = job_status.patch(changed, step.phase, None, case.now_s, why, since=job)
    return JobDecision(status=patch, event=why)


def _synced(case: _Case) -> JobDecision:
    """Nothing happened that a policy is about: bring the pods to what the job wants."""
    job, view, phase = case.job, case.view, case.phase
    after = next_phase(job, phase, case.members)
    rest_s = _rest_s(case) if (phase, after) == (RESTARTING, PENDING) else 0.0
    if rest_s > 0:
        after = phase
    counted = job_status.patch(job, after, case.members, case.now_s)
    replicas = {task.name: task.replicas for task in job.spec.tasks}
    of = (one for one in case.members.all if _must_go(case, one, after, replicas))
    going = [Gone(one.key, one.uid) for one in of]
    more_s = _AGAIN_S if len(going) > END_AT_ONCE else None
    going = going[:END_AT_ONCE]
    if after in IDLE:
        ttl = job.spec.ttl_seconds_after_finished if after in FINISHED_PHASES else None
        left_s = None if ttl is None else _finished_s(case, after) + ttl - case.now_s
        return JobDecision(
            delete=going,
            delete_group=view.group is not None,
            status=counted,
            delete_job=left_s is not None and left_s <= 0,
            requeue_after_s=left_s if left_s is not None and left_s > 0 else more_s,
        )
    if after not in MAKES_PODS:
        again_s = more_s if more_s is not None or rest_s <= 0 else rest_s
        return JobDecision(delete=going, status=counted, requeue_after_s=again_s)
    decision = _with(_provided(case), delete=going, status=counted)
    return _with(decision, requeue_after_s=more_s) if more_s is not None else decision


def _provided(case: _Case) -> JobDecision:
    """Group, objects and pods that are missing; pods once the group was let in."""
    job, view = case.job, case.view
    needs = {task.name: task.min_available or 0 for task in job.spec.tasks}
    startable = [task for task in job.spec.tasks if _may_start(case, task, needs)]
    wanted = group_spec(job, startable, view.priority_of)
    next_s = wishes(job, tuple(_events(case)), case.now_s).next_s
    wait_s = None if next_s is None else next_s - case.now_s
    needed = JobDecision(
        objects=[*plugin_objects(job), *_claims(job)],
        needs_ssh_key="ssh" in job.spec.plugins,
        requeue_after_s=wait_s,
    )
    if view.group is None:
        return _with(needed, create_group=group_of(job, startable, view.priority_of))
    needed = _with(needed, patch_group=group_patch(view.group, wanted))
    if view.group.status.phase in ("", GROUP_PENDING):
        return needed
    names = view.made | {pod.metadata.name for pod in view.pods}
    missing = [
        (task, index)
        for task in startable
        for index in range(task.replicas)
        if pod_name(job, task, index) not in names
    ]
    return _with(needed, create=PodsOf(job, missing[:CREATE_AT_ONCE]))


def _may_start(case: _Case, task: TaskSpec, needs: Mapping[str, int]) -> bool:
    """Whether enough pods of those that it depends on are ready. Once it has pods, it goes on."""
    waits = task.depends_on
    if waits is None or not waits.name or case.members.by_task.get(task.name):
        return True
    ready = (
        sum(one.is_ready and not one.is_going for one in case.members.by_task.get(name, ()))
        >= needs.get(name, 0)
        for name in waits.name
    )
    return any(ready) if waits.iteration == DEPENDS_ANY else all(ready)


def _must_go(case: _Case, one: Member, phase: str, replicas: Mapping[str, int]) -> bool:
    """Not twice: what was told to go is going."""
    if one.is_going:
        return False
    if phase not in (*MAKES_PODS, RESTARTING):
        return not one.has_ended
    is_past = one.version != case.job.status.version or one.is_replaced
    return is_past or one.index >= replicas.get(one.task, 0)


def _events(case: _Case) -> Iterator[Any]:
    group = case.view.group
    phase = group.status.phase if group is not None else ""
    return events_of(case.job, case.members, case.lost, phase, case.now_s)


def _claims(job: Job) -> Iterator[tuple[str, Json]]:
    for place, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            meta = {"name": claim_name(job, place), "ownerReferences": [owner_reference(job)]}
            body = {"metadata": meta, "spec": dict(volume.volume_claim)}
            yield "PersistentVolumeClaim", body


def _rest_s(case: _Case) -> float:
    """How long a job that a policy restarts has still to rest; whoever restarts it by hand knows
    why.
    """
    status = case.job.status
    since = status.state.last_transition_time
    if since is None or BECAUSE not in status.state.message:
        return 0.0
    return since.timestamp() + pause_s(status.retry_count) - case.now_s


def _finished_s(case: _Case, phase: str) -> float:
    at = case.job.status.state.last_transition_time
    return at.timestamp() if at is not None and phase == case.phase else case.now_s


def _with(decision: JobDecision, **changes: Any) -> JobDecision:
    return dataclasses.replace(decision, **changes)


MARK: Final = {"metadata": {"annotations": {ANNOTATION_RESTARTED: "true"}}}
"""The patch that marks a pod."""
