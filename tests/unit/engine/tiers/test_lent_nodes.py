"""nodegroup: which queues use which nodes; tdm: nodes that are lent for part of the day."""

import json
from datetime import UTC, datetime

import pytest
from tests.support.batch import Batch, bound, evicted, where

from muster.api.volcano import (
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    NODE_GROUP,
    NODE_GROUP_LIMITS,
    PREEMPTABLE,
    REVOCABLE_ZONE,
)
from muster.engine.memory import Memory

_GROUPS = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodegroup
    arguments: {strict: true}
"""


def _grouped() -> Batch:
    told = Batch().node("a1", 4, labels={NODE_GROUP: "a"}).node("b1", 4, labels={NODE_GROUP: "b"})
    return told.node("plain", 4)


def _nodes(told: Batch, conf: str = _GROUPS) -> set[str]:
    return set(where(told.run(conf)).values())


def test_a_queue_without_affinity_uses_only_nodes_without_group_and_only_if_it_may() -> None:
    told = _grouped().queue("q").gang("job", "q", 1, waiting=12)
    assert _nodes(told) == set()
    assert _nodes(told, _GROUPS.replace("strict: true", "strict: false")) == {"plain"}


@pytest.mark.parametrize(
    ("wishes", "nodes"),
    [
        ({"affinity": ("a",)}, {"a1"}),
        ({"preferred": ("b",)}, {"b1"}),
        ({"affinity": ("a",), "preferred": ("b",)}, {"a1", "b1"}),
        ({"affinity": ("a", "b"), "anti_affinity": ("b",)}, {"a1"}),
        ({"affinity": ("a",), "anti_preferred": ("b",)}, {"a1", "b1"}),
        ({"anti_affinity": ("b",), "anti_preferred": ("b",)}, {"b1"}),
        ({"anti_affinity": ("b",)}, set()),
    ],
)
def test_the_groups_that_a_queue_may_use(
    wishes: dict[str, tuple[str, ...]], nodes: set[str]
) -> None:
    assert _nodes(_grouped().queue("q", **wishes).gang("job", "q", 1, waiting=12)) == nodes


@pytest.mark.parametrize(
    ("wishes", "node"),
    [
        ({"affinity": ("b",), "preferred": ("a",)}, "b1"),
        ({"preferred": ("a",), "anti_preferred": ("b",)}, "a1"),
        ({"affinity": ("a", "b"), "preferred": ("b",)}, "b1"),
    ],
)
def test_required_groups_go_before_preferred_ones_and_those_before_unwelcome_ones(
    wishes: dict[str, tuple[str, ...]], node: str
) -> None:
    assert _nodes(_grouped().queue("q", **wishes).gang("job", "q", 1, waiting=1)) == {node}


def test_preferred_groups_are_in_order_where_that_is_asked_for() -> None:
    told = _grouped().queue("q", preferred=("b", "a")).gang("job", "q", 1, waiting=1)
    assert _nodes(told) == {"a1"}, "all preferred groups are as good"
    ordered = _GROUPS.replace("strict: true", "enablePreferredOrder: true")
    assert _nodes(told, ordered) == {"b1"}


def test_the_score_of_a_group_is_switched_off_by_itself() -> None:
    told = _grouped().queue("q", preferred=("a",), affinity=("b",)).gang("job", "q", 1, waiting=1)
    assert _nodes(told) == {"b1"}
    silent = _GROUPS.replace("- name: nodegroup", "- name: nodegroup\n    enableNodeOrder: false")
    assert _nodes(told, silent) == {"a1"}


def test_affinity_is_inherited_in_a_hierarchy_from_the_nearest_above() -> None:
    told = _grouped().queue("root").queue("team", parent="root", affinity=("b",))
    told.queue("leaf", parent="team").gang("job", "leaf", 1, waiting=1)
    assert _nodes(told) == set()
    tree = _GROUPS.replace("- name: nodegroup", "- name: nodegroup\n    enableHierarchy: true")
    assert _nodes(told, tree) == {"b1"}


def test_a_queue_holds_no_more_of_a_group_than_its_annotation_says() -> None:
    limits = {NODE_GROUP_LIMITS: json.dumps({"a": {"cpu": "3"}})}
    told = _grouped().queue("q", affinity=("a",), notes=limits)
    told.gang("old", "q", 1, on=["a1"]).gang("job", "q", 1, waiting=4)
    assert len(bound(told.run(_GROUPS))) == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}', '{"a": {"cpu": "x"}}', "[" * 60_000])
def test_limits_that_cannot_be_read_bound_nothing(text: str) -> None:
    told = _grouped().queue("q", affinity=("a",), notes={NODE_GROUP_LIMITS: text})
    assert len(bound(told.gang("job", "q", 1, waiting=4).run(_GROUPS))) == 4


# -- tdm ------------------------------------------------------------------------------------------

_TDM = """
actions: "ACTION"
tiers:
- plugins:
  - name: TIER
  - name: predicates
  - name: tdm
    arguments:
      tdm.revocable-zone.night: "22:00-06:00"
      tdm.evict.period: 2m
