"""One who did not write goes on where the other stopped, and to the second."""

import numpy as np
import pytest

from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accrual import CLUSTER, Accruals, JobLevel, Sums
from muster.usage.recent import KEPT_S, RecentLevels

BEGAN_S = 20_000 * 86_400.0


def level(gpus: float, evicted_s: float | None = None) -> JobLevel:
    held = tuple(gpus if at == QUEUE_GPU else 0.0 for at in range(QUEUE_WIDTH))
    return JobLevel("q", "ann", held, work_since_s=BEGAN_S, evicted_s=evicted_s)


def total(sums: Sums, queue: str) -> float:
    return float(sum(one[QUEUE_GPU] for (_, name), one in sums.held.items() if name == queue))


def replayed(recent: RecentLevels, from_s: float, now_s: float) -> Sums:
    accruals = Accruals(lambda queue: [queue], from_s)
    sums = recent.replay(accruals, from_s, now_s)
    assert not accruals.take(now_s).held, "all of it was taken"
    return sums


def test_what_changed_since_counts_from_the_moment_the_other_stopped() -> None:
    recent = RecentLevels()
    recent.set_capacity(np.full(QUEUE_WIDTH, 8.0), BEGAN_S)
    recent.set_job("a", level(4), BEGAN_S)
    recent.set_job("b", level(2), BEGAN_S + 10)
    recent.set_job("b", None, BEGAN_S + 100)
    recent.set_job("a", level(1), BEGAN_S + 150)
    sums = replayed(recent, BEGAN_S + 50, BEGAN_S + 200)
    assert total(sums, "q") == pytest.approx(4 * 100 + 2 * 50 + 1 * 50)
    assert total(sums, CLUSTER) == pytest.approx(8 * 150)
    (account,) = [one for key, one in sums.accounts.items() if key.job == "a"]
    assert account.gpu_s == pytest.approx(4 * 100 + 50)


def test_long_without_a_change_is_no_gap() -> None:
    recent = RecentLevels()
    recent.set_capacity(np.full(QUEUE_WIDTH, 8.0), BEGAN_S)
    recent.set_job("a", level(4), BEGAN_S)
    now_s = BEGAN_S + KEPT_S
    assert total(replayed(recent, BEGAN_S, now_s), "q") == pytest.approx(4 * KEPT_S)


def test_an_eviction_counts_once_for_whoever_saw_it_first() -> None:
    recent = RecentLevels()
    recent.set_job("before", level(4), BEGAN_S)
    recent.set_job("before", level(4, BEGAN_S + 20), BEGAN_S + 20)
    recent.set_job("after", level(4), BEGAN_S + 20)
    recent.set_job("after", level(4, BEGAN_S + 90), BEGAN_S + 90)
    sums = replayed(recent, BEGAN_S + 60, BEGAN_S + 120)
    evictions = {key.job: one.evictions for key, one in sums.accounts.items()}
    assert evictions == {"before": 0, "after": 1}


def test_only_the_last_minutes_are_remembered() -> None:
    recent = RecentLevels()
    for second in range(int(3 * KEPT_S)):
        recent.set_job("a", level(second % 3), BEGAN_S + second)
    assert len(recent._changes) <= KEPT_S + 1
