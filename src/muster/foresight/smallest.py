"""The smallest step of a ladder that starts the job, found by running the engine.

Nothing is said that was not run: the step that helps was decided by the engine on the state that
the newest cycle leaves, and so was the next smaller one, which does not help. That larger steps
help where smaller ones do is only used to find the two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from muster.engine.cycle import CycleResult
from muster.engine.memory import EMPTY, Memory
from muster.engine.plan import Evict
from muster.foresight.budget import ENDLESS, Budget, is_cut_short
from muster.foresight.changes import WAIT, Cost, Ladder, Needs, Step, ended
from muster.foresight.situation import Rules, decided
from muster.foresight.variants import Variants
from muster.model.record_changes import Delta


@dataclass(frozen=True, slots=True)
class Start:
    """How a job starts: where, and who goes for it."""

    nodes: tuple[str, ...]
    evictions: tuple[Evict, ...]
    """Empty: it starts at once."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that starts the job, and what happens then."""

    what: str
    subject: str
    before: object
    after: object
    start: Start
    edit: Delta
    cost: Cost
    next_smaller: object
    """The largest step tried that does not help; None: there is no smaller one."""
    is_bound: bool
    verified: Needs
    """What was run with the change made: allocate alone, or a whole cycle."""
    first: Step | None = None
    """What is changed with it; both are in the names of what and subject."""


_CONFIRMING_S = 0.5
"""A change is confirmed for so long, also when the time to look for more is over."""


class Prober:
    """Runs the engine on variants of one state and says whether one job starts."""

    def __init__(
        self, state: Variants, rules: Rules, now_s: float, job: str, before: Memory = EMPTY
    ) -> None:
        """`before`: what the cycle told that left the state."""
        self._state = state
        self._before = before
        self._rules = rules
        self._now_s = now_s
        self._job = job
        self.runs = 0
        self.is_cut_short = False
        """Whether the newest run ended for want of time: what it denies, it does not know."""

    def start(self, edit: Delta, needs: Needs, budget: Budget = ENDLESS) -> Start | None:
        """How the job starts with this edit; None: it does not."""
        actions = self._rules.until_allocate if needs is Needs.ALLOCATE else None
        self.runs += 1
        with self._state.variant(edit) as snapshot:
            result = decided(snapshot, self._rules, self._now_s, self._before, actions, budget)
        self.is_cut_short = is_cut_short(result)
        return start_of(result, self._job)


def start_of(result: CycleResult, job: str) -> Start | None:
    """Whether and how a cycle starts a job."""
    plan = result.plan
    bound = tuple(bind.node for bind in plan.binds if bind.job == job)
    awaited = tuple(one.node for one in plan.nominations if one.job == job)
    if not bound and not awaited:
        return None
    return Start(bound or awaited, tuple(one for one in plan.evictions if one.actor == job))


def smallest(
    prober: Prober, ladder: Ladder, budget: Budget, *, may_evict: bool = True
) -> Change | None:
    """The smallest step that helps, with the next smaller one that does not. None: no step helps,
    or the budget was spent before two neighbours were found.
    """

    cut_short: list[bool] = []

    def tried(at: int) -> Start | None:
        found = prober.start(ladder.edit(ladder.steps[at]), ladder.needs, budget)
        cut_short.append(prober.is_cut_short)
        return found if found is None or may_evict or not found.evictions else None

    found = _bisected if ladder.is_ordered else _first
    pair = found(tried, ladder.steps, budget)
    if pair is None or any(cut_short):
        return None
    at, start = pair
    return Change(
        ladder.what,
        _subject(ladder, at),
        ladder.before,
        ladder.steps[at],
        start,
        ladder.edit(ladder.steps[at]),
        ladder.cost,
        ladder.steps[at - 1] if at and ladder.is_ordered else None,
        ladder.is_bound,
        ladder.needs,
        ladder.first,
    )


def confirmed(prober: Prober, change: Change, budget: Budget) -> Change | None:
    """The change as a whole cycle decides it; None: somebody else has the better claim to the room
    that allocate alone would give. What a cycle had no time to decide stays as it was found.
    """
    ends_s = max(budget.ends_s, budget.elapsed_s() + _CONFIRMING_S)
    start = prober.start(change.edit, Needs.CYCLE, Budget(budget.elapsed_s, ends_s))
    if prober.is_cut_short:
        return change
    return None if start is None else replace(change, start=start, verified=Needs.CYCLE)


def smallest_by_cycles(prober: Prober, ladder: Ladder, change: Change, budget: Budget) -> Change:
    """The change, or a smaller one where a whole cycle makes room that allocate alone does not.

    Nobody has to go for the smaller one who may stay with the other.
    """
    at = ladder.steps.index(change.after)
    is_asked = ladder.is_ordered and at > 0 and change.verified is Needs.CYCLE
    if not is_asked or ladder.needs is Needs.CYCLE or budget.is_spent:
        return change
    may_evict = bool(change.start.evictions)
    below = replace(ladder, needs=Needs.CYCLE, steps=ladder.steps[:at])
    if (start := prober.start(below.edit(below.steps[-1]), Needs.CYCLE, budget)) is None:
        return change
    if prober.is_cut_short or (start.evictions and not may_evict):
        return change
    return smallest(prober, below, budget, may_evict=may_evict) or change


def without_idle_waits(prober: Prober, state: Variants, change: Change, budget: Budget) -> Change:
    """Of jobs that are waited for those that matter: on the nodes that it starts on, and the last;
    all of them where that does not start it.
    """
    names = change.subject.split(",")
    if change.what != WAIT or len(names) == 1 or budget.is_spent:
        return change
    nodes = set(change.start.nodes)
    there = [
        name
        for name in names
        if name == names[-1] or any(task.node in nodes for task in state.tasks_of(name))
    ]
    edit = ended(state, there)
    start = prober.start(edit, change.verified, budget) if len(there) < len(names) else None
    if start is None:
        return change
    return replace(change, subject=",".join(there), after=len(there), start=start, edit=edit)


_Tried = Callable[[int], Start | None]


def _bisected(tried: _Tried, steps: Sequence[object], budget: Budget) -> tuple[int, Start] | None:
    """Neighbours of which the larger helps and the smaller does not; -1 is no change at all.

    Strides from the smallest step on: where a larger step helps others before the job, a small one
    may help it alone, and usually a small one suffices.
    """
    low, high = -1, len(steps) - 1
    best = tried(high)
    if best is None:
        return None
    at = 0
    while at < high:
        if budget.is_spent:
            return None
        start = tried(at)
        if start is not None:
            high, best = at, start
            break
        low, at = at, 2 * at + 1
    while high - low > 1:
        if budget.is_spent:
            return None
        middle = (low + high) // 2
        start = tried(middle)
        if start is None:
            low = middle
        else:
            high, best = middle, start
    return high, best


def _first(tried: _Tried, steps: Sequence[object], budget: Budget) -> tuple[int, Start] | None:
    for at in range(len(steps)):
        if budget.is_spent:
            return None
        start = tried(at)
        if start is not None:
            return at, start
    return None


def _subject(ladder: Ladder, at: int) -> str:
    """For waiting: the jobs that are waited for."""
    if ladder.what != WAIT:
        return ladder.subject
    return ",".join(ladder.subject.split(",")[: at + 1])
