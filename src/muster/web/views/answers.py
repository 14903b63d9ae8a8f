"""Answers of `muster.foresight` as shapes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby, islice
from types import MappingProxyType

from muster.base.timefmt import rfc3339
from muster.engine.plan import Evict
from muster.foresight.changes import MEMORY_SHARE, WAIT, Needs
from muster.foresight.journal.events import Event, gpus_of
from muster.foresight.outlook import Outlook
from muster.foresight.plan import GOOD_S, Plan, Verdict
from muster.foresight.situation import Situation
from muster.foresight.smallest import Change
from muster.foresight.whatif import Ahead
from muster.foresight.when import Estimate
from muster.foresight.why import Why
from muster.model.public_reasons import why_of
from muster.model.reason_texts import amount
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.axis import GPU_UNIT
from muster.web.views.answer_shapes import Ahead as AheadView
from muster.web.views.answer_shapes import (
    ChangeView,
    EventView,
    Eviction,
    PlanAnswer,
    Start,
    WhyView,
)

_MINUTE_S = 60.0
_NAMED_MAX = 3
_MOVED_MAX = 200
_STEPS_S = (60.0, 300.0, 900.0, 3600.0)
_NO_ENDS: Mapping[str, float] = MappingProxyType({})


def why_view(
    why: Why,
    situation: Situation,
    decided: Iterable[Event] = (),
    ends: Mapping[str, float] = _NO_ENDS,
) -> WhyView:
    said = why_of(why.refusals)
    dominant = said.dominant if said else None
    return WhyView(
        job=why.job,
        state=str(why.state),
        code=str(dominant.code) if dominant else "",
        category=str(dominant.category) if dominant else "",
        message=dominant.sentence if dominant else "",
        reasons=[one.as_json() for one in said.reasons] if said else [],
        no_eviction_because=[one.as_json() for one in said.no_eviction_because] if said else [],
        where=dict(Counter(why.start.nodes)) if why.start else {},
        because=why.because,
        decided=[event_view(event) for event in decided],
        place=why.place,
        changes=[change_view(one, situation.snapshot, ends) for one in why.changes],
        is_complete=why.is_complete,
        as_of=rfc3339(situation.now_s),
        generation=situation.snapshot.generation,
    )


def change_view(
    change: Change, snapshot: ClusterSnapshot, ends: Mapping[str, float] = _NO_ENDS
) -> ChangeView:
    """`ends`: when jobs that run are expected to end."""
    starts = "after evictions" if change.start.evictions else "now"
    awaited = change.subject.split(",") if change.what == WAIT else ()
    last_s = max((ends[name] for name in awaited if name in ends), default=None)
    return ChangeView(
        do=in_words(change),
        what=change.what,
        subject=change.subject,
        before=change.before,
        after=change.after,
        starts="not before" if change.is_bound else starts,
        evicts=evictions(change.start.evictions, snapshot),
        verified="cycle" if change.verified is Needs.CYCLE else "allocate",
        at=_rounded(last_s, _MINUTE_S),
    )


def in_words(change: Change) -> str:
    """What to do, as one says it to a colleague."""
    if (first := change.first) is not None:
        alone = replace(change, **first._asdict(), first=None)
        what, subject = change.what.partition("+")[2], change.subject.partition("; ")[2]
        second = replace(change, what=what, subject=subject, first=None)
        return f"{in_words(alone)}, and {in_words(second)}"
    before, after = change.before, change.after
    resource = change.subject.rpartition(" ")[2]
    match change.what:
        case "members":
            group = f" in {change.subject}" if change.subject else ""
            return f"{_counted(after, 'pod')} instead of {before}{group}"
        case "share" if isinstance(after, int) and isinstance(before, int):
            return f"{_share(change.subject, after)} instead of {_share(change.subject, before)}"
        case "request" if isinstance(after, int) and isinstance(before, int):
            return f"{amount(resource, after)} a pod instead of {amount(resource, before)}"
        case "limit" | "quota" if isinstance(after, float) and isinstance(before, float):
            queue = change.subject.rpartition(" ")[0]
            shown = f"{amount(resource, int(before))} -> {amount(resource, int(after))}"
            return f"{change.what} of queue {queue} {shown}"
        case "queue":
            return f"queue {after} instead of {before}"
        case "topology":
            return f"{'no topology' if after == 'none' else after} instead of {before}"
        case "constraint":
            return f"{change.subject}: {after}"
        case "preemptible":
            return "let it be preempted"
        case "priority":
            return f"priority {after} instead of {before}"
        case "nodes":
            return f"{_counted(after, 'more node')} {change.subject}"
        case "wait":
            names = change.subject.split(",")
            more = len(names) - _NAMED_MAX
            rest = f" and {more} more" if more > 0 else ""
            return f"wait until {', '.join(names[:_NAMED_MAX])}{rest} ended"
    return f"{change.what}: {change.subject}: {before} -> {after}"


def _counted(count: object, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _share(subject: str, value: int) -> str:
    return f"{value} MiB of a GPU" if subject == MEMORY_SHARE else f"{value / GPU_UNIT:g} GPUs"


def evictions(found: Iterable[Evict], snapshot: ClusterSnapshot) -> list[Eviction]:
    """By job and action, in order."""
    shown = []
    for (job, action), group in groupby(found, lambda evict: (evict.job, evict.action)):
        tasks = [snapshot.tasks.records[snapshot.tasks.row[evict.task]] for evict in group]
        row = snapshot.jobs.row.get(job)
        queue = "" if row is None else snapshot.jobs.records[row].queue
        gpus = sum(gpus_of(task) for task in tasks)
        shown.append(Eviction(job=job, queue=queue, pods=len(tasks), gpus=gpus, by=action))
    return shown


def plan_answer(found: Plan, situation: Situation, token: str) -> PlanAnswer:
    snapshot = situation.snapshot
    reasons = [reason.as_json() for job in found.jobs if job.why for reason in job.why.reasons]
    where: Counter[str] = Counter()
    for job in found.jobs:
        where.update(job.placement)
    return PlanAnswer(
        verdict=str(found.verdict),
        starts=found.verdict in (Verdict.STARTS, Verdict.EVICTS),
        where=dict(where),
        evicts=evictions(found.evictions, snapshot),
        reasons=reasons,
        changes=[change_view(one, snapshot) for job in found.jobs for one in job.changes],
        otherwise=_otherwise(found, situation),
        problems=list(found.problems),
        warnings=list(found.warnings),
        is_complete=found.is_complete,
        token=token,
        good_until=rfc3339(situation.now_s + GOOD_S),
        as_of=rfc3339(situation.now_s),
    )


def _otherwise(found: Plan, situation: Situation) -> Start | None:
    """Of the job that starts last; one of which nobody can say counts as the last."""
    estimates = [job.otherwise for job in found.jobs if job.otherwise is not None]
    last = max(estimates, key=lambda one: (bool(one.why_not), one.likely_s or 0.0), default=None)
    return None if last is None else start_view(last, situation)


def ahead_view(found: Ahead, horizon_s: float) -> AheadView:
    before, after = found.before, found.after
    return AheadView(
        hours=horizon_s / 3600.0,
        waits_min={name: [_minutes(one) for one in both] for name, both in found.waits_s().items()},
        moved_min={
            job: _minutes(by_s) for job, by_s in islice(found.moved_s().items(), _MOVED_MAX)
        },
        at=[] if found.why_not else [rfc3339(at_s) for at_s in before.moments_s],
        held={name: [_gpus(before, name), _gpus(after, name)] for name in before.held},
        why_not=found.why_not,
        restarts_min={
            job: _minutes(wait_s) for job, wait_s in islice(found.restarts_s().items(), _MOVED_MAX)
        },
    )


def _gpus(outlook: Outlook, queue: str) -> list[float]:
    return [round(gpus, 2) for gpus in outlook.held.get(queue, ())]


def _minutes(seconds: float) -> float:
    return round(seconds / 60.0, 1)


def event_view(event: Event) -> EventView:
    return EventView(
        at=rfc3339(event.at_s),
        kind=event.kind,
        job=event.job,
        queue=event.queue,
        user=event.user,
        pods=event.pods,
        gpus=event.gpus,
        ran_s=event.ran_s,
        lost_s=event.lost_s,
        by=event.by,
        for_=event.actor,
        for_queue=event.actor_queue,
        code=event.code,
        because=event.because,
        nodes=list(event.nodes),
        moves_to=list(event.moves_to),
        outcome=event.outcome,
        cycle=event.cycle,
    )


def start_view(found: Estimate, situation: Situation) -> Start:
    """Times are rounded to what the interval supports."""
    step_s = _step_s(found)
    return Start(
        at=_rounded(found.likely_s, step_s),
        earliest=_rounded(found.earliest_s, step_s),
        latest=_rounded(found.latest_s, step_s),
        not_before=_rounded(found.not_before_s, step_s),
        basis=dict(found.basis),
        why_not=found.why_not,
        samples=found.samples,
        as_of=rfc3339(situation.now_s),
    )


def no_estimate(why: str) -> Start:
    return Start(at=None, earliest=None, latest=None, basis={}, why_not=why, samples=0, as_of="")


def _step_s(found: Estimate) -> float:
    if found.earliest_s is None or found.latest_s is None:
        return _MINUTE_S
    width_s = found.latest_s - found.earliest_s
    return max(step for step in _STEPS_S if step <= max(width_s / 4, _MINUTE_S))


def _rounded(at_s: float | None, step_s: float) -> str | None:
    return None if at_s is None else rfc3339(round(at_s / step_s) * step_s)
