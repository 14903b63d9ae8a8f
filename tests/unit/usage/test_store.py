"""The usage store: adds up, survives restarts, keeps to its retention and its size."""

import errno
import sqlite3
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.support.somebody_else import somebody_else

from muster.base.database_file import BadFile, FileInUse
from muster.base.offload import inline
from muster.model.usage import UsageWindow
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accrual import BUCKET_S, CLUSTER, DAY_S, AccountKey, AccountSums, Sums
from muster.usage.embedded import EmbeddedUsage
from muster.usage.source import SHARE_MAX, NoUsage
from muster.usage.store import AnotherWriter, StoreBounds, UsageReader, UsageStore

NOW_S = 20_000 * DAY_S + 0.0
HOUR_S = 3600


def gpus(amount: float) -> Floats:
    row = np.zeros(QUEUE_WIDTH)
    row[QUEUE_GPU] = amount
    return row


def recorded(store: UsageStore, start_s: float, hours: float, **held: float) -> None:
    """A cluster of 8 GPUs and what queues hold of it, bucket by bucket."""
    sums = Sums()
    for step in range(int(hours * HOUR_S) // BUCKET_S):
        at = int(start_s) + step * BUCKET_S
        sums.held[at, CLUSTER] = gpus(8.0 * BUCKET_S)
        for queue, amount in held.items():
            sums.held[at, queue] = gpus(amount * BUCKET_S)
    store.add(sums, start_s + hours * HOUR_S)


async def usage(path: Path, window: UsageWindow, now_s: float = NOW_S) -> dict[str, float]:
    source = EmbeddedUsage(path, window, inline)
    found = (await source.read(now_s)).by_queue
    await source.close()
    return {queue: used["gpu"] for queue, used in found.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


async def test_usage_is_what_was_held_of_what_there_was_in_the_window(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - 4 * HOUR_S, 2, a=8)
    recorded(store, NOW_S - 2 * HOUR_S, 2, b=4)
    assert await usage(path, UsageWindow(size_s=4 * HOUR_S)) == pytest.approx({"a": 0.5, "b": 0.25})
    assert await usage(path, UsageWindow(size_s=2 * HOUR_S)) == pytest.approx({"a": 0, "b": 0.5})
    # The window begins in the middle of a bucket.
    half = UsageWindow(size_s=2 * HOUR_S + BUCKET_S / 2)
    expected = 8 * BUCKET_S / 2 / (8 * half.size_s)
    assert (await usage(path, half))["a"] == pytest.approx(expected)


async def test_of_a_bucket_that_has_only_begun_all_that_is_over_counts(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - BUCKET_S, BUCKET_S / HOUR_S, a=8)
    begun = {(int(NOW_S), CLUSTER): gpus(8.0 * 60), (int(NOW_S), "b"): gpus(8.0 * 60)}
    store.add(Sums(begun), NOW_S + 60)
    found = await usage(path, UsageWindow(size_s=HOUR_S), NOW_S + 60)
    assert found == pytest.approx({"a": 300 / 360, "b": 60 / 360})


async def test_a_half_life_makes_old_usage_count_less(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - 48 * HOUR_S, 24, a=8)
    recorded(store, NOW_S - 24 * HOUR_S, 24, b=8)
    found = await usage(path, UsageWindow(half_life_s=24 * HOUR_S, size_s=48 * HOUR_S))
    # The integral of the decay over one half-life is half of that over the next younger one.
    assert found == pytest.approx({"a": 1 / 3, "b": 2 / 3}, rel=1e-4)


async def test_tumbling_windows_forget_what_was_before_them(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - 3 * HOUR_S, 2, a=8)
    recorded(store, NOW_S - HOUR_S, 1, b=8)
    window = UsageWindow(kind="tumbling", size_s=2 * HOUR_S, start_s=NOW_S - 9 * HOUR_S)
    assert await usage(path, window) == pytest.approx({"a": 0, "b": 1})


async def test_a_time_that_was_not_recorded_counts_for_nobody(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - 10 * HOUR_S, 1, a=8)
    recorded(store, NOW_S - HOUR_S, 1, b=8)
    found = await usage(path, UsageWindow(size_s=10 * HOUR_S))
    assert found == pytest.approx({"a": 0.5, "b": 0.5})


async def test_sums_go_on_after_a_restart_also_in_the_same_bucket(path: Path) -> None:
    at = int(NOW_S) - BUCKET_S
    for amount in (0.0, BUCKET_S):
        store = UsageStore(path)
        account = {AccountKey(19_999, "a", "ann", "j"): AccountSums(gpu_s=100.0, evictions=1)}
        held = {(at, CLUSTER): gpus(8 * BUCKET_S / 2), (at, "a"): gpus(amount)}
        store.add(Sums(held, account), NOW_S)
        store.close()
    assert await usage(path, UsageWindow(size_s=BUCKET_S)) == pytest.approx({"a": 0.125})
    ((_, sums),) = UsageReader(path).accounts(19_999, 19_999)
    assert (sums.gpu_s, sums.evictions) == (200, 2)
    assert UsageStore(path).last_s() == NOW_S


async def test_a_source_reads_only_what_is_new_and_says_the_same(path: Path) -> None:
    store = UsageStore(path)
    window = UsageWindow(size_s=6 * HOUR_S)
    source = EmbeddedUsage(path, window, inline)
    for hour in range(6):
        recorded(store, NOW_S + hour * HOUR_S, 1, **{f"q{hour}": 8})
        now_s = NOW_S + (hour + 1) * HOUR_S
        found = (await source.read(now_s)).by_queue
        fresh = (await EmbeddedUsage(path, window, inline).read(now_s)).by_queue
        assert found == fresh
    assert found["q0"]["gpu"] == pytest.approx(1 / 6)


def test_what_is_older_than_the_retention_goes(path: Path) -> None:
    store = UsageStore(path, StoreBounds(retention_s=2 * DAY_S))
    for day in range(5):
        recorded(store, NOW_S - day * DAY_S, 1, a=1)
        key = AccountKey(20_000 - day, "a", "", "j")
        store.add(Sums(accounts={key: AccountSums(gpu_s=1.0)}), NOW_S)
    store.prune(NOW_S + HOUR_S)
    reader = UsageReader(path)
    assert [key.day for key, _ in reader.accounts(0, 30_000)] == [19_998, 19_999, 20_000]
    assert min(start for start, _ in reader.buckets(0.0)) == NOW_S - 2 * DAY_S


def test_a_store_that_grows_too_large_lets_the_oldest_days_go(path: Path) -> None:
    bound = 200_000
    store = UsageStore(path, StoreBounds(size_max_bytes=bound))
    for day in range(10):
        accounts = {
            AccountKey(20_000 - day, "a", "ann", f"job-{day}-{n}"): AccountSums(gpu_s=1.0)
            for n in range(1_000)
        }
        store.add(Sums(accounts=accounts), NOW_S)
    assert store.size_bytes() > bound
    store.prune(NOW_S)
    assert store.size_bytes() <= bound
    assert path.stat().st_size <= bound, "also while it is open"
    reader = UsageReader(path)
    days = {key.day for key, _ in reader.accounts(0, 30_000)}
    reader.close()
    assert days == set(range(min(days), 20_001)), "the newest stay, without gaps"
    assert 1 < len(days) < 10
    store.close()


def test_sums_that_cannot_be_written_leave_the_store_as_it_was(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S, 1, a=1)
    bad = Sums(accounts={AccountKey(1, "a", "", "j"): AccountSums(gpu_s=object())})  # type: ignore[arg-type]
    bad.held[int(NOW_S), "new"] = gpus(1.0)
    with pytest.raises(sqlite3.Error):
        store.add(bad, NOW_S)
    assert UsageReader(path).queues() == [CLUSTER, "a"]
    recorded(store, NOW_S, 1, new=1)
    assert UsageReader(path).queues() == [CLUSTER, "a", "new"]


def test_a_file_that_is_no_store_is_refused_with_what_to_do(path: Path) -> None:
    path.write_text("not a database, and long enough to be looked at" * 50)
    with pytest.raises(BadFile, match="move the file away"):
        UsageStore(path)
    with pytest.raises(NoUsage, match="cannot be read"):
        UsageReader(path)


async def test_a_store_that_is_not_there_yet_is_no_usage(path: Path) -> None:
    with pytest.raises(NoUsage, match="see that the queue controller writes it"):
        await usage(path, UsageWindow())


async def test_of_a_new_store_nobody_is_known_to_have_used_anything(path: Path) -> None:
    UsageStore(path)
    assert await usage(path, UsageWindow()) == {}


def test_a_second_that_would_write_the_file_is_told_to_name_another(path: Path) -> None:
    first = UsageStore(path)
    with pytest.raises(FileInUse, match="is written by another process: name another one"):
        UsageStore(path)
    first.close()
    UsageStore(path).close()


def test_where_files_cannot_be_locked_two_are_found_out_before_anything_counts_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, "no locks here")))
    first, second = UsageStore(path), UsageStore(path)
    recorded(first, NOW_S, 1, a=8)
    with pytest.raises(AnotherWriter, match="another process writes the usage store"):
        recorded(second, NOW_S, 1, a=8)
    recorded(first, NOW_S + HOUR_S, 1, a=8)
    reader = UsageReader(path)
    assert len(reader.buckets(NOW_S)) == 2 * HOUR_S // BUCKET_S
    reader.close()


