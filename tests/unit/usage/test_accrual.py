"""What jobs hold times how long: exact from one change to the next, cut at buckets and days."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accrual import (
    BUCKET_S,
    CLUSTER,
    DAY_S,
    AccountKey,
    AccountSums,
    Accruals,
    JobLevel,
    Sums,
)

START_S = 20_000 * DAY_S + 0.0
TREE = {"team": ["team", "dept"], "other": ["other", "dept"]}


def ancestry(queue: str) -> Sequence[str]:
    return TREE[queue]


def amounts(gpus: float) -> tuple[float, ...]:
    return tuple(gpus if at == QUEUE_GPU else 0.0 for at in range(QUEUE_WIDTH))


def level(gpus: float = 0.0, queue: str = "team", **more: object) -> JobLevel:
    return JobLevel(queue, "ann", amounts(gpus), **more)  # type: ignore[arg-type]


def gpu_s(sums: Sums, queue: str) -> float:
    return float(sum(found[QUEUE_GPU] for (_, name), found in sums.held.items() if name == queue))


def account(sums: Sums, job: str = "j", day: int = 20_000) -> AccountSums:
    return sums.accounts[AccountKey(day, "team", "ann", job)]


@pytest.fixture
def accruals() -> Accruals:
    return Accruals(ancestry, START_S)


def test_a_job_is_charged_to_its_queue_and_to_all_above_it(accruals: Accruals) -> None:
    accruals.set_job("j", level(4), START_S)
    accruals.set_job("k", level(1, "other"), START_S + 10)
    accruals.set_job("j", level(2), START_S + 100)
    taken = accruals.take(START_S + 150)
    assert gpu_s(taken, "team") == 4 * 100 + 2 * 50
    assert gpu_s(taken, "other") == 140
    assert gpu_s(taken, "dept") == gpu_s(taken, "team") + 140
    assert gpu_s(accruals.take(START_S + 150), "dept") == 0


def test_sums_are_cut_at_buckets_and_days(accruals: Accruals) -> None:
    before_midnight_s = START_S + DAY_S - 100
    accruals.set_job("j", level(2), before_midnight_s)
    taken = accruals.take(before_midnight_s + 250)
    by_start = {start: found[QUEUE_GPU] for (start, q), found in taken.held.items() if q == "team"}
    midnight = int(START_S) + DAY_S
    assert by_start == {midnight - BUCKET_S: 200.0, midnight: 300.0}
    assert taken.accounts[AccountKey(20_000, "team", "ann", "j")].gpu_s == 200
    assert taken.accounts[AccountKey(20_001, "team", "ann", "j")].gpu_s == 300


def test_a_time_in_which_nobody_looked_counts_for_nobody(accruals: Accruals) -> None:
    accruals.set_capacity(np.ones(QUEUE_WIDTH), START_S)
    accruals.set_job("j", level(4), START_S)
    taken = accruals.take(START_S + 3_600)
    assert gpu_s(taken, "team") == gpu_s(taken, CLUSTER) == 0
    assert gpu_s(accruals.take(START_S + 3_660), "team") == 240


def test_waiting_and_idle_time_go_to_the_account(accruals: Accruals) -> None:
    accruals.set_job("j", level(is_waiting=True), START_S)
    accruals.set_job("j", level(4), START_S + 60)
    accruals.set_job("j", level(4, idle_gpus=4.0), START_S + 100)
    found = account(accruals.take(START_S + 150))
    assert (found.wait_s, found.gpu_s, found.idle_gpu_s) == (60, 360, 200)


def test_an_eviction_loses_the_work_since_the_start_of_the_gpus_that_go(accruals: Accruals) -> None:
    accruals.set_job("j", level(4, work_since_s=START_S), START_S)
    evicted_s = START_S + 500
    hit = level(4, work_since_s=START_S, evicted_s=evicted_s)
    accruals.set_job("j", hit, evicted_s)
    first = account(accruals.take(evicted_s + 5))
    assert (first.evictions, first.lost_gpu_s) == (1, 0), "its pods still run"
    accruals.set_job("j", level(1, work_since_s=START_S, evicted_s=evicted_s), evicted_s + 10)
    found = account(accruals.take(evicted_s + 20))
    assert (found.evictions, found.lost_gpu_s) == (0, 3 * 500)


def test_a_job_that_vanishes_after_its_eviction_loses_all_it_held(accruals: Accruals) -> None:
    accruals.set_job("j", level(2, work_since_s=START_S), START_S)
    hit = level(2, work_since_s=START_S, evicted_s=START_S + 100)
    accruals.set_job("j", hit, START_S + 100)
    accruals.set_job("j", None, START_S + 130)
    found = account(accruals.take(START_S + 130))
    assert (found.evictions, found.lost_gpu_s) == (1, 200)


def test_an_eviction_that_was_counted_before_a_restart_is_not_counted_again() -> None:
    accruals = Accruals(ancestry, START_S)
    accruals.set_job("j", level(evicted_s=START_S - 10, is_waiting=True), START_S + 5)
    accruals.set_job("k", level(evicted_s=START_S + 2, is_waiting=True), START_S + 5)
    taken = accruals.take(START_S + 6)
    # The one before the restart was on the day before.
    assert {key.job for key, sums in taken.accounts.items() if sums.evictions} == {"k"}
    assert account(taken, "k").evictions == 1


steps = st.lists(
    st.tuples(st.sampled_from("jk"), st.integers(0, 4), st.integers(0, 400), st.booleans()),
    max_size=12,
)


@given(steps)
def test_taking_sums_more_often_changes_nothing(changes: list[tuple[str, int, int, bool]]) -> None:
    def total(takes: Callable[[bool], bool]) -> dict[tuple[int, str], float]:
        accruals, sums, now_s = Accruals(ancestry, START_S), Sums(), START_S
        for job, gpus, after_s, take in changes:
            now_s += after_s
            if takes(take):
                sums.add(accruals.take(now_s))
            accruals.set_job(job, level(gpus), now_s)
        sums.add(accruals.take(now_s + 60))
        return {at: round(float(found[QUEUE_GPU]), 6) for at, found in sums.held.items()}

    seldom = total(lambda _: False)
    # A stretch that is too long to be known is cut by taking; these are all short enough.
    if sum(after_s for *_, after_s, _ in changes) <= 540:
        assert total(lambda take: take) == total(lambda _: True) == seldom
