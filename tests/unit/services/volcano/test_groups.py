"""How much a PodGroup says that its pods need at least."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.volcano import PodGroup
from muster.api.volcano_batch import Job
from muster.model.requests import request_of, resource_amounts
from muster.services.volcano.decide.groups import pod_requests
from muster.services.volcano.decide.jobs import JobView, decide


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


def _parted(**task: Any) -> Job:
    parts = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    pods = {"containers": [container("a", cpu="1")], "hostNetwork": True}
    spec = {"name": "w", "replicas": 6, "partitionPolicy": parts, "template": {"spec": pods}}
    body = {
        "metadata": {"name": "j", "namespace": "team", "uid": "u1"},
        "spec": {"tasks": [{**spec, **task}]},
    }
    return from_builtins(Job, body)


@pytest.mark.parametrize(("said", "least"), [({}, 4), ({"minAvailable": 6}, 6)])
def test_a_task_that_says_how_many_parts_start_together_needs_their_pods(
    said: dict[str, Any], least: int
) -> None:
    made = decide(JobView(_parted(**said)), 1_000_000.0).create_group
    assert made is not None
    assert made["spec"]["minMember"] == least
    assert made["spec"]["minTaskMember"] == {"w": least}
    assert made["spec"]["minResources"] == {"cpu": str(least)}


def test_the_parts_of_a_task_are_told_apart_by_the_label_that_volcano_writes() -> None:
    (policy,) = (decide(JobView(_parted()), 1_000_000.0).create_group or {})["spec"][
        "subGroupPolicy"
    ]
    assert policy["matchLabelKeys"] == ["volcano.sh/partition-id"]
    group = from_builtins(PodGroup, {"status": {"phase": "Inqueue"}})
    pods = decide(JobView(_parted(), group=group), 1_000_000.0).create
    parts = [pod["metadata"]["labels"]["volcano.sh/partition-id"] for pod in pods]
    assert parts == ["0", "0", "1", "1", "2", "2"]


def test_pods_on_the_network_of_their_nodes_find_each_other_by_name() -> None:
    group = from_builtins(PodGroup, {"status": {"phase": "Inqueue"}})
    pods = decide(JobView(_parted(), group=group), 1_000_000.0).create
    assert {pod["spec"]["dnsPolicy"] for pod in pods} == {"ClusterFirstWithHostNet"}
