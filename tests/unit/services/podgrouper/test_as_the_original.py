"""Legal workloads of odd shape that ours once grouped otherwise than the original."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.grouping import documents, grouped, owned, pod
from tests.support.play_grouper import GrouperCluster

from muster.services.podgrouper.groupers.workload import GroupingSettings

_JOB = ("batch/v1", "Job", "train")


def _job(minimum: str) -> dict[str, Any]:
    annotations = {"kai.scheduler/batch-min-member": minimum}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"parallelism": 3},
    }


def test_a_pod_that_bears_the_name_of_its_job_keeps_the_minimum_of_the_job() -> None:
    """Its group is no group from before there was one for each Job, though it is named alike."""
    (group,) = grouped([_job("3"), pod("train-x", _JOB), pod("train", _JOB)]).outcome()["podgroups"]
    assert group["spec"]["minMember"] == 3


def test_a_minimum_that_is_no_number_is_said_in_the_words_of_the_original_and_then_in_ours() -> (
    None
):
    world = grouped([_job("four"), pod("train-x", _JOB)])
    (event,) = world.outcome()["events"]
    assert event["message"] == (
        'invalid min-member annotation value: strconv.ParseInt: parsing "four": invalid syntax'
    )
    assert world.sentences == [
        f'{event["message"]}: write a whole number, such as "2", in kai.scheduler/batch-min-member '
        "of Job train"
    ]


_GANG = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: top, labels: {priorityClassName: build}}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: gang, labels: {LABELS}}
spec:
  priorityClassName: train
  podgroups:
  - {name: a, minReplicas: 2, podReferences: [{namespace: <ns>, name: p}]}
"""
_SET = ("grove.io/v1alpha1", "PodCliqueSet", "top")


def _gang(labels: str = "") -> list[Any]:
    return [
        *documents(_GANG.replace("LABELS", labels)),
        pod("p", _SET, **{"grove.io/podgang": "gang"}),
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("", "build"),
        ("priorityClassName: inference", "inference"),
        ("priorityClassName: of-another-cluster", "of-another-cluster"),
        ('priorityClassName: ""', None),
    ],
)
def test_a_priority_label_on_a_grove_gang_beats_its_field_and_its_set(
    labels: str, expected: str | None
) -> None:
    (group,) = grouped(_gang(labels)).outcome()["podgroups"]
    assert group["spec"].get("priorityClassName") == expected


def test_a_preemptibility_on_a_grove_gang_beats_that_of_its_set() -> None:
    objects = _gang("kai.scheduler/preemptibility: preemptible")
    objects[0]["metadata"]["labels"]["kai.scheduler/preemptibility"] = "non-preemptible"
    (group,) = grouped(objects).outcome()["podgroups"]
    assert group["spec"]["preemptibility"] == "preemptible"


@pytest.mark.parametrize("value", ["maybe", "Preemptible"])
def test_a_preemptibility_of_a_grove_gang_that_is_none_is_refused(value: str) -> None:
    outcome = grouped(_gang(f"kai.scheduler/preemptibility: {value}")).outcome()
    assert outcome["podgroups"] == []
    assert outcome["events"][0]["message"] == (
        "failed to get metadata from top owner <ns>/gang. Err: failed to parse preemptibility from "
        "top owner <ns>/pg-gang-<uid:PodGang/gang>. Err: invalid preemptibility value: " + value
    )


_PART = "failed to parse spec.podgroups[0] from PodGang <ns>/gang. Err: "
_REFERENCE = "failed to parse spec.podgroups[0].podreferences[0] from PodGang <ns>/gang. Err: "


@pytest.mark.parametrize(
    ("references", "words"),
    [
        (None, f"{_PART}missing required 'podReferences' field"),
        ([{"name": "p"}], f"{_PART}{_REFERENCE}missing required 'namespace' field"),
        ([{"namespace": "<ns>"}], f"{_PART}{_REFERENCE}missing required 'name' field"),
    ],
)
def test_a_grove_group_without_pod_references_is_refused(references: Any, words: str) -> None:
    objects = _gang()
    objects[1]["spec"]["podgroups"][0]["podReferences"] = references
    outcome = grouped(objects).outcome()
    assert outcome["podgroups"] == []
    assert outcome["events"][0]["message"] == words


def test_a_grove_group_may_list_no_pods() -> None:
    objects = _gang()
    objects[1]["spec"]["podgroups"][0]["podReferences"] = []
    (group,) = grouped(objects).outcome()["podgroups"]
    assert group["spec"]["minMember"] == 2


_COMPONENTS = """
- name: flow
  kind: {group: example.com, version: v1, kind: Flow}
  statusDefinition: {}
- name: master
  ownerRef: flow
  specDefinition: {podTemplateSpecPath: .spec.master.template}
  scaleDefinition: {replicasPath: .spec.master.replicas}
  podSelector: {componentTypeSelector: {keyPath: .metadata.labels.role, value: master}}
- name: pool
  ownerRef: flow
  scaleDefinition: {replicasPath: .spec.pools, minReplicasPath: .spec.leastPools}
- name: worker
  ownerRef: pool
  specDefinition: {podTemplateSpecPath: .spec.worker.template}
  scaleDefinition: {replicasPath: .spec.worker.replicas}
  podSelector: {componentTypeSelector: {keyPath: .metadata.labels.role, value: worker}}
"""
_FLOW = ("example.com/v1", "Flow", "flow")


