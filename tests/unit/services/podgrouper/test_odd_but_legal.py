"""Workloads of odd but legal shape: each is grouped, or refused, as the original does it."""

from typing import Any

import pytest
from tests.support.grouping import documents, grouped, pod

Labels = dict[str, str]
_KUBEFLOW = "training.kubeflow.org"
_LWS = "leaderworkerset.sigs.k8s.io"
_JOB_SET = "jobset.sigs.k8s.io"
_SEGMENT = "kai.scheduler/segment-size"
_MINIMUM = "kai.scheduler/batch-min-member"


def _only(text: str, pod_name: str = "p", **labels: str) -> dict[str, Any]:
    """What comes of a top owner, the last of the documents, and one pod of it."""
    objects = documents(text)
    top = objects[-1]
    owner = (top["apiVersion"], top["kind"], top["metadata"]["name"])
    return grouped([*objects, pod(pod_name, owner, **labels)]).outcome()


def _top(api_version: str, kind: str, spec: str, annotations: str = "", labels: str = "") -> str:
    return (
        f"apiVersion: {api_version}\nkind: {kind}\n"
        f"metadata: {{name: top, annotations: {{{annotations}}}, labels: {{{labels}}}}}\n"
        f"spec: {spec}\n"
    )


def _mpi(spec: str) -> str:
    return _top("kubeflow.org/v2beta1", "MPIJob", spec)


def _torch(spec: str, annotations: str = "") -> str:
    return _top("kubeflow.org/v1", "PyTorchJob", spec, annotations)


def _set(template: str, annotations: str = "", more: str = "") -> str:
    spec = f"{{replicatedJobs: [{{name: a, template: {{{template}}}}}]{more}}}"
    return _top("jobset.x-k8s.io/v1alpha2", "JobSet", spec, annotations)


