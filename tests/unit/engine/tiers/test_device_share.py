"""`deviceshare`: parts of cards are given where they fit, and the pod is told which it has."""

from typing import Any

import msgspec
import pytest
from tests.support.batch import NOW_S, Batch, bound, evicted, where

from muster.engine.config.reader import ConfigError
from muster.engine.cycle import CycleResult
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.model.cards import (
    BIND_PHASE,
    GPU_INDEX,
    VGPU_IDS,
    VGPU_IDS_TO_GIVE,
    VGPU_NODE,
    Card,
    cards_of,
    parts_held,
)
from muster.model.constraint_terms import ContainerRequest
from muster.model.constraints import Constraints
from muster.model.status import TaskStatus

_CONF = """
actions: "ACTIONS"
tiers:
- plugins: [{name: gang}, {name: priority}]
- plugins:
  - {name: predicates}
  - {name: deviceshare, arguments: {ARGUMENTS}}
"""
_NUMBER, _MEMORY, _CORES = (f"volcano.sh/vgpu-{part}" for part in ("number", "memory", "cores"))
_HAS = {_NUMBER: 20, _MEMORY: 20_000, _CORES: 200}
_TWO = (Card(0, 10_000, "GPU-a", 10, "NVIDIA-A100"), Card(1, 10_000, "GPU-b", 10, "NVIDIA-A100"))


def _conf(arguments: str = "deviceshare.VGPUEnable: true", actions: str = "allocate") -> str:
    return _CONF.replace("ARGUMENTS", arguments).replace("ACTIONS", actions)


def _asks(*containers: dict[str, int]) -> dict[str, Any]:
    """Of a pod whose containers ask for this, by the part behind `vgpu-`."""
    each = [{f"volcano.sh/vgpu-{part}": n for part, n in one.items()} for one in containers]
    total: dict[str, int] = {}
    for one in each:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    requests = tuple(ContainerRequest(tuple(sorted(one.items()))) for one in each)
    return {"request": total, "constraints": Constraints(containers=requests)}


def _notes(result: CycleResult, pod: str) -> dict[str, str]:
    (bind,) = (one for one in result.plan.binds if one.task == pod)
    return dict(bind.pod_annotations)


def test_a_pod_is_told_its_cards_container_by_container() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    asks = _asks({"number": 2, "memory": 3000, "cores": 30}, {}, {"memory": 500})
    notes = _notes(told.gang("new", "q", 1, waiting=1, **asks).run(_conf()), "new-0")
    assert notes[VGPU_IDS] == "GPU-b,NVIDIA,3000,30:GPU-a,NVIDIA,3000,30:;GPU-b,NVIDIA,500,0:"
    assert notes[VGPU_IDS_TO_GIVE] == notes[VGPU_IDS]
    assert (notes[VGPU_NODE], notes[BIND_PHASE]) == ("n1", "allocating")
    assert {notes["volcano.sh/vgpu-time"], notes["volcano.sh/bind-time"]} == {str(int(NOW_S))}


@pytest.mark.parametrize(
    ("asks", "starts"),
    [
        # Two cards have 20,000 MiB together, and none has more than half.
        ([{"memory": 10_001}], 0),
        ([{"memory": 6000}] * 3, 2),
        ([{"memory": 5000}] * 5, 4),
        # No memory said: a whole card.
        ([{"number": 1}] * 3, 2),
        ([{"number": 3, "memory": 1}], 0),
        ([{"memory": 1, "cores": 60}] * 3, 2),
        # All cores: a card of one's own, which nobody joins.
        ([{"memory": 1, "cores": 100}, {"memory": 1, "cores": 100}, {"memory": 1}], 2),
        ([{"memory": 1}, {"memory": 1, "cores": 100}, {"memory": 1, "cores": 100}], 2),
    ],
)
def test_pods_start_only_where_a_single_card_has_room(
    asks: list[dict[str, int]], starts: int
) -> None:
    told = Batch().queue("q").node("n1", 64, has=_HAS, cards=_TWO)
    for number, one in enumerate(asks):
        told.gang(f"g{number}", "q", 1, waiting=1, **_asks(one))
    assert len(bound(told.run(_conf()))) == starts


def test_a_card_is_shared_by_no_more_pods_than_it_says() -> None:
    card = msgspec.structs.replace(_TWO[0], slots=2)
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=(card,))
    told.gang("new", "q", 0, waiting=3, **_asks({"memory": 10}))
    assert len(bound(told.run(_conf()))) == 2