@pytest.mark.parametrize("ahead_s", [2 * HOUR_S, 300 * DAY_S])
@pytest.mark.parametrize("whose", ["the writer's", "the reader's"])
async def test_a_clock_that_went_ahead_and_came_back_leaves_no_hole(
    path: Path, ahead_s: float, whose: str
) -> None:
    store = UsageStore(path)
    window = UsageWindow(size_s=6 * HOUR_S)
    source = EmbeddedUsage(path, window, inline)
    recorded(store, NOW_S - 6 * HOUR_S, 6, a=8)
    if whose == "the writer's":
        recorded(store, NOW_S + ahead_s, 1, a=8)
        await source.read(NOW_S)
    else:
        await source.read(NOW_S + ahead_s)
    recorded(store, NOW_S, 1, b=8)
    found = (await source.read(NOW_S + HOUR_S)).by_queue
    assert found["a"]["gpu"] == pytest.approx(5 / 6)
    assert found["b"]["gpu"] == pytest.approx(1 / 6)


async def test_a_file_that_was_put_in_place_of_another_is_the_one_that_is_read(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - HOUR_S, 1, a=8)
    source = EmbeddedUsage(path, UsageWindow(size_s=HOUR_S), inline)
    assert (await source.read(NOW_S)).by_queue["a"]["gpu"] == pytest.approx(1)
    assert not store.is_replaced()
    moved_away(path)
    assert store.is_replaced()
    with pytest.raises(NoUsage, match="cannot be read"):
        await source.read(NOW_S)
    store.close()
    recorded(UsageStore(path), NOW_S - HOUR_S, 1, b=4)
    found = (await source.read(NOW_S)).by_queue
    assert {queue: used["gpu"] for queue, used in found.items()} == {"b": pytest.approx(0.5)}