def _leaders(spec: str, annotations: str = "") -> str:
    return _top("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations)


def _part(outcome: dict[str, Any], name: str) -> dict[str, Any]:
    (group,) = outcome["podgroups"]
    found: dict[str, Any] = next(one for one in group["spec"]["subGroups"] if one["name"] == name)
    return found


@pytest.mark.parametrize(
    ("text", "labels", "minimum"),
    [
        # Replicas that the operator fills in are not asked for where the minimum is said.
        (
            _mpi(
                "{mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 4}},"
                " runPolicy: {schedulingPolicy: {minAvailable: 5}}}"
            ),
            {},
            5,
        ),
        (
            _mpi("{runPolicy: {schedulingPolicy: {minAvailable: 2}}}"),
            {},
            2,
        ),
        # The size that LeaderWorkerSet's controller writes, unless it is no number.
        (
            _leaders("{startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 3}}"),
            {f"{_LWS}/worker-index": "1"},
            3,
        ),
    ],
)
def test_a_minimum_is_read_where_it_is_said(text: str, labels: Labels, minimum: int) -> None:
    (group,) = _only(text, **labels)["podgroups"]
    assert group["spec"]["minMember"] == minimum


def test_a_size_on_a_pod_that_is_no_number_leaves_it_to_the_leader_worker_set() -> None:
    (top,) = documents(_leaders("{startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 3}}"))
    worker = pod("p", (top["apiVersion"], top["kind"], "top"), **{f"{_LWS}/worker-index": "1"})
    worker["metadata"]["annotations"] = {f"{_LWS}/size": "three"}
    (group,) = grouped([top, worker]).outcome()["podgroups"]
    assert group["spec"]["minMember"] == 3


def test_a_pod_of_a_leader_worker_set_of_one_that_is_no_leader_is_of_no_part() -> None:
    """A label with the name of a part that is not there would keep it from ever being placed."""
    outcome = _only(_leaders("{leaderWorkerTemplate: {size: 1}}"))
    assert "labels" not in outcome["pods"]["p"]


def test_a_pytorch_worker_without_replicas_is_one() -> None:
    text = _torch(
        "{runPolicy: {schedulingPolicy: {minAvailable: 1}}, pytorchReplicaSpecs: {Worker: {}}}"
    )
    job, worker = documents(text)[0], f"{_KUBEFLOW}/replica-type"
    template = {"metadata": {"annotations": {_SEGMENT: "2"}}}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = template
    one = pod("p", ("kubeflow.org/v1", "PyTorchJob", "top"), **{worker: "worker"})
    one["metadata"]["labels"][f"{_KUBEFLOW}/replica-index"] = "0"
    outcome = grouped([job, one]).outcome()
    assert _part(outcome, "worker-0")["minMember"] == 1
    assert outcome["pods"]["p"]["labels"] == {"kai.scheduler/subgroup-name": "worker-0"}


def test_a_topology_without_a_level_asks_nothing_of_a_group_of_ray_workers() -> None:
    template = "{metadata: {annotations: {kai.scheduler/topology: dc}}}"
    worker = f"{{groupName: w, replicas: 2, template: {template}}}"
    spec = f"{{headGroupSpec: {{template: {template}}}, workerGroupSpecs: [{worker}]}}"
    outcome = _only(_top("ray.io/v1", "RayCluster", spec))
    for name in ("headgroup", "w"):
        assert "topologyConstraint" not in _part(outcome, name)


def test_a_run_ai_job_whose_pod_has_no_hyphen_is_named_by_the_whole_name() -> None:
    outcome = _only(_top("run.ai/v1", "RunaiJob", "{}"), "alone")
    assert outcome["podgroups"][0]["name"] == "pg-alone-<uid:RunaiJob/top>"


@pytest.mark.parametrize(
    ("labels", "of_pod", "queue"),
    [
        ('project: ""', {"project": "b"}, "default-queue"),  # an empty one is an answer
        ("project: a", {"project": "b", "kai.scheduler/node-pool": ""}, "a-"),
        ("", {"project": "b", "kai.scheduler/node-pool": "p"}, "b-p"),
    ],
)
def test_a_queue_is_that_of_a_project_and_its_node_pool(
    labels: str, of_pod: Labels, queue: str
) -> None:
    outcome = _only(_top("example.com/v1", "Foo", "{}", labels=labels), **of_pod)
    assert outcome["podgroups"][0]["spec"]["queue"] == queue


def test_an_empty_minimum_in_a_template_of_a_job_set_leaves_it_to_the_parallelism() -> None:
    template = f'metadata: {{annotations: {{{_MINIMUM}: ""}}}}, spec: {{parallelism: 3}}'
    of_leaf = {f"{_JOB_SET}/replicatedjob-name": "a", f"{_JOB_SET}/job-index": "0"}
    assert _part(_only(_set(template), **of_leaf), "a-replica-0")["minMember"] == 3


_FLAT = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: "pg-top-<uid:JobSet/top>"}
spec: {queue: a, minMember: 1}
---
"""


def test_a_job_set_with_a_group_from_before_the_tree_keeps_it_and_any_minimum() -> None:
    of_leaf = {f"{_JOB_SET}/replicatedjob-name": "a"}
    (group,) = _only(_FLAT + _set("", f'{_MINIMUM}: "0"'), **of_leaf)["podgroups"]
    assert (group["spec"]["minMember"], "subGroups" in group["spec"]) == (0, False)


_GANG = """
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: gang}
spec:
  priorityClassName: ""
  podgroups:
  - {name: a, minReplicas: 1, podReferences: [{namespace: <ns>, name: p}]}
  - {name: b, minReplicas: 2, podReferences: []}
  topologyConstraintGroupConfigs:
  - {name: one, podGroupNames: [a, b]}
  - {name: two, podGroupNames: [b, b]}
  - {name: gone, podGroupNames: [c]}
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: top}
"""


def test_a_grove_group_that_two_configs_list_is_of_the_later() -> None:
    outcome = _only(_GANG, **{"grove.io/podgang": "gang"})
    (group,) = outcome["podgroups"]
    tree = [
        (part["name"], part.get("parent"), part.get("minSubGroup"))
        for part in group["spec"]["subGroups"]
    ]
    assert tree == [("one", None, 1), ("two", None, 1), ("a", "one", None), ("b", "two", None)]
    assert "priorityClassName" not in group["spec"]  # an empty class is an answer


_TWO_OWNERS = """
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: top
  ownerReferences:
  - {apiVersion: apps/v1, kind: Deployment, name: a, uid: u1}
  - {apiVersion: apps/v1, kind: Deployment, name: b, uid: u2, controller: true}
