"""A plan may differ from KAI's when it is better by a rule that can be checked."""

import msgspec
import pytest
from tools.kai_cases import format as kai
from tools.kai_cases.better import is_better
from tools.kai_cases.cases import records_of

from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.testing import make


def case(**expected: str) -> kai.Case:
    """Two running jobs of two GPUs and of one, a pending one of one, and what is expected."""
    return msgspec.convert(
        {
            "id": "case",
            "name": "case",
            "runner": "single_shot",
            "actions": ["reclaim"],
            "rounds_until_match": 1,
            "rounds_after_match": 0,
            "plugins": "default",
            "jobs": [
                job("large", 2, "Running", "node0"),
                job("small", 1, "Running", "node0"),
                job("wants", 1, "Pending", ""),
            ],
            "nodes": {"node0": {"gpus": 3}},
            "queues": [{"name": "queue0", "deserved_gpus": 3}],
            "expected": {"jobs": {name: {"status": status} for name, status in expected.items()}},
        },
        kai.Case,
    )


def job(name: str, gpus: int, state: str, node: str) -> dict[str, object]:
    return {
        "name": name,
        "queue_name": "queue0",
        "priority": 50,
        "required_gpus_per_task": gpus,
        "tasks": [{"state": state, "node_name": node}],
        "derived": {
            "rank": 0,
            "age_minutes": 1,
            "preemptible": True,
            "min_available": {"default": 1},
            "task_ids": [f"{name}-0"],
        },
    }


def outcome(before: ClusterRecords, **became: TaskStatus) -> ClusterRecords:
    tasks = []
    for task in before.tasks:
        name = task.uid.removesuffix("-0")
        if name in became:
            status = became[name]
            task = make.with_fields(task, status=status, node="node0")
        tasks.append(task)
    return make.with_fields(before, tasks=tuple(tasks))


@pytest.mark.parametrize(
    ("became", "verdict"),
    [
        ({"small": TaskStatus.RELEASING, "wants": TaskStatus.PIPELINED}, True),
        ({"large": TaskStatus.RELEASING, "wants": TaskStatus.PIPELINED}, False),
        ({"small": TaskStatus.RELEASING}, False),
    ],
    ids=["fewer GPUs are evicted", "as many are", "the job that KAI placed is not placed"],
)
def test_a_plan_is_better_only_if_it_evicts_fewer_gpus_and_places_what_kai_placed(
    became: dict[str, TaskStatus], verdict: bool
) -> None:
    expected = case(large="Releasing", small="Running", wants="Pipelined")
    before = records_of(expected)
    assert is_better(expected, before, outcome(before, **became)) == verdict


def test_a_plan_is_never_better_in_a_case_that_omits_a_task() -> None:
    silent = case(large="Releasing", wants="Pipelined")
    before = records_of(silent)
    became = {"small": TaskStatus.RELEASING, "wants": TaskStatus.PIPELINED}
    assert not is_better(silent, before, outcome(before, **became))
