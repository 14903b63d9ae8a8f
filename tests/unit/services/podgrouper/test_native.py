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


def test_a_native_gang_is_one_pod_group_with_its_min_count() -> None:
    (group,) = groups(native("g", {"gang": {"minCount": 3}}), member("a", "g"), member("b", "g"))
    assert group["name"] == "pg-g-<uid:PodGroup/g>"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["queue"] == "red"


def test_pods_of_the_basic_policy_start_one_by_one() -> None:
    (group,) = groups(native("g", {"basic": {}}), member("a", "g"))
    assert group["spec"]["minMember"] == 1


def test_priority_class_and_topology_of_a_native_pod_group_are_copied() -> None:
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


def test_an_unknown_native_pod_group_is_an_error() -> None:
    (event,) = grouped([member("a", "nowhere")]).outcome()["events"]
    assert 'podgroups.scheduling.k8s.io "nowhere" not found; create it' in event["message"]


def test_metadata_of_workload_and_owner_is_copied_to_a_generated_pod_group() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "labels": {"kai.scheduler/queue": "blue", "app": "x"},
            "annotations": {"kai.scheduler/preemption-delay": "1m"},
        },
        "spec": {},
    }
    workload = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "w", "annotations": {"kai.scheduler/topology": "racks"}},
        "spec": {},
    }
    made_of = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    wanted = native("g", {"gang": {"minCount": 2}}, podGroupTemplateRef=made_of)
    body = pod("a", ("batch/v1", "Job", "j"))
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    (group,) = groups(job, workload, wanted, body)
    assert group["spec"]["queue"] == "blue"
    assert group["spec"]["preemptionDelay"] == "1m0s"
    assert group["spec"]["topologyConstraint"] == {"topology": "racks"}
    assert "app" not in group["labels"]


def test_the_topology_of_a_native_pod_group_is_found_by_its_level() -> None:
    racks = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": "example.com/rack"}]},
    }
    in_one_rack = {"topology": [{"key": "example.com/rack"}]}
    wanted = native("g", {"gang": {"minCount": 2}}, schedulingConstraints=in_one_rack)
    (group,) = groups(racks, wanted, member("a", "g"))
    assert group["spec"]["topologyConstraint"] == {
        "topology": "racks",
        "requiredTopologyLevel": "example.com/rack",
    }
    (event,) = grouped([wanted, member("a", "g")]).outcome()["events"]
    assert "create one with that nodeLabel" in event["message"]


def workload_of_1_35() -> dict[str, Any]:
    gang = {"name": "workers", "policy": {"gang": {"minCount": 4}}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w", "labels": {"kai.scheduler/queue": "blue"}},
        "spec": {"podGroups": [{"name": "driver", "policy": {"basic": {}}}, gang]},
    }


def of_workload(name: str, part: str, replica: str = "") -> dict[str, Any]:
    ref = {"name": "w", "podGroup": part}
    body = pod(name)
    body["spec"]["workloadRef"] = {**ref, "podGroupReplicaKey": replica} if replica else ref
    return body


def test_pod_groups_of_a_workload_become_one_pod_group_per_replica() -> None:
    found = groups(
        workload_of_1_35(),
        of_workload("a", "driver"),
        of_workload("b", "workers", "0"),
        of_workload("c", "workers", "1"),
    )
    assert {one["name"]: one["spec"]["minMember"] for one in found} == {
        "pg-w-<uid:Workload/w>-driver": 1,
        "pg-w-<uid:Workload/w>-workers-0": 4,
        "pg-w-<uid:Workload/w>-workers-1": 4,
    }
    assert {one["spec"]["queue"] for one in found} == {"blue"}


def test_an_unknown_pod_group_of_a_workload_is_an_error_that_lists_the_known() -> None:
    (event,) = grouped([workload_of_1_35(), of_workload("a", "drivers")]).outcome()["events"]
    assert event["message"].endswith(
        'has no group "drivers"; name one of its groups: driver, workers'
    )
    (event,) = grouped([of_workload("a", "driver")]).outcome()["events"]
    assert 'spec.workloadRef.name: workloads.scheduling.k8s.io "w" not found' in event["message"]


MODE = "kai.scheduler/disruption-mode"
MADE_OF_T = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}


def workload_with(*templates: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "w", **metadata},
        "spec": {"podGroupTemplates": list(templates)},
    }


def test_the_disruption_mode_of_a_native_pod_group_is_copied() -> None:
    gang = {"gang": {"minCount": 2}}
    for said in ("Pod", "PodGroup"):
        (group,) = groups(native("g", gang, disruptionMode=said), member("a", "g"))
        assert group["annotations"][MODE] == said
    (group,) = groups(native("g", gang), member("a", "g"))
    assert MODE not in group["annotations"]


def test_the_disruption_mode_of_the_template_overrides_the_server_default() -> None:
    gang = {"gang": {"minCount": 2}}
    described = workload_with(
        {"name": "other", "disruptionMode": "Pod"}, {"name": "t", "disruptionMode": "PodGroup"}
    )
    made = native("g", gang, disruptionMode="Pod", podGroupTemplateRef=MADE_OF_T)
    (group,) = groups(described, made, member("a", "g"))
    assert group["annotations"][MODE] == "PodGroup"


def test_the_disruption_mode_annotation_overrides_the_server_default() -> None:
    noted = {"annotations": {MODE: "PodGroup"}}
    made = native("g", {"basic": {}}, disruptionMode="Pod", podGroupTemplateRef=MADE_OF_T)
    (group,) = groups(workload_with({"name": "t"}, **noted), made, member("a", "g"))
    assert group["annotations"][MODE] == "PodGroup"
