"""Searches obey a budget of time, say when they were cut short, and starve nobody for it."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY
from muster.engine.registry import build_actions, build_policy
from muster.engine.search_time import ElapsedS, IsAwaited, no_time_passes, nobody_waits
from muster.model.reasons import Reason
from muster.model.tables import ClusterTables
from muster.testing import make

_JOBS = ("first", "second", "third")


_NO_BUDGETS = (
    "{maxActionSearchDuration: {default: 0s}, maxJobSearchDuration: 0s,"
    " maxGeneratorSearchDuration: {NodeLocalGreedy: 0s, MultiNodeGang: 0s}}"
)


class TickingClock:
    """Each look at it costs a second."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class JumpingClock:
    """Stands still but for one jump."""

    def __init__(self, at_look: int) -> None:
        self._looks_left = at_look

    def __call__(self) -> float:
        self._looks_left -= 1
        return 0.0 if self._looks_left > 0 else 100.0


def contended(sizes: tuple[int, ...]) -> ClusterTables:
    """Jobs of so many GPUs, before nodes half of which may be had by evicting others."""
    names = [f"n{number}" for number in range(3)]
    keeps = [
        make.gang(f"keeps-{name}-{number}", 1, queue="a", gpu=1, nodes=(name,))
        for name in names
        for number in range(4)
    ]
    gives = [
        make.gang(f"gives-{name}-{number}", 1, queue="b", gpu=1, nodes=(name,), is_preemptible=True)
        for name in names
        for number in range(4)
    ]
    wants = [
        make.gang(job, 1, queue="a", gpu=size, created_s=make.NOW_S - 100 + at)
        for at, (job, size) in enumerate(zip(_JOBS, sizes, strict=True))
    ]
    tables = ClusterTables()
    tables.extend(
        make.cluster(
            *(make.node(name, gpu=8) for name in names),
            make.queue("a", quota_gpu=32),
            make.queue("b", quota_gpu=0),
            *keeps,
            *gives,
            *wants,
        )
    )
    return tables


class Cycles:
    """Cycles one after the other, with what each tells the next."""

    def __init__(
        self,
        tables: ClusterTables,
        budgets: str,
        clock: ElapsedS,
        is_awaited: IsAwaited = nobody_waits,
    ) -> None:
        conf = parse_conf(f"actions: reclaim\nscenarioSearchBudgets: {budgets}")
        self._policy, self._actions = build_policy(conf), build_actions(conf)
        self._tables = tables
        self._clock = clock
        self._is_awaited = is_awaited
        self._memory = EMPTY

    def next(self) -> CycleResult:
        result = run_cycle(
            self._tables.snapshot(),
            self._policy,
            self._actions,
            make.NOW_S,
            self._memory,
            elapsed_s=self._clock,
            is_awaited=self._is_awaited,
        )
        self._memory = result.memory
        return result


def cut_short(result: CycleResult) -> set[str]:
    return {
        job
        for job in _JOBS
        if any(
            one.reason is Reason.SEARCH_TIME
            for one in result.explanation.refusals.get(f"default/{job}", ())
        )
    }


def test_a_search_that_takes_too_long_is_cut_short_and_says_so() -> None:
    cycles = Cycles(
        contended((4, 4, 3)), "{maxActionSearchDuration: {reclaim: 2s}}", TickingClock()
    )
    result = cycles.next()
    assert result.plan.evictions == ()
    assert cut_short(result) == set(_JOBS)
    assert result.explanation.sentences("default/first") == (
        "The search for pods to evict was cut short: it took too long.",
    )
    assert result.explanation.counters["reclaim.cut_short"] == len(_JOBS)
    assert result.memory == EMPTY  # The next cycle has as much time again.


@pytest.mark.parametrize("budgets", ["{}", _NO_BUDGETS])
def test_without_a_clock_or_without_budgets_no_search_is_cut_short(budgets: str) -> None:
    clock: ElapsedS = no_time_passes if budgets == "{}" else TickingClock()
    result = Cycles(contended((4, 4, 3)), budgets, clock).next()
    assert cut_short(result) == set()
    assert len(result.plan.evictions) == 11
    assert "reclaim.cut_short" not in result.explanation.counters


def test_a_job_that_uses_up_its_time_leaves_the_others_theirs() -> None:
    """It would use it up again as long as nothing changes, so it is not searched for again."""
    cycles = Cycles(contended((4, 3, 2)), "{maxJobSearchDuration: 6s}", JumpingClock(at_look=5))
    result = cycles.next()
    assert cut_short(result) == {"first"}
    assert {evict.actor for evict in result.plan.evictions} == {"default/second", "default/third"}


def test_cycles_get_to_jobs_for_which_the_last_one_had_no_time() -> None:
    cycles = Cycles(
        contended((5, 6, 7)), "{maxActionSearchDuration: {default: 9s}}", TickingClock()
    )
    first = cycles.next()
    assert cut_short(first) == {"second", "third"}
    assert first.next_change_s == pytest.approx(make.NOW_S, abs=0.01)
    left = [cut_short(cycles.next()) for _ in range(3)]
    assert left[-1] == set()
    assert cycles.next().next_change_s is None


def test_a_cycle_that_got_nowhere_is_not_repeated_for_nothing() -> None:
    cycles = Cycles(
        contended((5, 6, 7)), "{maxActionSearchDuration: {default: 2s}}", TickingClock()
    )
    result = cycles.next()
    assert cut_short(result) == set(_JOBS)
    assert result.next_change_s is None


def test_a_job_gets_its_least_time_though_the_action_has_none_left() -> None:
    budgets = "{maxActionSearchDuration: {default: 1s}, minJobSearchDuration: 100s}"
    result = Cycles(contended((4, 4, 3)), budgets, TickingClock()).next()
    assert cut_short(result) == set()
    assert len(result.plan.evictions) == 11


def test_a_way_to_look_for_victims_that_takes_too_long_gives_way_to_the_next() -> None:
    budgets = "{maxGeneratorSearchDuration: {NodeLocalGreedy: 1s}}"
    result = Cycles(contended((4, 4, 3)), budgets, TickingClock()).next()
    assert {evict.actor for evict in result.plan.evictions} == {f"default/{job}" for job in _JOBS}


@pytest.mark.parametrize(("is_awaited", "left"), [(True, {"second", "third"}), (False, set())])
def test_where_the_next_cycle_is_awaited_one_queues_jobs_hold_up_neither_it_nor_other_queues(
    is_awaited: bool, left: set[str]
) -> None:
    tables = contended((5, 6, 7))
    tables.extend(
        make.cluster(
            make.queue("c", quota_gpu=4),
            make.gang("late", 1, queue="c", gpu=1, created_s=make.NOW_S - 1),
        )
    )
    result = Cycles(tables, "{}", TickingClock(), lambda: is_awaited).next()
    assert cut_short(result) == left
    assert {evict.actor for evict in result.plan.evictions} == {"default/late"}
    assert result.explanation.counters.get("reclaim.cut_short", 0) == len(left)


def test_a_search_gives_way_only_after_a_second() -> None:
    """The clock stands still: whoever waits, there was no time to wait for."""
    result = Cycles(contended((4, 4, 3)), "{}", no_time_passes, lambda: True).next()
    assert cut_short(result) == set()
    assert len(result.plan.evictions) == 11
