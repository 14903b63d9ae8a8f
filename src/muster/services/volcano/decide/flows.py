"""A flow, its templates and its jobs -> the jobs that are due, and how far it has come.

A flow that has succeeded or failed stays so: it makes nothing more, whatever becomes of its jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.codec import builtins
from muster.api.meta import Key, Time
from muster.api.validation.problems import errors, is_label_value
from muster.api.validation.volcano_flows import job_flow_problems
from muster.api.volcano_batch import (
    COMPLETED,
    COMPLETING,
    FAILED,
    PENDING,
    RUNNING,
    TERMINATED,
    TERMINATING,
    Job,
)
from muster.api.volcano_flow import (
    CREATED_BY_FLOW,
    CREATED_BY_TEMPLATE,
    DELETE,
    FLOW_FAILED,
    FLOW_PENDING,
    FLOW_RUNNING,
    FLOW_SUCCEEDED,
    FlowJobStatus,
    FlowStep,
    JobFlow,
    JobTemplate,
)
from muster.base.timefmt import rfc3339
from muster.services.volcano.decide.job_status import Why, merge_patch
from muster.services.volcano.decide.pods import owned_by

Json = dict[str, Any]
_API_VERSION: Final = "flow.volcano.sh/v1alpha1"
_LISTS: Final = {
    "pendingJobs": (PENDING,),
    "runningJobs": (RUNNING,),
    "failedJobs": (FAILED,),
    "completedJobs": (COMPLETED,),
    "terminatedJobs": (TERMINATED,),
}
_LISTED_NOWHERE: Final = (COMPLETING, TERMINATING)


@dataclass(frozen=True, slots=True)
class FlowView:
    flow: JobFlow
    jobs: Sequence[Job] = ()
    """Those that it controls."""
    templates: Mapping[str, JobTemplate] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    """Names of jobs that belong to somebody else."""


@dataclass(frozen=True, slots=True)
class FlowDecision:
    """What to write, in this order."""

    create: Sequence[Json] = ()
    status: Json | None = None
    delete: Sequence[tuple[Key, str]] = ()
    """Jobs by key and uid."""
    event: Why | None = None


def decide(view: FlowView) -> FlowDecision:
    flow = view.flow
    if wrong := errors(job_flow_problems(flow)):
        why = Why("InvalidSpec", "; ".join(map(str, wrong[:3])), is_warning=True)
        return FlowDecision(event=why)
    phase = flow.status.state.phase
    if phase == FLOW_SUCCEEDED:
        goes = flow.spec.job_retain_policy == DELETE
        return FlowDecision(delete=[(j.key, j.metadata.uid) for j in view.jobs] if goes else ())
    if phase == FLOW_FAILED:
        return FlowDecision()
    done = _completed(view)
    after = _phase(view, done)
    create, event = _due(view, done) if after != FLOW_FAILED else ([], None)
    return FlowDecision(create, _status(view, after, done), event=event)


def job_name(flow: JobFlow, step: str) -> str:
    return f"{flow.metadata.name}-{step}"


def _completed(view: FlowView) -> set[str]:
    """Jobs that have succeeded; who is gone since then has."""
    there = {job.metadata.name: job for job in view.jobs}
    gone = {name for name in view.flow.status.completed_jobs if name not in there}
    return gone | {name for name, job in there.items() if job.status.state.phase == COMPLETED}


def _phase(view: FlowView, done: set[str]) -> str:
    phases = {job.status.state.phase for job in view.jobs}
    steps = view.flow.spec.flows
    if steps and all(job_name(view.flow, step.name) in done for step in steps):
        return FLOW_SUCCEEDED
    if phases & {FAILED, TERMINATED}:
        return FLOW_FAILED
    has_begun = bool(done) or RUNNING in phases
    return FLOW_RUNNING if has_begun else view.flow.status.state.phase or FLOW_PENDING


def _due(view: FlowView, done: set[str]) -> tuple[list[Json], Why | None]:
    made: list[Json] = []
    troubles: list[str] = []
    there = {job.metadata.name for job in view.jobs}
    for step in view.flow.spec.flows:
        name = job_name(view.flow, step.name)
        needs = step.depends_on.targets if step.depends_on is not None else ()
        waits = any(job_name(view.flow, each) not in done for each in needs)
        if name in there or name in done or waits:
            continue
        if name in view.taken:
            troubles.append(f"job {name} is somebody else's: delete it, or call the flow otherwise")
        elif step.name not in view.templates:
            troubles.append(f"there is no JobTemplate {step.name}: create it")
        else:
            made.append(_job(view, step))
    why = Why("StepWaits", "; ".join(troubles[:3]), is_warning=True) if troubles else None
    return made, why


def _job(view: FlowView, step: FlowStep) -> Json:
    meta = view.flow.metadata
    notes = {
        CREATED_BY_TEMPLATE: f"{meta.namespace}.{step.name}",
        CREATED_BY_FLOW: f"{meta.namespace}.{meta.name}",
    }
    return {
        "metadata": {
            "name": job_name(view.flow, step.name),
            "namespace": meta.namespace,
            # As far as labels may be so long.
            "labels": {name: value for name, value in notes.items() if is_label_value(value)},
            "annotations": notes,
            "ownerReferences": [owned_by(_API_VERSION, "JobFlow", meta.name, meta.uid)],
        },
        "spec": dict(view.templates[step.name].spec),
    }


def _status(view: FlowView, phase: str, done: set[str]) -> Json | None:
    before: Json = builtins(view.flow.status)
    jobs = sorted(view.jobs, key=lambda job: job.metadata.age_order)
    after: Json = {name: _names(jobs, phases) for name, phases in _LISTS.items()}
    after["completedJobs"] = sorted(done)
    known = {one for phases in _LISTS.values() for one in phases} | set(_LISTED_NOWHERE)
    after["unKnowJobs"] = [j.metadata.name for j in jobs if j.status.state.phase not in known]
    after["jobStatusList"] = _lives(view.flow.status.job_status_list, jobs)
    after["conditions"] = {
        job.metadata.name: _written(
            phase=job.status.state.phase,
            createTime=_text(job.metadata.creation_timestamp),
            runningDuration=job.status.running_duration,
            taskStatusCount={n: builtins(one) for n, one in job.status.task_status_count.items()},
        )
        for job in jobs
    }
    after["state"] = {"phase": phase}
    changed = merge_patch(before, _written(**after))
    return {"status": changed} if changed else None


def _names(jobs: Iterable[Job], phases: Sequence[str]) -> list[str]:
    return [job.metadata.name for job in jobs if job.status.state.phase in phases]


def _lives(before: Iterable[FlowJobStatus], jobs: Iterable[Job]) -> list[Json]:
    """Of all jobs that there were, those that are gone since then as they were."""
    found = {one.name: builtins(one) for one in before}
    for job in jobs:
        state = job.status.state
        since = _text(state.last_transition_time or job.metadata.creation_timestamp)
        spans: list[Json] = [*found.get(job.metadata.name, {}).get("runningHistories", ())]
        if state.phase and (not spans or spans[-1].get("state") != state.phase):
            if spans:
                spans[-1] = {**spans[-1], "endTimestamp": since}
            spans.append(_written(state=state.phase, startTimestamp=since))
        is_over = state.phase in (COMPLETED, FAILED, TERMINATED)
        found[job.metadata.name] = _written(
            name=job.metadata.name,
            state=state.phase,
            startTimestamp=_text(job.metadata.creation_timestamp),
            endTimestamp=since if is_over else None,
            restartCount=job.status.retry_count,
            runningHistories=spans,
        )
    return list(found.values())


def _text(time: Time | None) -> str | None:
    return None if time is None else rfc3339(time.timestamp())


def _written(**fields: Any) -> Json:
    """Without what says nothing."""
    return {name: value for name, value in fields.items() if value not in (None, 0, "", {}, [])}
