"""Public reasons: each reason has one code, each code a scenario, and one of several dominates."""

from pathlib import Path

import pytest
from tools import reasons_page

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.registry import build_actions, build_policy
from muster.model.public_reasons import code_of, public_reason, why_of
from muster.model.reason_codes import CODE_OF, CODES, Category, Code
from muster.model.reason_texts import amount
from muster.model.reasons import Evidence, NodeCount, Reason, Refusal, Room
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.run_scenario import decide
from muster.testing.scenario import read_scenario

_CONF = parse_conf("actions: allocate, reclaim")


def cycle(world: ClusterRecords, memory: Memory = EMPTY) -> CycleResult:
    policy = build_policy(_CONF, EngineSettings())
    return run_cycle(snapshot_of(world), policy, build_actions(_CONF), make.NOW_S, memory)


@pytest.mark.parametrize("reason", [one for one in Reason if one is not Reason.NONE])
def test_every_reason_has_one_code_and_a_sentence_that_ends(reason: Reason) -> None:
    numbers = Evidence("gpu", 8000, 1000, "n1", held=0, bound=4000)
    nodes = (NodeCount(Reason.RESOURCES, 2, "gpu"),)
    refusal = Refusal(reason, "x", evidence=(numbers,), nodes=nodes, names=("y",), minimum=2)
    told = public_reason(refusal)
    assert CODE_OF[reason] in CODES
    assert told.sentence[0].isupper() or told.sentence[0].isdigit()
    assert told.sentence[-1] in ".?"
    assert told.next_step.endswith(".")
    assert (told.as_json()["code"], told.as_json()["category"]) == (told.code, told.category)


def test_a_share_is_told_with_numbers_that_can_be_checked() -> None:
    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("a", quota_gpu=6),
        make.queue("b", weight=1, quota_gpu=2),
        make.gang("r", 1, queue="a", gpu=6, nodes=("n1",), is_preemptible=True),
        make.gang("s", 1, queue="b", gpu=2, nodes=("n1",), is_preemptible=True),
        make.gang("wants", 1, queue="b", gpu=2, is_preemptible=True),
    )
    why = cycle(world).explanation.why("default/wants")
    assert why is not None
    (share,) = [one for one in why.all if one.code is Code.QUEUE_HAS_ITS_SHARE]
    assert "it holds 2 GPUs and its share is 2 GPUs" in share.sentence
    assert share.evidence == {"queue": "b", "resource": "gpu", "held": 2000, "share": 2000}


_BY_CLAIM = """
why: Devices are on nodes, may be taken, and nodes may be shut.
nodes:
  plain:   {has: 8 cpu}
  tainted: {has: 8 cpu, devices: {h100: 2}, taints: {by: NoSchedule}}
  small:   {has: 8 cpu, devices: {a100: 2}}
queues:  {q: {quota: unlimited}}
jobs:
  runs:  {queue: q, pending: 1 cpu, priority: 90, pod: {devices: {count: 2, model: a100}}}
  waits: {queue: q, pending: 1 cpu, pod: {devices: {count: 2, model: MODEL}}}
run: [allocate]
"""


@pytest.mark.parametrize(
    ("model", "code", "sentence"),
    [
        (
            "h100",
            Code.NO_MATCHING_NODE,
            "None of 3 nodes can run it: 1 has taint by:NoSchedule, which it does not tolerate "
            "(and nothing else against it), 2 do not have the claimed devices.",
        ),
        (
            "b200",
            Code.NO_MATCHING_NODE,
            "None of 3 nodes can run it: 2 do not have the claimed devices (1 of these has "
            "nothing else against it), 1 has taint by:NoSchedule, which it does not tolerate.",
        ),
        (
            "a100",
            Code.NO_ROOM,
            "No node can take a pod. Of 3 nodes 1 has too few of the claimed devices free, 1 has "
            "taint by:NoSchedule, which it does not tolerate, 1 does not have the claimed devices.",
        ),
    ],
)
def test_devices_behind_a_taint_or_that_nobody_has_are_no_question_of_room(
    tmp_path: Path, model: str, code: Code, sentence: str
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(_BY_CLAIM.replace("MODEL", model))
    scenario = read_scenario(file)
    why = decide(scenario, scenario.records).explanation.why("default/waits")
    assert why is not None
    assert (why.dominant.code, why.dominant.sentence) == (code, sentence)
    helps = {"h100": "Tolerate the taint", "b200": "Correct the device class", "a100": "Wait"}
    assert why.dominant.next_step.startswith(helps[model])


def test_a_queue_that_is_not_there_or_runs_nothing_itself_is_told_with_those_that_do() -> None:
    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("all", quota_gpu=8),
        make.queue("research", parent="all", quota_gpu=4),
        make.queue("vision", parent="all", quota_gpu=4),
        make.gang("typo", 1, queue="reserch", gpu=1),
        make.gang("above", 1, queue="all", gpu=1),
    )
    explanation = cycle(world).explanation
    said = [explanation.why(f"default/{job}") for job in ("typo", "above")]
    assert [why and why.dominant.sentence for why in said] == [
        "Queue 'reserch' does not exist. Did you mean research?",
        "Queue all has child queues (research, vision) and runs no jobs itself.",
    ]