"""
_ALLOCATE = _TDM.replace("ACTION", "allocate").replace("TIER", "gang")
_SHUFFLE = _TDM.replace("ACTION", "shuffle").replace("TIER", "gang")
_PREEMPT = _TDM.replace("ACTION", "preempt").replace("TIER", "conformance")
_MAY_GO = {"notes": {REVOCABLE_ZONE: "*"}}


def _at(clock: str) -> float:
    hour, minute = map(int, clock.split(":"))
    return datetime(2026, 11, 18, hour, minute, tzinfo=UTC).timestamp()


def _lent() -> Batch:
    return Batch().queue("q").node("lent", 8, labels={REVOCABLE_ZONE: "night"}).node("own", 2)


@pytest.mark.parametrize(
    ("clock", "is_open"),
    [("22:00", True), ("23:59", True), ("00:00", True), ("05:59", True), ("06:00", False)],
)
def test_a_window_over_midnight_is_open_on_both_sides(clock: str, is_open: bool) -> None:
    """Volcano counts from today's start: it is closed from 00:00 to 06:00."""
    told = _lent().gang("job", "q", 1, waiting=1, pods=_MAY_GO)
    assert where(told.run(_ALLOCATE, now_s=_at(clock))) == {"job-0": "lent" if is_open else "own"}


@pytest.mark.parametrize("clock", ["00:00", "12:00", "23:59"])
def test_a_window_that_ends_where_it_begins_is_the_whole_day(clock: str) -> None:
    told = _lent().gang("job", "q", 1, waiting=1, pods=_MAY_GO)
    conf = _ALLOCATE.replace("22:00-06:00", "12:00-12:00")
    assert where(told.run(conf, now_s=_at(clock))) == {"job-0": "lent"}


@pytest.mark.parametrize(
    ("notes", "goes"),
    [
        ({}, False),
        ({REVOCABLE_ZONE: "*"}, True),
        ({REVOCABLE_ZONE: "night"}, True),
        ({REVOCABLE_ZONE: "day"}, False),
        ({PREEMPTABLE: "true"}, True),
        ({PREEMPTABLE: "false"}, False),
    ],
)
def test_lent_nodes_take_only_who_may_be_sent_away(notes: dict[str, str], goes: bool) -> None:
    told = _lent().gang("job", "q", 1, waiting=1, pods={"notes": notes})
    assert (where(told.run(_ALLOCATE, now_s=_at("23:00"))) == {"job-0": "lent"}) is goes


def _overdue(**notes: str) -> Batch:
    told = _lent()
    return told.gang("job", "q", 1, on=["lent"] * 4, pods=_MAY_GO, notes=notes)


@pytest.mark.parametrize(
    ("notes", "gone"),
    [
        ({}, 1),
        ({JDB_MAX_UNAVAILABLE: "3"}, 3),
        ({JDB_MAX_UNAVAILABLE: "50%"}, 2),
        ({JDB_MAX_UNAVAILABLE: "0"}, 0),
        ({JDB_MIN_AVAILABLE: "1"}, 3),
        ({JDB_MIN_AVAILABLE: "60%"}, 1),
        ({JDB_MIN_AVAILABLE: "9"}, 0),
        ({JDB_MIN_AVAILABLE: "all"}, 1),
    ],
)
def test_when_a_window_closes_as_many_leave_as_the_budget_of_their_job_lets_go(
    notes: dict[str, str], gone: int
) -> None:
    assert len(evicted(_overdue(**notes).run(_SHUFFLE, now_s=_at("06:01")))) == gone
    assert evicted(_overdue(**notes).run(_SHUFFLE, now_s=_at("05:58"))) == []


def test_they_leave_once_in_a_period() -> None:
    memory = Memory(acted_s={"tdm": _at("06:01")})
    assert evicted(_overdue().run(_SHUFFLE, now_s=_at("06:02"), memory=memory)) == []
    assert len(evicted(_overdue().run(_SHUFFLE, now_s=_at("06:03"), memory=memory))) == 1


def test_who_may_not_be_sent_away_goes_first() -> None:
    told = Batch().queue("q").node("own", 1)
    told.gang("lends", "q", 1, waiting=1, notes={PREEMPTABLE: "true"})
    told.gang("stays", "q", 1, waiting=1)
    assert bound(told.run(_ALLOCATE, now_s=_at("12:00"))) == ["stays-0"]


def _full(**pods: object) -> Batch:
    told = _lent()
    told.gang("old", "q", 1, on=["own", "own", "lent"], pods=_MAY_GO)
    return told.gang("new", "q", 1, waiting=1, pods=pods)


def test_who_may_be_sent_away_sends_nobody_away() -> None:
    assert evicted(_full().run(_PREEMPT, now_s=_at("12:00"))) == []
    assert evicted(_full(is_preemptable=False).run(_PREEMPT, now_s=_at("12:00"))) == ["old-0"]


def test_a_job_that_may_be_sent_away_does_not_starve() -> None:
    told = _lent().gang("old", "q", 1, on=["own", "own"], pods=_MAY_GO)
    lends = {PREEMPTABLE: "true"}
    told.gang("new", "q", 1, waiting=1, notes=lends, pods={"is_preemptable": False})
    assert evicted(told.run(_PREEMPT, now_s=_at("12:00"))) == []


@pytest.mark.parametrize(("minimum", "goes"), [(2, ["old-0", "old-1"]), (3, [])])
def test_nobody_is_sent_away_for_a_job_that_could_not_start_then(
    minimum: int, goes: list[str]
) -> None:
    """Also where no gang plugin says so: there is room for two, were both of the others gone."""
    told = _lent().gang("old", "q", 1, on=["own", "own"], pods=_MAY_GO)
    told.gang("new", "q", minimum, waiting=minimum, pods={"is_preemptable": False})
    assert evicted(told.run(_PREEMPT, now_s=_at("12:00"))) == goes
