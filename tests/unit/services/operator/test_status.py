"""Conditions say what is so, and are written only when that changed."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.config import ConfigStatus
from muster.api.meta import Condition
from muster.services.operator.status import Facts, status_patch, unavailability

NOW_S = 1_800_000_000.0


def stored(patch: dict[str, Any] | None) -> tuple[Condition, ...]:
    assert patch is not None
    return from_builtins(ConfigStatus, patch["status"]).conditions


def holding(facts: Facts) -> set[str]:
    return {one.type for one in stored(status_patch((), facts, 1, NOW_S)) if one.status == "True"}


@pytest.mark.parametrize(
    ("facts", "true"),
    [
        (Facts(), {"Deployed", "Available", "DependenciesFulfilled", "Ready"}),
        (Facts(unavailable=["binder: 0 of 1"]), {"Deployed", "DependenciesFulfilled"}),
        (Facts(failures=["Service x: refused"]), {"Reconciling", "DependenciesFulfilled"}),
        (Facts(problems=["spec.x: wrong"]), {"Reconciling", "DependenciesFulfilled"}),
        (Facts(missing=["prometheus operator"]), {"Deployed", "Available", "Ready"}),
    ],
)
def test_a_condition_holds_exactly_when_it_is_so(facts: Facts, true: set[str]) -> None:
    assert holding(facts) == true


def test_the_same_facts_are_not_written_again() -> None:
    facts = Facts(unavailable=["binder: 0 of 1"])
    said = stored(status_patch((), facts, 3, NOW_S))
    assert status_patch(said, facts, 3, NOW_S + 60.0) is None
    assert status_patch(said, facts, 4, NOW_S + 60.0) is not None, "they are about another spec"


def test_a_condition_keeps_the_time_of_its_last_turn() -> None:
    before = stored(status_patch((), Facts(), 1, NOW_S))
    after = stored(status_patch(before, Facts(unavailable=["x"]), 1, NOW_S + 60.0))
    times = {one.type: one.last_transition_time.timestamp() for one in after}
    assert times["Deployed"] == NOW_S
    assert times["Ready"] == NOW_S + 60.0


def test_what_is_wrong_is_said_with_its_field() -> None:
    (deployed,) = [
        one
        for one in stored(status_patch((), Facts(problems=["spec.x: wrong"]), 1, NOW_S))
        if one.type == "Deployed"
    ]
    assert (deployed.reason, deployed.message) == ("invalid", "spec.x: wrong")


def _deployment(generation: int, **status: Any) -> dict[str, Any]:
    available = {"type": "Available", "status": "True"}
    return {
        "metadata": {"name": "x", "generation": generation},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, "conditions": [available], **status},
    }


def test_a_deployment_is_available_when_all_its_new_pods_are() -> None:
    assert unavailability(_deployment(2, updatedReplicas=2, readyReplicas=2)) == ""
    assert "1 of 2 pods ready" in unavailability(_deployment(2, updatedReplicas=1, readyReplicas=1))
    assert "not been seen" in unavailability(_deployment(3, updatedReplicas=2, readyReplicas=2))


def test_a_deployment_whose_pods_are_refused_says_why_and_the_same_each_time() -> None:
    def refused(pod: str) -> dict[str, Any]:
        message = f'pods "{pod}" is forbidden: exceeded quota: all, requested: pods=1'
        failure = {"type": "ReplicaFailure", "status": "True", "message": message}
        return _deployment(2, conditions=[failure])

    text = unavailability(refused("binder-x1"))
    assert text.endswith("pods ready, 0 of them new: exceeded quota: all, requested: pods=1")
    assert text == unavailability(refused("binder-x2"))


def test_whatever_many_things_are_wrong_the_message_has_an_end() -> None:
    facts = Facts(failures=[f"Service {number}: refused" for number in range(10_000)])
    (deployed,) = [
        one for one in stored(status_patch((), facts, 1, NOW_S)) if one.type == "Deployed"
    ]
    assert len(deployed.message) < 5000
    assert "Service 0: refused" in deployed.message
