"""Case files as clusters: the units and defaults of KAI's fakes."""

import json
from pathlib import Path

import pytest
from tests.support.cases import cases_folder
from tools.kai_cases.cases import NOW_S, records_of
from tools.kai_cases.format import Case, read_cases
from tools.kai_cases.match import CaseSession, mismatches

from muster.model.records import GpuKind
from muster.testing.occupancy import occupancies

CASE = {
    "id": "x#0",
    "name": "a case",
    "runner": "single_shot",
    "actions": ["allocate"],
    "jobs": [
        {
            "name": "old",
            "queue_name": "q",
            "priority": 50,
            "required_gpus_per_task": 0.5,
            "tasks": [{"state": "Running", "node_name": "n"}, {"state": "Pending"}],
        },
        {
            "name": "urgent",
            "queue_name": "q",
            "priority": 125,
            "required_gpus_per_task": 2,
            "required_cpus_per_task": 3,
            "tasks": [{"state": "Releasing", "node_name": "n"}],
        },
    ],
    "nodes": {"n": {"gpus": 4}},
    "queues": [{"name": "q", "deserved_gpus": 2, "deserved_memory": 5, "deserved_cpus": 7}],
    "expected": {
        "jobs": {"old": {"status": "Running"}},
        "tasks": {},
        "nodes": {"n": {"idle_gpus": 1, "releasing_gpus": 2}},
    },
    "mocks": None,
}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    file = tmp_path / "x_test.json"
    file.write_text(json.dumps([CASE]))
    return read_cases(tmp_path)[0]


def test_units_of_a_case_are_those_of_kais_fakes(case: Case) -> None:
    records = records_of(case)
    queue = next(queue for queue in records.queues if queue.name == "q")
    assert queue.quota == {"cpu": 7, "memory": 5_000_000, "gpu": 2000}
    urgent = next(task for task in records.tasks if task.uid == "urgent-0")
    assert urgent.request == {"pods": 1, "gpu": 2000, "cpu": 3000, "memory": 10**9}
    assert records.nodes[0].allocatable["cpu"] == 20_000_000


def test_every_queue_is_below_the_default_department(case: Case) -> None:
    assert {queue.name: queue.parent for queue in records_of(case).queues} == {
        "default": "",
        "q": "default",
    }


def test_higher_priority_is_older_and_not_preemptible(case: Case) -> None:
    jobs = {job.uid: job for job in records_of(case).jobs}
    assert jobs["urgent"].created_s == NOW_S - 120
    assert jobs["old"].created_s == NOW_S - 60
    assert (jobs["urgent"].is_preemptible, jobs["old"].is_preemptible) == (False, True)


def test_a_running_fraction_has_a_gpu_to_itself(case: Case) -> None:
    running = next(task for task in records_of(case).tasks if task.uid == "old-0")
    assert running.gpu.kind is GpuKind.FRACTION
    assert len(running.gpu_shares) == 1
    node = occupancies(records_of(case))["n"]
    assert (node.idle_gpus, node.releasing_gpus) == (1, 2)
    assert not node.overbooked()


def test_a_case_that_is_not_met_lists_the_differences(case: Case) -> None:
    found = mismatches(case, CaseSession(records_of(case), binds=1))
    assert found == ["old-1 is Pending, not Running", "1 binds, at most 0 allowed"]


@pytest.mark.cases("kai")
def test_all_cases_beside_the_checkout_are_read_consistently() -> None:
    """`gpus_required` and the like follow from the input: they check the reader."""
    cases = read_cases(cases_folder() / "kai")
    assert cases
    for each in cases:
        session = CaseSession(records_of(each))
        wrong = [text for text in mismatches(each, session) if "was read as" in text]
        assert not wrong, each.id
