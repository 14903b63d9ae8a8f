"""A day of usage as bytes: the same day comes back, small enough, and nothing else is believed."""

import zlib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from muster.api.codec import from_builtins
from muster.api.core import ConfigMap
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accrual import BUCKET_S, CLUSTER, DAY_S, AccountKey, AccountSums, Sums
from muster.usage.cluster_copy import day_in, map_of
from muster.usage.days import OTHERS, BadDay, DayUsage, packed, unpacked
from muster.usage.store import UsageStore

DAY = 20_000
START_S = DAY * DAY_S


def day_of(buckets: int = 24, queues: int = 3, jobs: int = 4, seed: int = 1) -> DayUsage:
    rand = np.random.default_rng(seed)
    names = [CLUSTER, *(f"q{n}" for n in range(queues))]
    held = rand.uniform(0, 1000, (buckets, QUEUE_WIDTH, len(names)))
    accounts = [
        (
            AccountKey(DAY, f"q{n % queues}", f"user{n}", f"team/{rand.bytes(8).hex()}"),
            AccountSums(float(rand.uniform(1, 1e6)), 1.0, 2.0, 1, 0.5),
        )
        for n in range(jobs)
    ]
    starts_s = [START_S + n * BUCKET_S for n in range(buckets)]
    return DayUsage(DAY, START_S + buckets * BUCKET_S, names, starts_s, held, accounts)


def test_a_day_comes_back_as_it_was() -> None:
    day = day_of()
    found = unpacked(packed(day))
    assert (found.day, found.until_s, found.queues) == (day.day, day.until_s, day.queues)
    assert list(found.starts_s) == list(day.starts_s)
    assert found.held == pytest.approx(day.held, rel=1e-6)
    assert sorted(map(str, found.accounts)) == sorted(map(str, day.accounts))


@pytest.mark.parametrize("text", ["?", "x", "\u00b2", "\u202e\U0001f600", "AAAA"])
def test_a_copy_that_is_no_text_of_bytes_is_no_day(text: str) -> None:
    copied = {"metadata": {"name": map_of(DAY)}, "binaryData": {"day": text}}
    with pytest.raises(BadDay):
        day_in(from_builtins(ConfigMap, copied))


def test_a_day_of_nothing_comes_back() -> None:
    day = replace(day_of(buckets=0, jobs=0), until_s=START_S + 10.0)
    found = unpacked(packed(day))
    assert (list(found.starts_s), list(found.accounts)) == ([], [])


def test_too_many_queues_make_a_day_coarser_and_lose_nothing() -> None:
    day = day_of(buckets=250, queues=60)
    text = packed(day, held_max=40_000)
    assert len(text) < 60_000
    found = unpacked(text)
    assert found.held.sum(axis=0) == pytest.approx(day.held.sum(axis=0), rel=1e-5)
    assert max(found.starts_s) < day.until_s, "nothing is moved into what has not been yet"
    by_hour = [
        [part[hour * 12 : hour * 12 + 12].sum() for hour in range(20)]
        for part in (found.held[:, QUEUE_GPU, 5], day.held[:, QUEUE_GPU, 5])
    ]
    assert by_hour[0] == pytest.approx(by_hour[1], rel=0.5)


def test_thousands_of_users_cost_a_bounded_object_and_every_gpu_hour_stays() -> None:
    day = day_of(jobs=20_000)
    text = packed(day)
    assert len(text) < 700_000
    found = unpacked(text).accounts
    assert len(found) < 20_000
    for what in ("gpu_s", "idle_gpu_s", "wait_s", "evictions", "lost_gpu_s"):
        was = sum(getattr(sums, what) for _, sums in day.accounts)
        assert sum(getattr(sums, what) for _, sums in found) == pytest.approx(was)
    assert {key.queue for key, _ in found if key.job == OTHERS} == {"q0", "q1", "q2"}
    shown = {key for key, _ in found}
    largest = max(day.accounts, key=lambda one: one[1].gpu_s)[0]
    assert largest in shown, "the small ones go first"


