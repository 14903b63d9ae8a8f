"""Pods that ask to run on what others leave."""

from typing import Any

import pytest

from muster.services.admission.mutate import Mutated, mutate_pod
from muster.services.admission.review import AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings

ASKS = {"kai.scheduler/run-on-spare": "true"}
TWO_CORES, FOUR_GIB = {"cpu": "2", "memory": "4Gi"}, str(4 << 30)


def pod(*resources: dict[str, Any], notes: dict[str, str] | None = None) -> dict[str, Any]:
    listed = [{"name": f"c{n}", "resources": one} for n, one in enumerate(resources)]
    return {
        "metadata": {"name": "p", "namespace": "team", "annotations": ASKS | (notes or {})},
        "spec": {"schedulerName": "kai-scheduler", "containers": listed},
    }


def mutated(thing: dict[str, Any]) -> Any:
    answer = mutate_pod(Review("CREATE", thing, namespace="team"), AdmissionSettings(), "abc1234")
    return answer.pod if isinstance(answer, Mutated) else answer


def resources(thing: dict[str, Any]) -> list[Any]:
    return [one["resources"] for one in mutated(thing)["spec"]["containers"]]


def test_requests_for_cpu_and_memory_become_limits_and_requests_for_spare() -> None:
    spare = {"kai.scheduler/spare-cpu-milli": "2000", "kai.scheduler/spare-memory": FOUR_GIB}
    gpu = {"nvidia.com/gpu": "1"}
    assert resources(pod({"requests": TWO_CORES | gpu, "limits": gpu})) == [
        {
            "requests": {"cpu": "0", "memory": "0"} | gpu | spare,
            "limits": TWO_CORES | gpu | spare,
        }
    ]


def test_limits_above_the_requests_stay() -> None:
    given = {"requests": {"cpu": "500m"}, "limits": {"cpu": "4"}}
    spare = {"kai.scheduler/spare-cpu-milli": "500"}
    assert resources(pod(given)) == [
        {"requests": {"cpu": "0"} | spare, "limits": {"cpu": "4"} | spare}
    ]


def test_a_pod_that_was_moved_is_not_moved_again() -> None:
    once = mutated(pod({"requests": TWO_CORES}, {}))
    assert mutated(once) == once


def test_a_pod_that_does_not_ask_for_it_keeps_its_requests() -> None:
    thing = pod({"requests": TWO_CORES}, notes={"kai.scheduler/run-on-spare": "false"})
    assert mutated(thing) == thing


@pytest.mark.parametrize(
    ("thing", "field", "said"),
    [
        (pod({"limits": TWO_CORES}), "run-on-spare", "a guaranteed pod"),
        (pod({"requests": TWO_CORES, "limits": TWO_CORES}), "run-on-spare", "a guaranteed pod"),
        (pod({"requests": {"cpu": "lots"}}), "spec.containers[0].resources", "lots"),
        (
            {
                **pod({}),
                "spec": {"schedulerName": "kai-scheduler", "resources": {"requests": TWO_CORES}},
            },
            "spec.resources",
            "of the whole pod",
        ),
    ],
)
def test_what_cannot_be_moved_is_refused_by_field(
    thing: dict[str, Any], field: str, said: str
) -> None:
    answer = mutated(thing)
    assert isinstance(answer, AdmissionResponse)
    (problem,) = answer.problems
    assert field in problem.field
    assert said in problem.message