def test_cards_of_running_pods_are_taken_as_written_on_them() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    held = {VGPU_IDS: "GPU-b,NVIDIA,9000,0:", BIND_PHASE: "success"}
    told.gang("old", "q", 1, on=["n1"], pods={"notes": held}, **_asks({"memory": 9000}))
    told.gang("new", "q", 1, waiting=1, **_asks({"memory": 2000}))
    assert _notes(told.run(_conf()), "new-0")[VGPU_IDS].startswith("GPU-a")


def test_a_gang_that_is_taken_back_leaves_its_cards() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    told.gang("wide", "q", 3, waiting=3, priority=9, **_asks({"memory": 6000}))
    told.gang("narrow", "q", 2, waiting=2, **_asks({"memory": 6000}))
    assert bound(told.run(_conf())) == ["narrow-0", "narrow-1"]


def test_who_is_sent_away_makes_room_on_his_card_once() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    for card in "ab":
        held = {VGPU_IDS: f"GPU-{card},NVIDIA,9000,0:"}
        told.gang(card, "q", 0, on=["n1"], pods={"notes": held}, **_asks({"memory": 9000}))
    told.gang("high", "q", 1, waiting=1, priority=9, **_asks({"memory": 8000}))
    conf = _conf(actions="allocate, preempt").replace("{name: gang}, ", "")
    first = told.run(conf)
    (victim,) = evicted(first)
    told.tasks[:] = [
        msgspec.structs.replace(one, status=TaskStatus.RELEASING) if one.name == victim else one
        for one in told.tasks
    ]
    second = told.run(conf, now_s=NOW_S + 1, memory=first.memory)
    assert (evicted(second), bound(second)) == ([], [])
    told.tasks[:] = [one for one in told.tasks if one.name != victim]
    third = told.run(conf, now_s=NOW_S + 2, memory=second.memory)
    assert bound(third) == ["high-0"]
    assert f"GPU-{victim[0]}" in _notes(third, "high-0")[VGPU_IDS]


def test_a_card_is_not_given_on_while_somebody_who_leaves_is_still_on_it() -> None:
    """The node has memory for both in sum, and no card of it has."""
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    for card, status in (("a", TaskStatus.RELEASING), ("b", TaskStatus.RUNNING)):
        held = {VGPU_IDS: f"GPU-{card},NVIDIA,6000,0:"}
        told.gang(card, "q", 0, on=["n1"], pods={"notes": held}, **_asks({"memory": 6000}))
        told.tasks[-1] = msgspec.structs.replace(told.tasks[-1], status=status)
    told.gang("new", "q", 1, waiting=1, **_asks({"memory": 5000}))
    first = told.run(_conf())
    assert bound(first) == []
    told.tasks[:] = [one for one in told.tasks if one.name != "a-0"]
    then = told.run(_conf(), now_s=NOW_S + 1, memory=first.memory)
    assert _notes(then, "new-0")[VGPU_IDS].startswith("GPU-a")


@pytest.mark.parametrize(("policy", "card"), [("binpack", "GPU-b"), ("spread", "GPU-a")])
def test_the_policy_says_whether_cards_are_filled_or_spread(policy: str, card: str) -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    held = {VGPU_IDS: "GPU-b,NVIDIA,1000,0:"}
    told.gang("old", "q", 1, on=["n1"], pods={"notes": held}, **_asks({"memory": 1000}))
    told.gang("new", "q", 1, waiting=1, **_asks({"memory": 2000}))
    arguments = f"deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: {policy}"
    assert _notes(told.run(_conf(arguments)), "new-0")[VGPU_IDS].startswith(card)


@pytest.mark.parametrize(("policy", "node"), [("binpack", "used"), ("spread", "empty")])
def test_the_policy_has_a_weight_among_nodes(policy: str, node: str) -> None:
    told = Batch().queue("q")
    for name in ("empty", "used"):
        told.node(name, 8, has=_HAS, cards=_TWO[:1])
    held = {VGPU_IDS: "GPU-a,NVIDIA,1000,0:"}
    told.gang("old", "q", 1, on=["used"], pods={"notes": held}, **_asks({"memory": 1000}))
    told.gang("new", "q", 1, waiting=1, **_asks({"memory": 2000}))
    weight = f"deviceshare.SchedulePolicy: {policy}, deviceshare.ScheduleWeight: 10"
    assert where(told.run(_conf(f"deviceshare.VGPUEnable: true, {weight}"))) == {"new-0": node}