def test_however_little_room_there_is_the_sum_stays() -> None:
    found = unpacked(packed(day_of(jobs=100), most=1)).accounts
    assert len(found) == 1
    assert found[0][1].evictions == 100


def changed(**fields: object) -> bytes:
    """A day of which somebody changed something."""
    body = msgspec.msgpack.decode(zlib.decompress(packed(day_of(buckets=1, queues=1))))
    order = ("format", "day", "until_s", "width_s", "queues", "starts_s", "held", "accounts")
    for name, value in fields.items():
        body[order.index(name)] = value
    return zlib.compress(msgspec.msgpack.encode(body))


def held(*amounts: float) -> bytes:
    return zlib.compress(np.array(amounts, dtype=np.float32).tobytes())


SIX = (1.0,) * (2 * QUEUE_WIDTH - 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "cut off"),
        (b"nothing at all", "no day"),
        (packed(day_of())[:-9], "cut off"),
        (zlib.compress(bytes(65 * 2**20)), "larger"),
        (zlib.compress(msgspec.msgpack.encode({"a": 1})), "no day"),
        (zlib.compress(msgspec.msgpack.encode([])), "no day"),
        (changed(format=2), "format 2"),
        (changed(day=DAY + 1), "not in it"),
        (changed(until_s=1e300), "not in it"),
        (changed(until_s=float("nan")), "not in it"),
        (changed(width_s=0), "buckets"),
        (changed(queues=["a", "a"]), "queues"),
        (changed(queues=["a", "b"]), "sums"),
        (changed(starts_s=[START_S, START_S + 1]), "sums"),
        (changed(held=zlib.compress(bytes(65 * 2**20))), "larger"),
        (changed(held=held(*SIX, float("nan"))), "no amount"),
        (changed(held=held(*SIX, float("inf"))), "no amount"),
        (changed(held=held(*SIX, -1.0)), "no amount"),
        (changed(accounts=[("q", "u", "j", float("inf"), 0.0, 0.0, 0, 0.0)]), "no amount"),
        (changed(accounts=[("q", "u", "j", 1.0, 0.0, 0.0, -1, 0.0)]), "no amount"),
        (changed(accounts=[("q", "u")]), "no day"),
    ],
)
def test_what_is_no_day_is_refused_with_the_reason(text: bytes, why: str) -> None:
    with pytest.raises(BadDay, match=why):
        unpacked(text)


def test_a_store_goes_on_in_another_file_from_its_days(tmp_path: Path) -> None:
    first, second = UsageStore(tmp_path / "a.db"), UsageStore(tmp_path / "b.db")
    sums = Sums()
    for day in (DAY, DAY + 1):
        sums.held[day * DAY_S, CLUSTER] = np.full(QUEUE_WIDTH, 8.0)
        sums.held[day * DAY_S, f"q{day}"] = np.full(QUEUE_WIDTH, 4.0)
        sums.accounts[AccountKey(day, "q", "u", "j")] = AccountSums(gpu_s=5.0, evictions=1)
    first.add(sums, (DAY + 1) * DAY_S + 60.0)
    assert first.days() == [DAY, DAY + 1]
    assert first.day(DAY).queues == [CLUSTER, f"q{DAY}"], "only who held anything that day"
    assert first.day(DAY).until_s == (DAY + 1) * DAY_S
    for day in first.days():
        for _ in range(2):  # A day is put in place of itself, not added to itself.
            second.put_day(unpacked(packed(first.day(day))))
    assert second.last_s() == first.last_s()
    for day in first.days():
        one, other = first.day(day), second.day(day)
        assert other.held == pytest.approx(one.held)
        assert (other.until_s, other.queues, other.accounts) == (
            one.until_s,
            one.queues,
            one.accounts,
        )
    first.close()
    second.close()
