"""Why a job waits, and the smallest changes that would start it now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

from muster.api.group_names import group_meant
from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.budget import Budget
from muster.foresight.changes import Cost, Ladder, Needs, Step, Waiting, ladders
from muster.foresight.order import Place, places
from muster.foresight.situation import Situation
from muster.foresight.smallest import (
    Change,
    Prober,
    Start,
    confirmed,
    smallest,
    smallest_by_cycles,
    start_of,
    without_idle_waits,
)
from muster.foresight.success import why_there
from muster.foresight.variants import Variants
from muster.model.reasons import Refusal
from muster.model.record_changes import Delta
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus

BUDGET_S = 1.0
_NO_ENDS: Mapping[str, float] = MappingProxyType({})


class State(StrEnum):
    """Where a job is."""

    RUNNING = "running"
    STARTING = "starting"
    """The cycle that was looked at gives it nodes."""
    CLEARING = "clearing"
    """The cycle that was looked at evicts somebody for it."""
    WAITING = "waiting"
    ENDED = "ended"


class NoSuchJob(Exception):
    """There is no job of this name; the text says what there is."""


@dataclass(frozen=True, slots=True)
class Why:
    """The answer about one job."""

    job: str
    state: State
    refusals: tuple[Refusal, ...]
    start: Start | None
    """Where it starts, if it does."""
    because: str
    """Why there."""
    place: Place | None
    """Its place among those that wait."""
    changes: tuple[Change, ...]
    """What would start it, cheapest first."""
    is_complete: bool
    """Whether everything was tried, or the time was up before: that for changes, or that of the
    searches of the cycle which is asked about."""
    runs: int
    """How often the engine was run."""


class Questions:
    """Questions about one situation. What they share is computed once."""

    def __init__(self, situation: Situation, elapsed_s: ElapsedS = no_time_passes) -> None:
        self.situation = situation
        self._elapsed_s = elapsed_s

    @cached_property
    def state(self) -> Variants:
        """The cluster as the cycle leaves it: what others get now is no answer for anybody."""
        return Variants(self.situation.left)

    @cached_property
    def places(self) -> Mapping[str, Place]:
        return {place.job: place for place in places(self.situation)}

    def why(
        self,
        job: str,
        budget_s: float = BUDGET_S,
        ends: Mapping[str, float] = _NO_ENDS,
        searches: bool = True,
    ) -> Why:
        """Why the job waits and what would start it; it may be called by its owner's name. `ends`:
        when jobs are expected to end.
        """
        job = group_meant(job, self.situation.snapshot.jobs.row)
        state = self.job_state(job)
        refusals = self.situation.result.explanation.refusals.get(job, ())
        changes: tuple[Change, ...] = ()
        is_complete, runs = not self.situation.is_cut_short, 0
        waiting = self._waiting(job, refusals, ends) if state is State.WAITING else None
        # What gates hold back no change of the cluster starts.
        if waiting is not None and waiting.pending and searches:
            budget = Budget(self._elapsed_s, self._elapsed_s() + budget_s)
            search = _Search(waiting, self._prober(job), budget)
            changes, found_all, runs = search.found()
            is_complete &= found_all
        start = start_of(self.situation.result, job)
        return Why(
            job,
            state,
            refusals,
            start,
            "" if start is None else why_there(self.situation, job, start),
            self.places.get(job),
            changes,
            is_complete,
            runs,
        )

    def job_state(self, job: str) -> State:
        """Raises `NoSuchJob`."""
        if job not in self.situation.snapshot.jobs.row:
            raise NoSuchJob(f"there is no job {job}: see `muster jobs -A`")
        start = start_of(self.situation.result, job)
        if start is not None:
            return State.CLEARING if start.evictions else State.STARTING
        statuses = {task.status for task in self.state.tasks_of(job)}
        if TaskStatus.PENDING in statuses:
            return State.WAITING
        if statuses & ACTIVE_ALLOCATED:
            return State.RUNNING
        return State.WAITING if TaskStatus.GATED in statuses else State.ENDED

    def _prober(self, job: str) -> Prober:
        now, before = self.situation, self.situation.told_to_the_next
        return Prober(self.state, now.rules, now.now_s, job, before)

    def _waiting(
        self, job: str, refusals: tuple[Refusal, ...], ends: Mapping[str, float]
    ) -> Waiting:
        state = self.state
        pending = tuple(t for t in state.tasks_of(job) if t.status is TaskStatus.PENDING)
        return Waiting(state, state.jobs[job], pending, refusals, ends)


_Found = tuple[Ladder, Change]
"""A change, and the ladder that it is a step of."""


@dataclass(frozen=True, slots=True)
class _Search:
    """The search space of one job, gone through within a budget."""

    waiting: Waiting
    prober: Prober
    budget: Budget

    def found(self) -> tuple[tuple[Change, ...], bool, int]:
        """The changes, whether all was tried, and how often the engine was run."""
        space = ladders(self.waiting)
        given = [one for one in space if one.needs is Needs.ALLOCATE]
        found = self._confirmed(self._smallest(given))
        by_cycles = self._smallest([one for one in space if one.needs is Needs.CYCLE])
        found += [change for _, change in by_cycles]
        if not found:
            found = self._confirmed(self._pairs(space))
        return tuple(sorted(found, key=_price)), not self.budget.is_spent, self.prober.runs

    def _smallest(self, space: list[Ladder]) -> list[_Found]:
        found = []
        for ladder in space:
            if self.budget.is_spent:
                break
            change = smallest(self.prober, ladder, self.budget)
            if change is not None:
                found.append((ladder, change))
        return found

    def _confirmed(self, found: list[_Found]) -> list[Change]:
        """The cheapest ones first: what nobody had the time to confirm is said to be so."""
        kept: list[_Found] = []
        for ladder, change in sorted(found, key=lambda one: _price(one[1])):
            is_late = bool(kept) and self.budget.is_spent
            again = change if is_late else confirmed(self.prober, change, self.budget)
            if again is not None:
                kept.append((ladder, again))
        # Once all are confirmed: a change that holds is worth more than a smaller one.
        least = [smallest_by_cycles(self.prober, *one, self.budget) for one in kept]
        state = self.waiting.state
        return [without_idle_waits(self.prober, state, one, self.budget) for one in least]

    def _pairs(self, space: list[Ladder]) -> list[_Found]:
        """Two changes of the job together, where no single one helps: the first of the two goes all
        the way, the second as far as it must.
        """
        for first in [one for one in space if _is_own(one)]:
            fixed = first.edit(first.steps[-1])
            later = space[space.index(first) + 1 :]
            wanted = {(one.what, one.subject) for one in later if _is_own(one)}
            for second in ladders(_after(self.waiting, fixed)):
                if self.budget.is_spent:
                    return []
                if (second.what, second.subject) not in wanted:
                    continue
                joined = _joined(first, fixed, second)
                change = smallest(self.prober, joined, self.budget)
                if change is not None:
                    return [(joined, change)]
        return []


def _is_own(ladder: Ladder) -> bool:
    """Whether whoever submitted the job can do it."""
    return ladder.cost in (Cost.RELAX, Cost.SMALLER) and ladder.needs is Needs.ALLOCATE


def _after(waiting: Waiting, edit: Delta) -> Waiting:
    """The job as it is with the edit made."""
    changed = {task.uid: task for task in edit.tasks}
    tasks = (changed.get(task.uid, task) for task in waiting.pending)
    job = next((one for one in edit.jobs if one.key == waiting.job.key), waiting.job)
    pending = tuple(task for task in tasks if task.status is TaskStatus.PENDING)
    return replace(waiting, job=job, pending=pending)


def _joined(first: Ladder, fixed: Delta, second: Ladder) -> Ladder:
    """Both at once, by the steps of the second; what it edits has the first in it already."""
    return replace(
        second,
        what=f"{first.what}+{second.what}",
        subject=f"{first.subject or first.what} {first.steps[-1]}; {second.subject}".rstrip("; "),
        edit=lambda value: fixed + second.edit(value),
        first=Step(first.what, first.subject, first.before, first.steps[-1]),
        cost=max(first.cost, second.cost),
    )


def _price(change: Change) -> tuple[int, bool, float, str, str]:
    """Who pays, whether somebody is evicted, and how much of what was asked for is given up."""
    given_up = 0.0
    if isinstance(change.before, int) and isinstance(change.after, int) and change.before:
        given_up = abs(change.before - change.after) / change.before
    evicts = bool(change.start.evictions)
    return change.cost, evicts, given_up, change.what, change.subject
