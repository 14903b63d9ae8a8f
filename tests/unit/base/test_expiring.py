"""A map of bounded size whose entries end by themselves."""

from muster.base.clock import VirtualClock
from muster.base.expiring import ExpiringMap


def test_an_entry_is_there_for_as_long_as_it_was_put_for() -> None:
    clock = VirtualClock()
    kept: ExpiringMap[str, int] = ExpiringMap(clock, 10)
    kept.put("short", 1, for_s=5.0)
    kept.put("always", 2)
    clock.advance(4.9)
    assert (kept.get("short"), kept.get("always")) == (1, 2)
    clock.advance(0.1)
    assert (kept.get("short"), kept.get("always")) == (None, 2)
    kept.put("short", 3, for_s=5.0)
    assert kept.get("short") == 3


def test_when_full_the_one_not_used_for_longest_goes_first() -> None:
    kept: ExpiringMap[int, str] = ExpiringMap(VirtualClock(), 3)
    for number in range(3):
        kept.put(number, "kept")
    assert kept.get(0) == "kept"
    kept.put(3, "kept")
    assert [number for number in range(4) if kept.get(number)] == [0, 2, 3]


def test_what_is_over_is_let_go_without_being_asked_for() -> None:
    clock = VirtualClock()
    kept: ExpiringMap[int, bytes] = ExpiringMap(clock, 1000)
    for number in range(100):
        kept.put(number, b"large", for_s=5.0)
    clock.advance(5.0)
    kept.put(100, b"large", for_s=5.0)
    assert len(kept) == 1


def test_what_is_taken_out_is_gone_and_what_is_over_cannot_be_taken() -> None:
    clock = VirtualClock()
    kept: ExpiringMap[str, int] = ExpiringMap(clock, 10)
    kept.put("a", 1, for_s=5.0)
    assert (kept.pop("a"), kept.pop("a")) == (1, None)
    kept.put("a", 2, for_s=5.0)
    clock.advance(6.0)
    assert kept.pop("a") is None
    assert len(kept) == 0