@pytest.mark.parametrize(
    ("note", "text", "node"),
    [
        ("nvidia.com/use-gputype", "h100,l40", "new"),
        ("nvidia.com/nouse-gputype", "A100", "new"),
        ("nvidia.com/use-gputype", "a100", "old"),
        ("volcano.sh/vgpu-mode", "mig", None),
        ("volcano.sh/vgpu-mode", "hami-core", "old"),
    ],
)
def test_a_pod_says_which_cards_it_wants(note: str, text: str, node: str | None) -> None:
    other = (msgspec.structs.replace(_TWO[0], maker="NVIDIA-H100"),)
    told = Batch().queue("q").node("new", 8, has=_HAS, cards=other)
    told.node("old", 8, has=_HAS, cards=_TWO)
    told.gang("p", "q", 1, waiting=1, pods={"notes": {note: text}}, **_asks({"memory": 1}))
    packs = "deviceshare.SchedulePolicy: spread, deviceshare.ScheduleWeight: 1"
    found = where(told.run(_conf(f"deviceshare.VGPUEnable: true, {packs}")))
    assert found.get("p-0") in ((node,) if node != "old" else ("old", "new"))
    assert text != "a100" or found["p-0"] == "old"


_APART = (
    "deviceshare.VGPUEnable: true, "
    "deviceshare.GPUExclusiveRules: [{work: training}, {work: batch, urgency: high}]"
)


_TRAINING: dict[str, Any] = {"labels": {"work": "training"}}


def _card(result: CycleResult, pod: str) -> str:
    return _notes(result, pod)[VGPU_IDS].partition(",")[0]


def test_pods_of_one_rule_never_share_a_card_and_others_join_them() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    small = _asks({"memory": 100})
    told.gang("train", "q", 0, waiting=3, labels={"work": "training"}, **small)
    told.gang("other", "q", 0, waiting=2, labels={"work": "batch"}, **small)
    told.gang("batch", "q", 0, waiting=3, labels={"work": "batch", "urgency": "high"}, **small)
    result = told.run(_conf(_APART))
    assert bound(result) == ["batch-0", "batch-1", "other-0", "other-1", "train-0", "train-1"]
    assert {_card(result, "train-0"), _card(result, "train-1")} == {"GPU-a", "GPU-b"}
    assert {_card(result, "batch-0"), _card(result, "batch-1")} == {"GPU-a", "GPU-b"}


def test_a_card_is_kept_from_pods_of_the_rule_of_whoever_runs_there() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO)
    small, rule = _asks({"memory": 100}), _TRAINING
    held = {VGPU_IDS: "GPU-b,NVIDIA,100,0:"}
    told.gang("old", "q", 1, on=["n1"], pods={"notes": held}, **small, **rule)
    told.gang("wide", "q", 1, waiting=1, priority=9, **_asks({"number": 2, "memory": 9}), **rule)
    told.gang("new", "q", 1, waiting=1, **_asks({"memory": 1}, {"memory": 1}), **rule)
    result = told.run(_conf(_APART))
    assert bound(result) == ["new-0"]
    assert _notes(result, "new-0")[VGPU_IDS] == "GPU-a,NVIDIA,1,0:;GPU-a,NVIDIA,1,0:"


def test_a_card_is_not_given_on_while_somebody_of_the_rule_who_leaves_is_still_on_it() -> None:
    told = Batch().queue("q").node("n1", 8, has=_HAS, cards=_TWO[:1])
    small, rule = _asks({"memory": 100}), _TRAINING
    held = {VGPU_IDS: "GPU-a,NVIDIA,100,0:"}
    told.gang("old", "q", 0, on=["n1"], pods={"notes": held}, **small, **rule)
    told.tasks[-1] = msgspec.structs.replace(told.tasks[-1], status=TaskStatus.RELEASING)
    told.gang("new", "q", 1, waiting=1, **small, **rule)
    first = told.run(_conf(_APART))
    assert bound(first) == []
    told.tasks[:] = [one for one in told.tasks if one.name != "old-0"]
    assert bound(told.run(_conf(_APART), now_s=NOW_S + 1, memory=first.memory)) == ["new-0"]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("[{}]", "GPUExclusiveRules[0]: must name a label"),
        ("[{work: [a]}]", "GPUExclusiveRules[0].work: must be a string"),
        ("{work: training}", "GPUExclusiveRules: must be a list"),
    ],
)
def test_rules_that_cannot_be_meant_are_errors_that_name_them(rules: str, says: str) -> None:
    arguments = f"deviceshare.VGPUEnable: true, deviceshare.GPUExclusiveRules: {rules}"
    with pytest.raises(ConfigError) as error:
        parse_for(VOLCANO, _conf(arguments), "conf")
    assert says in str(error.value)


