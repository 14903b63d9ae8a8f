"""How much a PodGroup says that its pods need at least."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.model.requests import request_of, resource_amounts
from muster.services.volcano.decide.groups import pod_requests


def container(name: str, **more: Any) -> dict[str, Any]:
    asked = {key: more.pop(key) for key in ("cpu", "memory") if key in more}
    return {"name": name, "resources": {"requests": asked}, **more}


def limited(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"cpu": cpu}}}


_SIDECAR = container("proxy", cpu="500m", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("a", cpu="1"), container("b", cpu="2")]}, "3"),
        ({"initContainers": [container("i", cpu="4")], "containers": [container("a")]}, "4"),
        ({"initContainers": [_SIDECAR], "containers": [container("a", cpu="1")]}, "1500m"),
        (
            {
                "initContainers": [_SIDECAR, container("i", cpu="4")],
                "containers": [container("a", cpu="1")],
            },
            "4500m",
        ),
        ({"containers": [container("a", cpu="1")], "overhead": {"cpu": "250m"}}, "1250m"),
        (
            {"containers": [container("a", cpu="1")], "resources": {"requests": {"cpu": "6"}}},
            "6",
        ),
    ],
)
def test_a_group_counts_its_pods_as_the_scheduler_does(spec: dict[str, Any], cpu: str) -> None:
    pod = from_builtins(Pod, {"metadata": {"name": "p"}, "spec": spec})
    said = pod_requests(pod)
    assert str(said["cpu"]) == cpu
    assert {**resource_amounts(said), "pods": 1} == request_of(pod)[0]


def test_a_limit_without_a_request_is_a_request() -> None:
    """The API server makes it one where pods are made; a template of a job has not been there."""
    pod = from_builtins(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": [limited("a", "2")]}}
    )
    assert str(pod_requests(pod)["cpu"]) == "2"