def shown_to_others(folder: Path) -> None:
    """They may read what is in it."""
    folder.chmod(0o755)


async def test_a_store_in_a_folder_that_may_only_be_read_is_read_and_followed() -> None:
    """That of another user, or of a volume that is mounted so, which somebody writes later."""
    with tempfile.TemporaryDirectory() as name:
        path, folder = Path(name) / "usage.db", Path(name)
        store = UsageStore(path)
        recorded(store, NOW_S - 2 * HOUR_S, 1, a=8)
        store.close()
        shown_to_others(folder)
        source = EmbeddedUsage(path, UsageWindow(size_s=2 * HOUR_S), inline)
        with somebody_else():
            before = (await source.read(NOW_S)).by_queue["a"]["gpu"]
        store = UsageStore(path)
        recorded(store, NOW_S - HOUR_S, 1, b=8)
        with somebody_else():
            after = (await source.read(NOW_S)).by_queue["a"]["gpu"]
        store.close()
        await source.close()
    assert (before, after) == pytest.approx((1.0, 0.5))


@pytest.mark.parametrize("at", [0, 100, 9000])
async def test_a_damaged_file_is_no_usage_and_says_what_to_do(path: Path, at: int) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - 24 * HOUR_S, 24, **{f"q{n}": 0.1 for n in range(80)})
    store.close()
    overwrite(path, at)
    with pytest.raises(NoUsage, match="move it away"):
        await usage(path, UsageWindow(size_s=24 * HOUR_S))


def moved_away(path: Path) -> None:
    path.rename(path.with_name("damaged.db"))


def overwrite(path: Path, at: int) -> None:
    body = bytearray(path.read_bytes())
    body[at : at + 4000] = b"\xff" * len(body[at : at + 4000])
    path.write_bytes(body)


async def test_what_is_no_amount_in_a_damaged_bucket_counts_for_nobody(path: Path) -> None:
    store = UsageStore(path)
    recorded(store, NOW_S - HOUR_S, 1, a=8, b=4)
    store.close()
    database = sqlite3.connect(path)
    for step, bad in enumerate([np.nan, np.inf, -np.inf, -1.0, 3e38]):
        blob = np.array([8 * BUCKET_S, bad, 4 * BUCKET_S], dtype=np.float32).tobytes() + b"x"
        at = int(NOW_S) - HOUR_S + step * BUCKET_S
        database.execute("UPDATE held SET gpu = ? WHERE start_s = ?", (blob, at))
    database.commit()
    found = await usage(path, UsageWindow(size_s=HOUR_S))
    assert found["b"] == pytest.approx(0.5)
    assert 0 <= found["a"] <= SHARE_MAX