def test_who_could_never_start_is_not_told_why_nobody_makes_way() -> None:
    never = (Refusal(Reason.TOO_LARGE, evidence=(Evidence("gpu", 9000, 8000, "n"),)),)
    why = why_of((*never, Refusal(Reason.NO_VICTIMS), Refusal(Reason.OVER_SHARE, subject="q")))
    assert why is not None
    assert [one.code for one in why.all] == [Code.TOO_LARGE]


def test_a_job_that_is_too_far_back_is_told_its_number_and_how_many_are_tried() -> None:
    told = public_reason(Refusal(Reason.QUEUE_DEPTH, "llm", names=("212", "100")))
    assert told.sentence == (
        "It is too far back in its queue for this cycle: only the first 100 jobs of queue llm are "
        "tried, and it is number 212."
    )
    assert told.evidence == {"queue": "llm", "place": 212, "depth": 100}


def test_every_code_has_a_meaning_in_the_order_of_the_list_and_a_reason_that_leads_to_it() -> None:
    assert list(CODES) == list(Code)
    by_numbers = {
        Code.ABOVE_LIMIT,
        Code.TOPOLOGY_TOO_SMALL,
        Code.BEHIND_OTHERS,
        Code.FRAGMENTED,
    }
    assert {*CODE_OF.values(), *by_numbers} == set(Code)


def test_every_code_has_a_scenario_that_produces_exactly_it() -> None:
    files = {file.stem for file in reasons_page.SCENARIOS.glob("*.yaml")}
    assert files == {str(code) for code in Code if code not in reasons_page.ELSEWHERE}
    for code in files:
        assert reasons_page.said_in_scenario(Code(code)).code == code


def test_a_lower_tier_dominates_and_reasons_of_evictions_follow() -> None:
    found = (
        Refusal(Reason.NO_VICTIMS),
        Refusal(Reason.WITHIN_SHARE, subject="vision"),
        Refusal(Reason.NO_NODE),
        Refusal(Reason.OVER_LIMIT, subject="q"),
        Refusal(Reason.SEARCH_TIME),
    )
    why = why_of(found)
    assert why is not None
    assert [one.code for one in why.reasons] == [Code.QUEUE_AT_LIMIT, Code.NO_ROOM]
    of_evictions = [one.code for one in why.no_eviction_because]
    assert of_evictions == [Code.NOT_LOOKED_AT, Code.OTHERS_WITHIN_SHARE]
    alone = why_of((Refusal(Reason.NO_VICTIMS),))
    assert alone is not None
    assert alone.dominant.code is Code.NOBODY_TO_EVICT
    assert why_of(()) is None


@pytest.mark.parametrize(
    ("room", "found", "code"),
    [
        (Room(10, 0, when_empty=1), 1, Code.TOO_LARGE),
        (Room(10, 0, when_empty=-1), 1, Code.NO_ROOM),
        (Room(10, 0, when_empty=2), 1, Code.NO_ROOM),
        (Room(10, 16000, when_empty=2), 1, Code.FRAGMENTED),
        (Room(10, 15999, when_empty=2), 1, Code.NO_ROOM),
        (Room(10, 0, when_empty=2, at_first=2), 1, Code.BEHIND_OTHERS),
        (Room(10, 0, when_empty=2, at_first=1), 1, Code.NO_ROOM),
    ],
)
def test_numbers_tell_never_from_not_now(room: Room, found: int, code: Code) -> None:
    nodes = (NodeCount(Reason.NODE_SELECTOR, 990), NodeCount(Reason.RESOURCES, 10, "gpu"))
    evidence = (Evidence("gpu", 8000, 7000, "n1"),)
    refusal = Refusal(Reason.NO_NODE, "", "", "", found, 2, nodes, evidence, room=room)
    assert code_of(refusal) is code