def test_rules_about_parts_that_are_not_served_are_warned_of() -> None:
    conf = _conf("deviceshare.GPUExclusiveRules: [{work: training}]")
    (said,) = parse_for(VOLCANO, conf, "conf").no_effect
    assert "deviceshare.VGPUEnable" in str(said)


def test_the_older_plugin_finds_its_cards_by_number() -> None:
    has = {"volcano.sh/gpu-memory": 20_000, "volcano.sh/gpu-number": 2}
    cards = (Card(0, 10_000), Card(1, 10_000))
    for switch, request, index in (
        ("GPUSharingEnable", {"volcano.sh/gpu-memory": 6000}, ["0", "1"]),
        ("GPUNumberEnable", {"volcano.sh/gpu-number": 1}, ["0", "1"]),
    ):
        told = Batch().queue("q").node("n1", 8, has=has, cards=cards)
        told.gang("new", "q", 0, waiting=3, request=request)
        result = told.run(_conf(f"deviceshare.{switch}: true"))
        found = [_notes(result, pod)[GPU_INDEX] for pod in bound(result)]
        assert sorted(found) == index
        assert all("volcano.sh/predicate-time" in _notes(result, pod) for pod in bound(result))


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        (_MEMORY, "deviceshare.VGPUEnable: true"),
        ("volcano.sh/gpu-memory", "deviceshare.GPUSharingEnable: true"),
        ("volcano.sh/gpu-number", "deviceshare.GPUNumberEnable: true"),
        ("volcano.sh/vgpu-memory-percentage", "write volcano.sh/vgpu-memory in MiB"),
    ],
)
def test_a_resource_that_is_not_served_is_a_reason_with_what_to_do(
    resource: str, says: str
) -> None:
    told = Batch().queue("q").node("n1", 8, has={resource: 100}, cards=_TWO)
    told.gang("new", "q", 1, waiting=1, request={resource: 1})
    result = told.run(_conf("deviceshare.SchedulePolicy: spread"))
    assert bound(result) == []
    assert says in str(result.explanation.sentences("ns/new"))


def test_switches_that_exclude_each_other_are_warned_of() -> None:
    conf = _conf("deviceshare.VGPUEnable: true, deviceshare.GPUNumberEnable: true")
    (said,) = parse_for(VOLCANO, conf, "conf").no_effect
    assert "only one may be on" in str(said)


# -- what device plugins write ---------------------------------------------------------------------

_LINE = "GPU-{0},10,8000,NVIDIA-L4,{1},{2}"


def _register(*cards: str, shakes: str = "Reported") -> dict[str, str]:
    return {
        "volcano.sh/node-vgpu-register": ":".join(cards) + ":",
        "volcano.sh/node-vgpu-handshake": shakes,
    }


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        (_register(_LINE.format("a", "true", "hami-core")), ["GPU-a"]),
        (_register("GPU-a,10,8000,NVIDIA-L4,true"), ["GPU-a"]),
        (_register(_LINE.format("a", "false", "hami-core")), []),
        (_register(_LINE.format("a", "true", "mig")), []),
        (_register("GPU-a,ten,8000,x,true,", "GPU-b,1,-5,x,true,", "GPU-c", ""), []),
        (_register(_LINE.format("a", "true", ""), shakes="Deleted_2026"), []),
        (_register("x", _LINE.format("b", "1", "hami-core")), ["GPU-b"]),
        ({}, []),
    ],
)
def test_cards_are_those_that_the_plugin_registers_and_can_share(
    notes: dict[str, str], found: list[str]
) -> None:
    assert [card.uuid for card in cards_of(notes, {})] == found


def test_cards_of_the_older_plugin_are_counted_without_the_unhealthy() -> None:
    capacity = {"volcano.sh/gpu-memory": 30_000, "volcano.sh/gpu-number": 3}
    found = cards_of({"volcano.sh/gpu-unhealthy-ids": "1, x"}, capacity)
    assert [(card.index, card.memory_mib) for card in found] == [(0, 10_000), (2, 10_000)]
    assert cards_of({}, {"volcano.sh/gpu-number": 1 << 60, "volcano.sh/gpu-memory": 1})[64:] == ()


@pytest.mark.parametrize("text", ["", "x", "GPU-a", "GPU-a,NVIDIA,x,1:", "GPU-z,NVIDIA,1,1:", ";;"])
def test_cards_that_cannot_be_read_on_a_pod_are_none(text: str) -> None:
    assert not any(parts_held({VGPU_IDS: text}, _TWO, {}) or ())
    assert not any(parts_held({GPU_INDEX: text}, (Card(0, 1),), {}) or ())
