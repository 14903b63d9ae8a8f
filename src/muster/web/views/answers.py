"""Answers of `muster.foresight` as shapes."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from muster.base.timefmt import rfc3339
from muster.engine.plan import Evict
from muster.foresight.changes import Needs
from muster.foresight.journal.events import Event, gpus_of
from muster.foresight.plan import GOOD_S, Plan, Verdict
from muster.foresight.situation import Situation
from muster.foresight.smallest import Change
from muster.foresight.when import Estimate
from muster.foresight.why import Why
from muster.model.public_reasons import why_of
from muster.model.reason_texts import amount
from muster.model.snapshot import ClusterSnapshot
from muster.web.views.answer_shapes import (
    ChangeView,
    EventView,
    Eviction,
    PlanAnswer,
    Start,
    WhyView,
)

_MINUTE_S = 60.0
_STEPS_S = (60.0, 300.0, 900.0, 3600.0)


def why_view(why: Why, situation: Situation) -> WhyView:
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
        place=why.place,
        changes=[change_view(one, situation.snapshot) for one in why.changes],
        is_complete=why.is_complete,
        as_of=rfc3339(situation.now_s),
        generation=situation.snapshot.generation,
    )


def change_view(change: Change, snapshot: ClusterSnapshot) -> ChangeView:
    starts = "after evictions" if change.start.evictions else "now"
    return ChangeView(
        do=in_words(change),
        what=change.what,
        subject=change.subject,
        before=change.before,
        after=change.after,
        starts="not before" if change.is_bound else starts,
        evicts=evictions(change.start.evictions, snapshot),
        verified="cycle" if change.verified is Needs.CYCLE else "allocate",
    )


def in_words(change: Change) -> str:
    """What to do, as one says it to a colleague."""
    before, after = change.before, change.after
    resource = change.subject.rpartition(" ")[2]
    match change.what:
        case "members":
            group = f" in {change.subject}" if change.subject else ""
            return f"{after} pods instead of {before}{group}"
        case "request" if isinstance(after, int) and isinstance(before, int):
            return f"{amount(resource, after)} a pod instead of {amount(resource, before)}"
        case "limit" | "quota" if isinstance(after, float) and isinstance(before, float):
            queue = change.subject.rpartition(" ")[0]
            shown = f"{amount(resource, int(before))} -> {amount(resource, int(after))}"
            return f"{change.what} of queue {queue} {shown}"
        case "queue":
            return f"queue {after} instead of {before}"
        case "topology":
            return f"{after} instead of {before}"
        case "constraint":
            return f"{change.subject}: {after}"
        case "preemptible":
            return "let it be preempted"
        case "priority":
            return f"priority {after} instead of {before}"
        case "nodes":
            return f"{after} more nodes {change.subject}"
        case "wait":
            return f"wait until {change.subject.replace(',', ', ')} ended"
    return f"{change.what}: {change.subject}: {before} -> {after}"


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
        problems=list(found.problems),
        warnings=list(found.warnings),
        is_complete=found.is_complete,
        token=token,
        good_until=rfc3339(situation.now_s + GOOD_S),
        as_of=rfc3339(situation.now_s),
    )


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