def _karta(scales: bool = True) -> dict[str, Any]:
    root, *children = documents(f"[{_COMPONENTS}]".replace("[\n", "").replace("]", ""))[0]
    if not scales:
        for child in children:
            del child["scaleDefinition"]
    labels = {"run.ai/karta-group": "example.com", "run.ai/karta-version": "v1"}
    parts = [{"componentName": "master"}, {"componentName": "pool"}]
    return {
        "metadata": {"name": "flow", "labels": {**labels, "run.ai/karta-kind": "Flow"}},
        "spec": {
            "structureDefinition": {"rootComponent": root, "childComponents": children},
            "optimizationInstructions": {
                "gangScheduling": {"podGroup": {"name": "all", "subGroups": parts}}
            },
        },
    }


def _described(objects: list[Any], karta: dict[str, Any]) -> GrouperCluster:
    settings = replace(GroupingSettings(), uses_kartas=True)
    world = GrouperCluster(settings, ("train",), {"plurals": {}, "kartas": [karta]})
    for thing in objects:
        world.create(owned(thing), {})
    return world


def _flow(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "flow"}
    body = {"master": {"replicas": 1}, **spec}
    return {"apiVersion": "example.com/v1", "kind": "Flow", "metadata": metadata, "spec": body}


@pytest.mark.parametrize(
    ("spec", "minimums"),
    [
        ({"pools": 2, "worker": {"replicas": 3}}, [1, 6]),
        ({"pools": 4, "leastPools": 2, "worker": {"replicas": 3}}, [1, 6]),
        ({"worker": {"replicas": 3}}, [1, 3]),
        ({"pools": 2, "worker": {}}, [1, 2]),
    ],
)
def test_a_karta_component_has_the_pods_of_those_below_it_times_its_own(
    spec: dict[str, Any], minimums: list[int]
) -> None:
    world = _described([_flow(**spec), pod("w", _FLOW, role="worker")], _karta())
    (group,) = world.outcome()["podgroups"]
    assert [part["minMember"] for part in group["spec"]["subGroups"]] == minimums
    labels = world.outcome()["pods"]["w"]["labels"]
    assert labels == {"kai.scheduler/subgroup-name": "pool"}  # of a component below it


def test_where_a_karta_knows_no_scale_its_leaves_count() -> None:
    world = _described([_flow(), pod("m", _FLOW, role="master")], _karta(scales=False))
    (group,) = world.outcome()["podgroups"]
    assert [part["minMember"] for part in group["spec"]["subGroups"]] == [1, 1]


def test_a_karta_component_without_workers_is_refused_in_the_words_of_the_original() -> None:
    world = _described([_flow(worker={"replicas": 0}), pod("m", _FLOW, role="master")], _karta())
    assert world.outcome()["podgroups"] == []
    (event,) = world.outcome()["events"]
    assert event["message"] == "component pool must expose a replica scale definition"
    assert "Flow flow asks for no pods of it as it is" in world.sentences[0]


def test_a_karta_says_nothing_of_what_is_below_a_skipped_owner() -> None:
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
    above = {**workflow, "metadata": {"name": "wf"}}
    flow = {**_flow(pools=1), "owner": ("argoproj.io/v1alpha1", "Workflow", "wf")}
    world = _described([above, flow, pod("m", _FLOW, role="master")], _karta())
    (group,) = world.outcome()["podgroups"]
    assert (group["name"], group["spec"]["minMember"]) == ("pg-flow-<uid:Flow/flow>", 1)


def test_a_karta_group_takes_class_and_times_of_the_top_owner_alone() -> None:
    middle = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "labels": {"kai.scheduler/preemptibility": "preemptible"}},
        "owner": _FLOW,
    }
    objects = [_flow(pools=1), middle, pod("m", ("apps/v1", "ReplicaSet", "rs"), role="master")]
    (group,) = _described(objects, _karta()).outcome()["podgroups"]
    assert "preemptibility" not in group["spec"]


def test_a_karta_whose_components_are_no_tree_counts_as_none() -> None:
    karta = _karta()
    karta["spec"]["structureDefinition"]["childComponents"][1]["ownerRef"] = "worker"
    world = _described([_flow(pools=1), pod("m", _FLOW, role="master")], karta)
    (group,) = world.outcome()["podgroups"]
    assert (group["name"], group["spec"]["minMember"]) == ("pg-flow-<uid:Flow/flow>", 1)


def _older(*members: dict[str, Any], scales: bool = True) -> dict[str, Any]:
    karta = _karta(scales)
    groups = [{"name": f"g{at}", "members": [one]} for at, one in enumerate(members)]
    gang = {"gangScheduling": {"podGroups": groups}}
    karta["spec"]["optimizationInstructions"] = gang
    return karta


