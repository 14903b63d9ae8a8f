"""Usage as the API tells it: what was above a quota, and moments of which nothing is known."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from muster.base.offload import inline
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accounts import Question
from muster.usage.accrual import BUCKET_S, CLUSTER, DAY_S, AccountKey, AccountSums, Sums
from muster.usage.source import NoUsage
from muster.usage.store import UsageStore
from muster.web.usage import POINTS_MAX, UsageFile

_DAY = 20_000
_START_S = _DAY * DAY_S
_HOUR_S = 3600


def _gpus(amount: float) -> Floats:
    row = np.zeros(QUEUE_WIDTH)
    row[QUEUE_GPU] = amount * BUCKET_S
    return row


@pytest.fixture
def usage(tmp_path: Path) -> UsageFile:
    """An hour of 6 GPUs, an hour of which nothing is known, an hour of 2."""
    path = tmp_path / "usage.db"
    sums, store = Sums(), UsageStore(path)
    for hour, amount in ((0, 6.0), (2, 2.0)):
        for at in range(_START_S + hour * _HOUR_S, _START_S + (hour + 1) * _HOUR_S, BUCKET_S):
            sums.held[at, CLUSTER], sums.held[at, "llm"] = _gpus(8.0), _gpus(amount)
    account = AccountSums(8.0 * _HOUR_S, 2.0 * _HOUR_S)
    sums.accounts[AccountKey(_DAY, "llm", "ana", "default/train")] = account
    store.add(sums, float(_START_S + 3 * _HOUR_S))
    store.close()
    return UsageFile(path, inline)


async def test_what_is_above_the_quota_is_borrowed_hour_by_hour(usage: UsageFile) -> None:
    question = Question(_START_S, _START_S + 4 * _HOUR_S)
    (found,) = await usage.usage(question, {"llm": 4.0})
    assert found.borrowed_gpu_hours == pytest.approx(2.0)  # of 8: 2 below it make up for nothing
    assert (found.gpu_hours, found.of_quota, found.idle) == pytest.approx((8.0, 0.5, 0.25))
    (unlimited,) = await usage.usage(question, {"llm": None})
    assert (unlimited.borrowed_gpu_hours, unlimited.of_quota) == (None, None)


async def test_a_moment_at_which_nobody_looked_is_no_zero(usage: UsageFile) -> None:
    found = await usage.series(_START_S, _START_S + 3 * _HOUR_S, ("", "llm", "idle"), 3)
    assert found.t == [_START_S + hour * _HOUR_S for hour in range(3)]
    assert found.lines == {"": [8.0, None, 8.0], "llm": [6.0, None, 2.0], "idle": [0.0, None, 0.0]}


async def test_of_a_bucket_that_has_only_begun_what_is_over_counts(tmp_path: Path) -> None:
    """A line does not fall at its end, and what is borrowed counts from the first minute on."""
    path = tmp_path / "usage.db"
    sums, store = Sums(), UsageStore(path)
    for at, part in ((_START_S, 1.0), (_START_S + BUCKET_S, 0.2)):
        sums.held[at, CLUSTER], sums.held[at, "llm"] = _gpus(8.0) * part, _gpus(6.0) * part
    sums.accounts[AccountKey(_DAY, "llm", "ana", "default/train")] = AccountSums(1.2 * 6 * BUCKET_S)
    now_s = _START_S + 1.2 * BUCKET_S
    store.add(sums, now_s)
    store.close()
    usage = UsageFile(path, inline)
    found = await usage.series(_START_S, now_s, ("", "llm"), 600)
    assert found.lines == {"": [8.0, 8.0], "llm": [6.0, 6.0]}
    (account,) = await usage.usage(Question(_START_S, now_s), {"llm": 4.0})
    assert account.borrowed_gpu_hours == pytest.approx(1.2 * 2 * BUCKET_S / _HOUR_S)
    assert account.of_quota == pytest.approx(6 / 4)


@pytest.mark.parametrize("blob", [b"", b"odd", b"\x00\x00\xc0\x7f" * 9, None])
async def test_of_a_bucket_that_was_damaged_nothing_counts(
    usage: UsageFile, tmp_path: Path, blob: bytes | None
) -> None:
    with sqlite3.connect(tmp_path / "usage.db") as database:
        database.execute("UPDATE held SET gpu = ? WHERE start_s < ?", (blob, _START_S + _HOUR_S))
    database.close()
    found = await usage.series(_START_S, _START_S + 3 * _HOUR_S, ("llm",), 3)
    assert found.lines == {"llm": [0.0, None, 2.0]}
    (account,) = await usage.usage(Question(_START_S, _START_S + 4 * _HOUR_S), {"llm": 1.0})
    assert account.borrowed_gpu_hours == pytest.approx(1.0)
    store = UsageStore(tmp_path / "usage.db")
    assert np.isfinite(store.day(_DAY).held).all(), "other processes go on from it"
    store.close()


async def test_a_series_has_no_more_points_than_a_chart_shows(usage: UsageFile) -> None:
    found = await usage.series(_START_S - 30 * DAY_S, _START_S + DAY_S, ("llm",), 1_000_000)
    assert len(found.t) <= POINTS_MAX + 1


async def test_without_a_store_it_is_said_how_to_name_one() -> None:
    with pytest.raises(NoUsage, match="--usage-store"):
        await UsageFile(None, inline).series(0.0, 1.0, ("",), 1)