"""
_WORKER = {f"{_KUBEFLOW}/replica-type": "worker"}
_IN_SEGMENTS = (
    "{pytorchReplicaSpecs: {Worker: {replicas: 4,"
    f' template: {{metadata: {{annotations: {{{_SEGMENT}: "SIZE"}}}}}}}}}}}}'
)
_WAITS = "{launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Launcher: {}},"


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        (
            _TWO_OWNERS,
            {},
            "found ReplicaSet <top in namespace <ns>> with multiple owners: [{apps/v1 Deployment a "
            "u1 <nil> <nil>} {apps/v1 Deployment b u2 True <nil>}]",
        ),
        (
            _mpi("{mpiReplicaSpecs: {}}")
            .replace("MPIJob", "TFJob")
            .replace("v2beta1", "v1")
            .replace("mpi", "tf"),
            {},
            "failed calculate number of pods for a distributed job top. Must be greater than 0, "
            "but got 0",
        ),
        (
            _mpi(f"{_WAITS} runPolicy: {{schedulingPolicy: {{minAvailable: 2}}}}}}"),
            {},
            "the type of the job top doesn't allow for 0 mpiReplicaSpecs pods. Please fix the "
            "replica field",
        ),
        (
            _torch("{runPolicy: {schedulingPolicy: {minAvailable: 2}}}"),
            {},
            "pytorchReplicaSpecs not found in PyTorchJob <ns>/top",
        ),
        (
            _torch(_IN_SEGMENTS.replace("SIZE", "0")),
            {},
            "segment size 0 on worker podTemplate needs to be a positive integer",
        ),
        (
            _torch(_IN_SEGMENTS.replace("SIZE", "2")),
            {**_WORKER, f"{_KUBEFLOW}/replica-index": "x"},
            'invalid replica index x, err: strconv.Atoi: parsing "x": invalid syntax',
        ),
        (
            _torch(_IN_SEGMENTS.replace("SIZE", "1").replace("4,", "10001,")),
            {**_WORKER, f"{_KUBEFLOW}/replica-index": "0"},
            "number of subgroups created for the segmentation 10001 is greater than max allowed "
            "segmentation ",
        ),
        (
            _leaders("{leaderWorkerTemplate: {size: 30001}}", f'{_SEGMENT}: "2"'),
            {f"{_LWS}/worker-index": "0"},
            "number of subgroups segments 15000 is greater than max allowed segmentation ",
        ),
        (
            _leaders(
                "{leaderWorkerTemplate: {size: 4, workerTemplate: {metadata: {annotations:"
                f" {{{_SEGMENT}: two}}}}}}}}}}"
            ),
            {f"{_LWS}/worker-index": "0"},
            "failed to get sub group policy for LWS <ns>/top: invalid segment size annotation two "
            'in workerTemplate of LWS <ns>/top: strconv.Atoi: parsing "two": invalid syntax',
        ),
        (
            _leaders("{leaderWorkerTemplate: {size: 4}}", f'{_SEGMENT}: "2"'),
            {f"{_LWS}/worker-index": "4"},
            "workerIndex 4 of pod <ns>/p is past the 4 pods of its group",
        ),
        (
            _set("spec: {parallelism: many}"),
            {},
            "failed to read template.spec.parallelism: ",
        ),
        (
            _FLAT + _set(""),
            {},
            'pod <ns>/p missing required label "jobset.sigs.k8s.io/replicatedjob-name"',
        ),
        (
            _top("jobset.x-k8s.io/v1alpha2", "JobSet", "{replicatedJobs: [{name: a}, false]}"),
            {},
            ".spec.replicatedJobs.1 accessor error: False is of the type bool",
        ),
        (
            _top(
                "ray.io/v1",
                "RayCluster",
                "{headGroupSpec: {template: {spec: {}}}, workerGroupSpecs: [3]}",
            ),
            {},
            ".spec.workerGroupSpecs.0 accessor error: 3 is of the type int64",
        ),
        (
            _top("serving.knative.dev/v1", "Service", "{}"),
            {},
            "revisionName not found for knative service pod <ns>/p",
        ),
    ],
)
def test_what_cannot_be_grouped_is_said_in_the_words_that_tools_match(
    text: str, labels: Labels, message: str
) -> None:
    (event,) = _only(text, **labels)["events"]
    assert event["message"].startswith(message)