def test_where_no_node_matches_it_is_about_what_alone_keeps_most_of_them_off() -> None:
    nodes = (NodeCount(Reason.NODE_SELECTOR, 90), NodeCount(Reason.TAINT, 5, alone=5))
    refusal = Refusal(Reason.NO_NODE, nodes=nodes)
    told = public_reason(refusal)
    assert (told.code, told.subject) == (Code.NO_MATCHING_NODE, "taint")
    small = Refusal(Reason.NO_NODE, nodes=(NodeCount(Reason.GPU_TOO_SMALL, 3, alone=3),))
    assert code_of(small) is Code.TOO_LARGE


def test_room_that_was_made_is_said_to_be_held_for_whom_it_was_made() -> None:
    node, queues = make.node("n1", gpu=1), (make.queue("a"), make.queue("b", quota_gpu=1))
    victim = make.gang("victim", 1, queue="a", gpu=1, nodes=("n1",), is_preemptible=True)
    owed = make.gang("owed", 1, queue="b", gpu=1)
    first = cycle(make.cluster(node, *queues, victim, owed))
    assert [evict.job for evict in first.plan.evictions] == ["default/victim"]
    late = make.gang("late", 1, queue="a", gpu=1)
    second = cycle(make.cluster(node, *queues, owed, late), first.memory)
    assert [bind.job for bind in second.plan.binds] == ["default/owed"]
    why = second.explanation.why("default/late")
    assert why is not None
    assert why.dominant.code is Code.HELD_FOR_OTHERS
    assert "default/owed" in why.dominant.sentence


@pytest.mark.parametrize("name", ["NoRoom", "Fragmented", "BehindOthers", "TopologyFull"])
def test_the_same_is_said_with_and_without_memory(name: str) -> None:
    scenario = read_scenario(reasons_page.SCENARIOS / f"{name}.yaml")
    first = decide(scenario, scenario.records)
    policy = build_policy(_CONF, EngineSettings())
    snapshot, actions = snapshot_of(scenario.records), build_actions(_CONF)
    fresh = run_cycle(snapshot, policy, actions, make.NOW_S)
    again = run_cycle(snapshot, policy, actions, make.NOW_S, fresh.memory)
    assert again.explanation.why("default/waits") == fresh.explanation.why("default/waits")
    assert first.explanation.why("default/waits") is not None


def test_a_job_on_hold_that_somebody_releases_starts() -> None:
    node, queue = make.node("n1", gpu=1), make.queue("q", quota_gpu=1)
    job = make.gang("j", 1, queue="q", gpu=1)
    held = make.Workload(make.with_fields(job.job, on_hold="budget"), job.tasks)
    assert cycle(make.cluster(node, queue, held)).plan.binds == ()
    assert len(cycle(make.cluster(node, queue, job)).plan.binds) == 1


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("gpu", 1000, "1 GPU"),
        ("gpu", 7100, "7.1 GPUs"),
        ("cpu", 1500, "1.5 CPUs"),
        ("memory", 2**31, "2 GiB of memory"),
        ("memory", 2100 * 2**30, "2100 GiB of memory"),
        ("memory", 1537 * 2**29, "768.5 GiB of memory"),
        ("memory", 500 * 2**20, "500 MiB of memory"),
        ("memory", 1536, "1.5 KiB of memory"),
        ("memory", 12, "12 bytes of memory"),
        ("memory", 0, "0 GiB of memory"),
        ("ephemeral-storage", 10 * 2**30, "10 GiB of ephemeral-storage"),
        ("hugepages-2Mi", 2**21, "2 MiB of hugepages-2Mi"),
        ("example.com/fpga", 3, "3 example.com/fpga"),
    ],
)
def test_amounts_are_in_whole_units(resource: str, units: int, text: str) -> None:
    assert amount(resource, units) == text


def test_what_can_never_run_is_never_said_of_a_job_that_starts_once_others_end() -> None:
    for code in (Code.NO_ROOM, Code.FRAGMENTED, Code.TOPOLOGY_FULL):
        scenario = read_scenario(reasons_page.SCENARIOS / f"{code}.yaml")
        assert code.category is Category.NOW
        left = [task for task in scenario.records.tasks if not task.node]
        emptied = make.with_fields(scenario.records, tasks=tuple(left))
        assert decide(scenario, emptied).plan.binds
    for code in (Code.TOO_LARGE, Code.NO_MATCHING_NODE, Code.TOPOLOGY_TOO_SMALL):
        scenario = read_scenario(reasons_page.SCENARIOS / f"{code}.yaml")
        assert code.category is Category.NEVER
        left = [task for task in scenario.records.tasks if not task.node]
        emptied = make.with_fields(scenario.records, tasks=tuple(left))
        assert not decide(scenario, emptied).plan.binds