_OF_POOL = {"componentName": "pool", "groupByKeyPaths": [".metadata.labels.shard"]}


def test_in_kartas_older_form_a_pod_is_grouped_by_its_own_member_and_keys() -> None:
    karta = _older({"componentName": "flow"}, _OF_POOL)
    pods = [pod("m", _FLOW, role="master"), pod("w", _FLOW, role="worker", shard="a")]
    world = _described([_flow(pools=2, worker={"replicas": 3}), *pods], karta)
    found = [(one["name"], one["spec"]["minMember"]) for one in world.outcome()["podgroups"]]
    # The whole for who is of the root alone; of a pool what it has, by the pod's key.
    assert found == [("pg-<uid:Flow/flow>", 7), ("pg-<uid:Flow/flow>-a", 6)]


@pytest.mark.parametrize(
    ("condition", "minimum"),
    [
        ('.metadata.labels.shard == "a"', 6),
        ('(.metadata.labels.shard != "a")', 7),
        (".spec.containers[].image", 7),
        ('.metadata.labels.nothing == "a"', 7),
    ],
)
def test_in_kartas_older_form_the_first_member_whose_filters_let_the_pod_pass_counts(
    condition: str, minimum: int
) -> None:
    karta = _older({"componentName": "flow"}, {"componentName": "pool", "filters": [condition]})
    worker = pod("w", _FLOW, role="worker", shard="a")
    world = _described([_flow(pools=2, worker={"replicas": 3}), worker], karta)
    (group,) = world.outcome()["podgroups"]
    assert group["spec"]["minMember"] == minimum


@pytest.mark.parametrize(
    ("members", "labels", "message"),
    [
        ([_OF_POOL], {"role": "other"}, "no component found for pod w"),
        (
            [{"componentName": "master"}],
            {"role": "worker"},
            "pod <ns>/w does not match any Karta pod group member definition",
        ),
        (
            [_OF_POOL],
            {"role": "worker"},
            'group key path ".metadata.labels.shard" returned an invalid value',
        ),
        ([_OF_POOL], {"role": "worker", "shard": "A"}, "Karta grouping keys [A] produce invalid"),
        (
            [{"componentName": "pool", "filters": ["(.spec.priority // 0) > 0"]}],
            {"role": "worker"},
            "filter (.spec.priority // 0) > 0 is more than a chain of fields",
        ),
    ],
)
def test_in_kartas_older_form_a_pod_that_belongs_nowhere_is_told_why(
    members: list[dict[str, Any]], labels: dict[str, str], message: str
) -> None:
    world = _described([_flow(pools=2), pod("w", _FLOW, **labels)], _older(*members))
    assert world.outcome()["podgroups"] == []
    (event,) = world.outcome()["events"]
    assert event["message"].startswith(message)


def test_in_kartas_older_form_each_instance_of_a_component_has_its_own_scale() -> None:
    karta = _older({"componentName": "pool"}, {"componentName": "worker"})
    worker = karta["spec"]["structureDefinition"]["childComponents"][2]
    worker["instanceIdPath"] = ".spec.kinds[].name"
    worker["scaleDefinition"] = {"replicasPath": ".spec.kinds[].replicas"}
    selector = {"idPath": ".metadata.labels.kind"}
    worker["podSelector"]["componentInstanceSelector"] = selector
    kinds = [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 5}]
    of_b = pod("w", _FLOW, role="worker", kind="b")
    (group,) = _described([_flow(kinds=kinds), of_b], karta).outcome()["podgroups"]
    assert group["spec"]["minMember"] == 5
    of_none = pod("w", _FLOW, role="worker", kind="c")
    world = _described([_flow(kinds=kinds), of_none], karta)
    (event,) = world.outcome()["events"]
    assert event["message"] == 'could not match instance id "c". existing instance ids [a b]'


def test_in_kartas_older_form_nobody_is_made_up_where_there_are_no_replicas() -> None:
    world = _described([_flow(), pod("w", _FLOW, role="worker")], _older({"componentName": "pool"}))
    (group,) = world.outcome()["podgroups"]
    assert group["spec"]["minMember"] == 0


def test_a_karta_that_lists_a_component_which_it_does_not_have_counts_as_none() -> None:
    karta = _older({"componentName": "gone"})
    world = _described([_flow(pools=1), pod("m", _FLOW, role="master")], karta)
    (group,) = world.outcome()["podgroups"]
    assert (group["name"], group["spec"]["minMember"]) == ("pg-flow-<uid:Flow/flow>", 1)


@pytest.mark.parametrize(("policy", "minimum"), [("WaitForWorkersReady", 2), ("AtStartup", 3)])
def test_a_minimum_that_counts_a_launcher_which_comes_last_does_not_wait_for_it(
    policy: str, minimum: int
) -> None:
    job = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "mp"},
        "spec": {
            "launcherCreationPolicy": policy,
            "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}},
            "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
        },
    }
    worker = pod("w", ("kubeflow.org/v2beta1", "MPIJob", "mp"))
    (group,) = grouped([job, worker]).outcome()["podgroups"]
    assert group["spec"]["minMember"] == minimum
