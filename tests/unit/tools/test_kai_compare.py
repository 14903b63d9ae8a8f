"""A plan that differs from KAI's is better, equal or worse by rules that can be checked."""

from typing import Any

import msgspec
import pytest
from tools.kai_cases import format as kai
from tools.kai_cases.cases import records_of
from tools.kai_cases.compare import Comparison, compared
from tools.kai_cases.conformance import CaseVerdict, Judgement, report
from tools.kai_cases.session import run_session

from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.testing import make

RUNNING, RELEASING, PIPELINED = "Running", "Releasing", "Pipelined"


def job(name: str, gpus: int, state: str, *nodes: str, **more: Any) -> dict[str, Any]:
    tasks = [{"state": state, "node_name": node} for node in nodes]
    return {
        "name": name,
        "queue_name": more.pop("queue", "queue0"),
        "priority": more.pop("priority", 50),
        "required_gpus_per_task": gpus,
        "tasks": tasks,
        **more,
    }


def case(*jobs: dict[str, Any], became: dict[str, tuple[str, str]], **more: Any) -> kai.Case:
    """Three nodes of two GPUs, and what KAI made of some jobs."""
    return msgspec.convert(
        {
            "id": "case",
            "name": "case",
            "runner": "single_shot",
            "actions": ["reclaim"],
            "rounds_until_match": 1,
            "rounds_after_match": 0,
            "plugins": "default",
            "jobs": jobs,
            "nodes": {f"node{n}": {"gpus": 2, "labels": {"rack": f"r{n // 2}"}} for n in range(3)},
            "queues": [
                {"name": "queue0", "deserved_gpus": 2, "gpu_over_quota_weight": 1},
                {"name": "queue1", "deserved_gpus": 2, "gpu_over_quota_weight": 1},
            ],
            "expected": {
                "tasks": {
                    name: {"status": status, "node_name": node}
                    for name, (status, node) in became.items()
                }
            },
            **more,
        },
        kai.Case,
    )


def outcome(before: ClusterRecords, **became: tuple[TaskStatus, str]) -> ClusterRecords:
    """The first task of each of these jobs is so now."""
    tasks = []
    for task in before.tasks:
        name = task.uid.replace("-", "_")
        if name in became:
            task = make.with_fields(task, status=became[name][0], node=became[name][1])
        tasks.append(task)
    return make.with_fields(before, tasks=tuple(tasks))


def verdict(expected: kai.Case, **became: tuple[TaskStatus, str]) -> Comparison:
    before = records_of(expected)
    return compared(expected, before, outcome(before, **became), run_session)


def two_victims(**more: Any) -> kai.Case:
    """One of two equal jobs has to go; KAI takes the first."""
    return case(
        job("one", 2, RUNNING, "node0"),
        job("two", 2, RUNNING, "node1", **more),
        job("wants", 2, "Pending", "", queue="queue1"),
        became={
            "one-0": (RELEASING, "node0"),
            "two-0": (RUNNING, "node1"),
            "wants-0": (PIPELINED, "node0"),
        },
    )


def test_another_victim_of_the_same_size_and_priority_is_equal() -> None:
    got = {"two_0": (TaskStatus.RELEASING, "node1"), "wants_0": (TaskStatus.PIPELINED, "node1")}
    assert verdict(two_victims(), **got) is Comparison.EQUAL
    assert verdict(two_victims(priority=60), **got) is Comparison.WORSE


def test_evicting_for_a_job_that_stays_out_is_worse() -> None:
    assert verdict(two_victims(), two_0=(TaskStatus.RELEASING, "node1")) is Comparison.WORSE
    assert verdict(two_victims()) is Comparison.WORSE


@pytest.mark.parametrize(
    ("second", "found"), [("node2", Comparison.WORSE), ("node1", Comparison.EQUAL)]
)
def test_a_gang_outside_its_preferred_domain_is_worse_if_kai_kept_it_inside(
    second: str, found: Comparison
) -> None:
    tree = {
        "name": "",
        "topology_constraint": {"topology": "t", "preferred_level": "rack"},
        "pod_sets": [{"name": "default", "min_available": 2}],
    }
    expected = case(
        job("pair", 2, "Pending", "", "", root_sub_group_set=tree),
        became={"pair-0": ("Binding", "node0"), "pair-1": ("Binding", "node1")},
        topologies=[{"name": "t", "levels": ["rack"]}],
    )
    got = {"pair_0": (TaskStatus.BINDING, "node0"), "pair_1": (TaskStatus.BINDING, second)}
    if second == "node1":  # the other way round
        got = {"pair_0": (TaskStatus.BINDING, "node1"), "pair_1": (TaskStatus.BINDING, "node0")}
    assert verdict(expected, **got) is found


@pytest.mark.parametrize(
    ("owner", "found"), [("queue1", Comparison.WORSE), ("queue0", Comparison.BETTER)]
)
def test_more_placed_for_more_evicted_is_better_only_if_the_order_of_jobs_gives_them_the_room(
    owner: str, found: Comparison
) -> None:
    """A queue that would have more than its victims' queue comes after them, and its reclaim would
    start a loop with allocate.
    """
    expected = case(
        job("one", 2, RUNNING, "node0"),
        job("held", 2, RUNNING, "node1", queue=owner, priority=100),
        job("wants", 2, "Pending", "", queue="queue1"),
        nodes={"node0": {"gpus": 2}, "node1": {"gpus": 2}},
        became={
            "one-0": (RUNNING, "node0"),
            "held-0": (RUNNING, "node1"),
            "wants-0": ("Pending", ""),
        },
    )
    got = {"one_0": (TaskStatus.RELEASING, "node0"), "wants_0": (TaskStatus.PIPELINED, "node0")}
    assert verdict(expected, **got) is found


def test_the_four_classes_are_printed_before_the_last_line_and_worse_fails() -> None:
    some = two_victims()
    judgements = [
        Judgement(some, CaseVerdict.SAME),
        Judgement(some, CaseVerdict.SAME),
        Judgement(some, CaseVerdict.EQUAL, "another node"),
        Judgement(some, CaseVerdict.WAIVED, "theirs"),
    ]
    lines: list[str] = []
    assert report(judgements, lines.append) == 0
    assert "".join(lines).splitlines()[-2:] == [
        "2 same, 0 better, 1 equal, 0 worse",
        "4 passed, 0 failed",
    ]
    assert report([Judgement(some, CaseVerdict.WORSE, "more evicted")], lines.append) == 1


def test_a_case_that_does_not_say_what_became_of_every_task_cannot_be_judged() -> None:
    silent = two_victims()
    assert silent.expected is not None
    assert silent.expected.tasks is not None
    few = {"wants-0": silent.expected.tasks["wants-0"]}
    expected = msgspec.structs.replace(silent.expected, tasks=few)
    assert verdict(msgspec.structs.replace(silent, expected=expected)) is Comparison.WORSE
