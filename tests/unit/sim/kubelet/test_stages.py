"""The life of a pod on a node: stages, times, statuses."""

from typing import Any

import pytest

from muster.sim.kubelet.stages import (
    CRASHES,
    EXIT_CODE,
    PULL,
    RUN_TIME,
    START_DELAY,
    Behaviour,
    Chance,
    Habits,
    Next,
    Stage,
    behaviour_of,
    exit_code,
    next_stage,
    restarts_of,
    seconds,
    stage_of,
)
from muster.sim.kubelet.statuses import Facts, pod_status, qos_class


def pod(name: str = "p", restart: str = "Never", **notes: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "annotations": notes}
    spec = {"restartPolicy": restart, "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": meta, "spec": spec}


def test_annotations_set_the_behaviour_of_a_pod() -> None:
    notes = {RUN_TIME: "1.5m", START_DELAY: "3", EXIT_CODE: "7", PULL: "fail"}
    said = behaviour_of(pod(**notes), Habits(), seed=1)
    assert (said.run_s, said.start_s, said.exit_code, said.pulls) == (90.0, 3.0, 7, False)


def test_a_malformed_annotation_is_ignored() -> None:
    plain = behaviour_of(pod(), Habits(), seed=1)
    assert behaviour_of(pod(**{RUN_TIME: "soon", EXIT_CODE: "x"}), Habits(), seed=1) == plain


def test_pods_that_always_restart_run_forever_and_others_end() -> None:
    assert behaviour_of(pod(restart="Always"), Habits(), 1).run_s is None
    assert behaviour_of(pod(), Habits(), 1).run_s == 30.0
    assert behaviour_of(pod(**{RUN_TIME: "forever"}), Habits(), 1).run_s is None


def test_behaviour_is_drawn_from_seed_and_name_alone() -> None:
    habits = Habits(run=Chance("exponential", 100.0))
    drawn = [behaviour_of(pod(f"p{number}"), habits, 5).run_s for number in range(200)]
    again = [behaviour_of(pod(f"p{number}"), habits, 5).run_s for number in reversed(range(200))]
    assert drawn == again[::-1]
    assert len(set(drawn)) == 200
    assert behaviour_of(pod(), habits, 6) != behaviour_of(pod(), habits, 5)
    mean = sum(value for value in drawn if value is not None) / 200
    assert 70 < mean < 130


RUNS = Behaviour(run_s=10.0)
FAILS = Behaviour(run_s=10.0, exit_code=1)


@pytest.mark.parametrize(
    ("stage", "behaviour", "policy", "restarts", "wanted"),
    [
        (Stage.ACCEPTED, RUNS, "Never", 0, Next(Stage.RUNNING, 1.0)),
        (Stage.ACCEPTED, Behaviour(pulls=False), "Never", 0, Next(Stage.NO_IMAGE, 1.0)),
        (Stage.RUNNING, RUNS, "Never", 0, Next(Stage.SUCCEEDED, 10.0)),
        (Stage.RUNNING, FAILS, "Never", 0, Next(Stage.FAILED, 10.0)),
        (Stage.RUNNING, RUNS, "OnFailure", 0, Next(Stage.SUCCEEDED, 10.0)),
        (Stage.RUNNING, FAILS, "OnFailure", 0, Next(Stage.WAITING, 10.0)),
        (Stage.RUNNING, RUNS, "Always", 0, Next(Stage.WAITING, 10.0)),
        (Stage.RUNNING, Behaviour(), "Always", 0, None),
        (Stage.WAITING, FAILS, "Always", 0, Next(Stage.RUNNING, 10.0)),
        (Stage.WAITING, FAILS, "Always", 2, Next(Stage.RUNNING, 40.0)),
        (Stage.WAITING, FAILS, "Always", 20, Next(Stage.RUNNING, 300.0)),
        (Stage.NO_IMAGE, RUNS, "Always", 0, None),
        (Stage.SUCCEEDED, RUNS, "Never", 0, None),
    ],
)
def test_the_next_stage_follows_from_stage_behaviour_and_restart_policy(
    stage: Stage, behaviour: Behaviour, policy: str, restarts: int, wanted: Next | None
) -> None:
    assert next_stage(stage, behaviour, policy, restarts) == wanted


def test_counted_crashes_come_first_and_then_the_container_succeeds() -> None:
    said = behaviour_of(pod(**{CRASHES: "2"}), Habits(), 1)
    assert [exit_code(said, restarts) for restarts in range(4)] == [1, 1, 0, 0]


def test_a_restarted_kubelet_reads_the_stage_from_the_status() -> None:
    facts = Facts(now_s=100.0, host_ip="172.16.0.1", pod_ip="10.0.0.1", restarts=3)
    for stage in Stage:
        there = pod() | {"status": pod_status(pod(), stage, facts)}
        assert stage_of(there) is stage
        assert restarts_of(there) == 3
    assert stage_of(pod()) is Stage.ACCEPTED


def test_a_running_pod_is_ready_with_a_stable_transition_time() -> None:
    facts = Facts(now_s=100.0, host_ip="h", pod_ip="i")
    status = pod_status(pod(), Stage.RUNNING, facts)
    by_type = {each["type"]: each for each in status["conditions"]}
    assert by_type["Ready"]["status"] == "True"
    assert status["podIP"] == "i"
    later = pod_status(pod() | {"status": status}, Stage.RUNNING, Facts(200.0, "h", "i"))
    assert {each["type"]: each for each in later["conditions"]}["Ready"] == by_type["Ready"]


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_follows_from_the_resources(
    resources: dict[str, Any], wanted: str
) -> None:
    assert qos_class({"containers": [{"name": "c", "resources": resources}]}) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("90", 90), ("1.5h", 5400), ("250ms", 0.25), ("2d", 172800), ("x", None)]
)
def test_durations_are_read_with_their_units(text: str, wanted: float | None) -> None:
    assert seconds(text) == wanted
