"""Pods that name a PodGroup of Kubernetes' own."""

from typing import Any

from tests.support.grouping import grouped, pod


def native(name: str, policy: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": policy, **more},
    }


def member(name: str, of: str) -> dict[str, Any]:
    body = pod(name, None, **{"kai.scheduler/queue": "red"})
    body["spec"]["schedulingGroup"] = {"podGroupName": of}
    return body


def groups(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    outcome = grouped(objects).outcome()
    return [one for one in outcome["podgroups"] if one["name"].startswith("pg-")]


def test_a_gang_of_kubernetes_is_one_group_of_its_min_count() -> None:
    (group,) = groups(native("g", {"gang": {"minCount": 3}}), member("a", "g"), member("b", "g"))
    assert group["name"] == "pg-g-<uid:PodGroup/g>"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["queue"] == "red"


def test_pods_of_the_basic_policy_start_one_by_one() -> None:
    (group,) = groups(native("g", {"basic": {}}), member("a", "g"))
    assert group["spec"]["minMember"] == 1


def test_class_and_topology_are_taken_over() -> None:
    wanted = native(
        "g",
        {"gang": {"minCount": 2}},
        priorityClassName="build",
        schedulingConstraints={"topology": [{"key": "example.com/rack"}]},
        metadata={"annotations": {"kai.scheduler/topology": "racks"}},
    )
    (group,) = groups(wanted, member("a", "g"))
    assert group["spec"]["priorityClassName"] == "build"
    assert group["spec"]["topologyConstraint"] == {
        "topology": "racks",
        "requiredTopologyLevel": "example.com/rack",
    }


def test_a_pod_that_names_no_group_of_this_world_is_told_so() -> None:
    (event,) = grouped([member("a", "nowhere")]).outcome()["events"]
    assert 'podgroups.scheduling.k8s.io "nowhere" not found; create it' in event["message"]
