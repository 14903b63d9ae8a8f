"""Defragmentation: what moves when nobody waits, how much of it, when, and what never moves."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.defragmentation import NAME
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import Memory
from muster.engine.registry import build_actions, build_policy
from muster.engine.search.defragment import MOVED
from muster.foresight.aftermath import carried_out
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.invariants import broken

_HOUR_S = 3600.0
_LARGE = make.gang("large", 1, queue="q", gpu=4, nodes=("full",))


def _decided(
    *parts: make.Part,
    conf: str = "defragmentation: {every: 1h}",
    last_s: float | None = make.NOW_S - _HOUR_S,
    now_s: float = make.NOW_S,
) -> CycleResult:
    read = parse_conf(f"actions: allocate\nplacement: least-fragmentation\n{conf}\n")
    memory = Memory(acted_s={} if last_s is None else {NAME: last_s})
    records = make.cluster(make.queue("q"), make.node("full", gpu=4), _LARGE, *parts)
    result = run_cycle(snapshot_of(records), build_policy(read), build_actions(read), now_s, memory)
    assert broken(records, result.plan) == []
    carried_out(records, result.plan)
    return result


def _moves(result: CycleResult) -> dict[str, str]:
    return {evict.task: evict.moves_to for evict in result.plan.evictions}


def _small(name: str, node: str, size: int = 1, **more: Any) -> make.Workload:
    return make.gang(name, size, queue="q", gpu=1, nodes=(node,) * size, **more)


_HALF_EMPTY = (
    make.node("one", gpu=4),
    make.node("two", gpu=4),
    _small("a", "one", 2),
    _small("b", "two"),
)
"""Four GPUs are wanted as one here, five are free, and no node has them."""


def test_work_moves_so_that_the_gpus_of_a_node_can_be_used_together() -> None:
    result = _decided(*_HALF_EMPTY)
    assert _moves(result) == {"b-0": "one"}
    assert [(evict.action, evict.actor) for evict in result.plan.evictions] == [(NAME, "")]
    assert result.explanation.counters[MOVED] == 1


def test_jobs_move_together_where_one_alone_would_gain_nothing() -> None:
    result = _decided(
        make.node("one", gpu=4),
        make.gang("stays", 1, queue="q", gpu=2, nodes=("one",), is_preemptible=False),
        make.node("two", gpu=8),
        make.gang("fixed", 1, queue="q", gpu=4, nodes=("two",), is_preemptible=False),
        _small("a", "two"),
        _small("b", "two"),
        make.node("more", gpu=32),
        *(make.gang(f"l{at}", 1, queue="q", gpu=4, nodes=("more",)) for at in range(8)),
    )
    assert _moves(result) == {"a-0": "one", "b-0": "one"}


def test_nothing_is_configured_and_nothing_moves() -> None:
    assert _moves(_decided(*_HALF_EMPTY, conf="")) == {}


def test_nothing_moves_where_all_that_is_free_can_be_used() -> None:
    """Everybody here wants one GPU, so no arrangement is better than another."""
    read = parse_conf("actions: allocate\ndefragmentation: {every: 1h}\n")
    world = make.cluster(
        make.queue("q"), make.node("one", gpu=4), make.node("two", gpu=4),
        _small("a", "one"), _small("b", "two"),
    )  # fmt: skip
    memory = Memory(acted_s={NAME: 0.0})
    result = run_cycle(snapshot_of(world), build_policy(read), (), make.NOW_S, memory)
    assert result.plan.evictions == ()
    assert result.memory.acted_s[NAME] == make.NOW_S


def test_nothing_moves_for_less_than_it_holds_itself() -> None:
    """Of twenty kinds one could use four GPUs: a fifth of a GPU is gained, and one pod is lost."""
    many = [_small(f"s{at}", "crowd") for at in range(19)]
    assert _moves(_decided(*_HALF_EMPTY, make.node("crowd", gpu=19), *many)) == {}


def test_the_first_cycle_of_a_process_begins_to_count() -> None:
    result = _decided(*_HALF_EMPTY, last_s=None)
    assert _moves(result) == {}
    assert result.memory.acted_s == {NAME: make.NOW_S}
    assert result.next_change_s == pytest.approx(make.NOW_S + _HOUR_S, abs=1)


def test_a_round_waits_until_it_is_due() -> None:
    result = _decided(*_HALF_EMPTY, last_s=make.NOW_S - _HOUR_S + 10)
    assert _moves(result) == {}
    assert result.next_change_s == pytest.approx(make.NOW_S + 10, abs=1)


@pytest.mark.parametrize(
    ("window", "opens", "moves"),
    [
        ("22:00-06:00", "23:00", True),
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
        ("10:00-11:00", "09:59", False),
        ("10:00-11:00", "10:00", True),
    ],
)
def test_a_round_begins_within_the_window(window: str, opens: str, moves: bool) -> None:
    hour, minute = map(int, opens.split(":"))
    now_s = datetime(2026, 11, 18, hour, minute, tzinfo=UTC).timestamp()
    conf = f'defragmentation: {{every: 1h, window: "{window}"}}'
    result = _decided(*_HALF_EMPTY, conf=conf, last_s=0.0, now_s=now_s)
    assert bool(_moves(result)) is moves
    first = datetime(2026, 11, 18, int(window[:2]), int(window[3:5]), tzinfo=UTC).timestamp()
    if not moves:
        assert result.next_change_s == pytest.approx(first, abs=1)


def _three_holes() -> list[make.Part]:
    parts: list[make.Part] = [make.node("more", gpu=12)]
    for at in range(3):
        parts += [
            make.node(f"n{at}", gpu=4),
            make.node(f"m{at}", gpu=4),
            _small(f"a{at}", f"n{at}", 3),
            _small(f"b{at}", f"m{at}"),
            make.gang(f"l{at}", 1, queue="q", gpu=4, nodes=("more",)),
        ]
    return parts


@pytest.mark.parametrize(("most", "moved"), [(1, 1), (2, 2), (16, 3)])
def test_a_round_moves_no_more_pods_than_its_budget(most: int, moved: int) -> None:
    conf = f"defragmentation: {{every: 1h, mostMoves: {most}}}"
    assert len(_moves(_decided(*_three_holes(), conf=conf))) == moved


def test_a_gang_moves_as_a_whole_or_not_at_all() -> None:
    parts: list[make.Part] = [make.node("one", gpu=4), make.node("two", gpu=4)]
    parts.append(make.node("more", gpu=12))
    parts += [make.gang(f"l{at}", 1, queue="q", gpu=4, nodes=("more",)) for at in range(3)]
    parts.append(_small("a", "one", 2, is_preemptible=False))
    pair = _small("pair", "two", 2)
    assert len(_moves(_decided(*parts, pair))) == 2
    conf = "defragmentation: {every: 1h, mostMoves: 1}"
    assert _moves(_decided(*parts, pair, conf=conf)) == {}


def test_a_cycle_that_has_something_to_decide_moves_nothing() -> None:
    result = _decided(*_HALF_EMPTY, make.gang("waits", 1, queue="q", gpu=1))
    assert [bind.task for bind in result.plan.binds] == ["waits-0"]
    assert _moves(result) == {}
    assert result.memory.acted_s == {NAME: make.NOW_S - _HOUR_S}
    assert result.next_change_s == pytest.approx(make.NOW_S + 60, abs=1)


def test_who_lost_a_pod_within_a_day_stays() -> None:
    parts = [part for part in _HALF_EMPTY if getattr(part, "job", None) is None]
    rests = _small("b", "two", last_eviction_s=make.NOW_S - 3 * _HOUR_S)
    pinned = _small("a", "one", 2, is_preemptible=False)
    assert _moves(_decided(*parts, pinned, rests)) == {}
    rested = _small("b", "two", last_eviction_s=make.NOW_S - 25 * _HOUR_S)
    assert _moves(_decided(*parts, pinned, rested)) == {"b-0": "one"}


def test_work_that_may_not_be_disturbed_stays() -> None:
    parts = [part for part in _HALF_EMPTY if getattr(part, "job", None) is None]
    fixed = (
        _small("a", "one", 2, is_preemptible=False),
        _small("b", "two", is_preemptible=False),
    )
    assert _moves(_decided(*parts, *fixed)) == {}
