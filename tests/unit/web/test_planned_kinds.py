"""Every kind that the grouper knows is planned, or it is said what to plan instead."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.foresight.plan import Submission
from muster.services.podgrouper.groupers.table import TABLE
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.sim.operators.definitions import training_runtime
from muster.web.controllers import PODS_MAX, BadManifest
from muster.web.submission import Surroundings, named_by, submission_of

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
_POD = {
    "schedulerName": "kai-scheduler",
    "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
}
_QUEUE = {"kai.scheduler/queue": "a"}
_TEMPLATE = {"spec": _POD}
_JOB = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_SERVED = {
    "selector": {"matchLabels": {"app": "train"}},
    "template": {"metadata": {"labels": {"app": "train"}}, "spec": _POD},
}
_REVISED = {"annotations": {"autoscaling.knative.dev/min-scale": "3"}, "labels": _QUEUE}
_RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    **training_runtime(),
}

Parts = list[dict[str, int]]
"""Of each job, its pods by sub-group."""


def replicas(**types: int) -> dict[str, Any]:
    return {name: {"replicas": count, "template": _TEMPLATE} for name, count in types.items()}


def example(name: str) -> Any:
    text = (
        (_EXAMPLES / name)
        .read_text()
        .replace("kai.scheduler/queue: team", "kai.scheduler/queue: a")
    )
    return yaml.safe_load(text)["spec"]


def clique(name: str, pods: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"replicas": pods, "podSpec": _POD, **more}}


_GROVE = {
    "replicas": 1,
    "template": {
        "cliques": [clique("router", 1), clique("prefill", 2), clique("decode", 3, minAvailable=2)],
        "podCliqueScalingGroups": [
            {"name": "serve", "cliqueNames": ["prefill", "decode"], "replicas": 2}
        ],
    },
}
_RAY = example("ray/rayjob.yaml")
_GROVE_PARTS: Parts = [
    {"train-0-router": 1, "train-0-serve-0-prefill": 2, "train-0-serve-0-decode": 3},
    {"train-0-serve-1-prefill": 2, "train-0-serve-1-decode": 3},
]
_ELSEWHERE = "is known to its operator alone: plan"
_STEPS = "plan the pod of its largest step"

_PLANNED: dict[tuple[str, str], tuple[Any, Parts]] = {
    ("", "Pod"): (_POD, [{"default": 1}]),
    ("apps", "Deployment"): ({"replicas": 2, **_SERVED}, [{"default": 1}] * 2),
    ("apps", "ReplicaSet"): ({"replicas": 2, **_SERVED}, [{"default": 2}]),
    ("apps", "StatefulSet"): ({"replicas": 2, **_SERVED}, [{"default": 2}]),
    ("batch", "Job"): ({"parallelism": 3, **_JOB}, [{"default": 3}]),
    ("batch", "CronJob"): (
        {
            "schedule": "0 3 * * *",
            "jobTemplate": {"metadata": {"labels": _QUEUE}, "spec": {"parallelism": 2, **_JOB}},
        },
        [{"default": 2}],
    ),
    ("run.ai", "RunaiJob"): ({"parallelism": 2, "template": _TEMPLATE}, [{"default": 2}]),
    ("jobset.x-k8s.io", "JobSet"): (
        example("operators/jobset.yaml"),
        [{"coordinator-replica-0": 1, "worker-replica-0": 2, "worker-replica-1": 2}],
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        example("operators/leaderworkerset.yaml"),
        [{"leader": 1, "workers": 2}] * 2,
    ),
    ("kubeflow.org", "TFJob"): (
        {"tfReplicaSpecs": replicas(PS=1, Worker=2)},
        [{"default": 3}],
    ),
    ("kubeflow.org", "XGBoostJob"): (
        {"xgbReplicaSpecs": replicas(Master=1, Worker=2)},
        [{"default": 3}],
    ),
    ("kubeflow.org", "JAXJob"): ({"jaxReplicaSpecs": replicas(Worker=2)}, [{"default": 2}]),
    ("kubeflow.org", "MPIJob"): (
        {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2)},
        [{"default": 3}],
    ),
    ("kubeflow.org", "PyTorchJob"): (
        {"pytorchReplicaSpecs": replicas(Master=1, Worker=3)},
        [{"master": 1, "worker": 3}],
    ),
    ("kubeflow.org", "Notebook"): ({"template": _TEMPLATE}, [{"default": 1}]),
    ("serving.knative.dev", "Service"): (
        {"template": {"metadata": _REVISED, "spec": _POD}},
        [{"default": 3}],
    ),
    ("ray.io", "RayCluster"): (_RAY["rayClusterSpec"], [{"headgroup": 1, "gpu": 2}]),
    ("ray.io", "RayJob"): (_RAY, [{"headgroup": 1, "gpu": 2}]),
    ("ray.io", "RayService"): (
        {"rayClusterConfig": _RAY["rayClusterSpec"]},
        [{"headgroup": 1, "gpu": 2}],
    ),
    ("grove.io", "PodGangSet"): (_GROVE, _GROVE_PARTS),
    ("grove.io", "PodCliqueSet"): (_GROVE, _GROVE_PARTS),
    ("machinelearning.seldon.io", "SeldonDeployment"): (
        {"predictors": [{"replicas": 2, "componentSpecs": [_TEMPLATE]}]},
        [{"default": 2}],
    ),
    ("trainer.kubeflow.org", "TrainJob"): (
        example("operators/trainjob.yaml"),
        [{"node-replica-0": 2}],
    ),
}
_REFUSED = {
    ("kubeflow.org", "ScheduledWorkflow"): _STEPS,
    ("amlarc.azureml.com", "AmlJob"): _ELSEWHERE,
    ("egx.nvidia.io", "SPOTRequest"): _ELSEWHERE,
    ("kubevirt.io", "VirtualMachineInstance"): "plan the pod virt-launcher-",
    ("workspace.devfile.io", "DevWorkspace"): "plan the Deployment",
    ("tekton.dev", "PipelineRun"): _STEPS,
    ("tekton.dev", "TaskRun"): _ELSEWHERE,
    ("argoproj.io", "Workflow"): _STEPS,
    ("nvidia.com", "DynamoGraphDeployment"): "plan the PodCliqueSet",
    ("run.ai", "TrainingWorkload"): "plan the RunaiJob",
    ("run.ai", "InteractiveWorkload"): "plan the RunaiJob",
    ("run.ai", "DistributedWorkload"): "plan the RunaiJob",
    ("run.ai", "InferenceWorkload"): "plan the RunaiJob",
    ("run.ai", "DistributedInferenceWorkload"): "plan the RunaiJob",
}


def manifest(group: str, kind: str, spec: Any, version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": kind,
        "metadata": {"name": "train", "labels": _QUEUE},
        "spec": spec,
    }


def planned(*manifests: Any, **world: Any) -> Submission:
    return submission_of(manifests, "team", Surroundings(**world), 5.0)


def parts(found: Submission) -> Parts:
    by_job = {job.key: Counter[str]() for job in found.jobs}
    for task in found.tasks:
        by_job[task.job][task.sub_group] += 1
    return [dict(one) for one in by_job.values()]


def test_no_kind_of_the_grouper_is_forgotten() -> None:
    kinds = {(group, kind) for group, _, kind in TABLE}
    assert _PLANNED.keys() | _REFUSED.keys() == kinds
    assert not _PLANNED.keys() & _REFUSED.keys()


@pytest.mark.parametrize("named", TABLE, ids="/".join)
def test_a_kind_is_planned_in_its_parts_or_it_is_said_what_to_plan_instead(
    named: tuple[str, str, str],
) -> None:
    group, version, kind = named
    runtimes = [_RUNTIME] if kind == "TrainJob" else []
    version = "v1alpha1" if version == "*" else version
    spec, wanted = _PLANNED.get((group, kind), ({"template": {}}, []))
    found = planned(manifest(group, kind, spec, version), *runtimes)
    assert parts(found) == wanted
    if wanted:
        assert found.problems == ()
        assert {job.queue for job in found.jobs} == {"a"}
    else:
        (problem,) = found.problems
        assert problem.startswith(f"{kind} train: ")
        assert _REFUSED[group, kind] in problem


def test_a_gang_of_cliques_starts_whole_and_what_scales_beyond_it_by_itself() -> None:
    found = planned(manifest("grove.io", "PodCliqueSet", _GROVE, "v1alpha1"))
    least = [{leaf.name: leaf.minimum for leaf in job.sub_groups.children} for job in found.jobs]
    assert least == [
        {"train-0-router": 1, "train-0-serve-0-prefill": 2, "train-0-serve-0-decode": 2},
        {"train-0-serve-1-prefill": 2, "train-0-serve-1-decode": 2},
    ]


@pytest.mark.parametrize("where", ["template", "clique", "group"])
def test_what_of_a_clique_set_cannot_be_planned_is_said(where: str) -> None:
    wish = {"topologyConstraint": {"packDomain": "rack"}}
    template = dict(_GROVE["template"])  # type: ignore[call-overload]
    if where == "template":
        template |= wish
    elif where == "clique":
        template["cliques"] = [{**one, **wish} for one in template["cliques"]]
    else:
        groups = template["podCliqueScalingGroups"]
        template["podCliqueScalingGroups"] = [{**one, **wish} for one in groups]
    spec = {"replicas": 1, "template": template}
    (warning,) = planned(manifest("grove.io", "PodCliqueSet", spec, "v1alpha1")).warnings
    assert "topologyConstraint: which labels" in warning
    assert planned(manifest("grove.io", "PodCliqueSet", _GROVE, "v1alpha1")).warnings == ()


@pytest.mark.parametrize(
    "groups",
    [
        [{"name": "g", "cliqueNames": [], "replicas": 9999}] * 500,
        [{"name": "g", "cliqueNames": ["a"], "replicas": 0}] * 500,
    ],
    ids=["of nobody", "none"],
)
def test_what_makes_nothing_is_not_gone_through_again_and_again(groups: list[Any]) -> None:
    template = {"cliques": [clique("a", 1)], "podCliqueScalingGroups": groups}
    spec = {"replicas": 200, "template": template}
    found = planned(manifest("grove.io", "PodCliqueSet", spec, "v1alpha1"))
    assert len(found.tasks) == (200 if not groups[0]["cliqueNames"] else 0)


def test_numbers_in_a_clique_set_do_not_take_all_memory() -> None:
    many = {"name": "g", "cliqueNames": ["a"], "replicas": 9999}
    template = {"cliques": [clique("a", 1)], "podCliqueScalingGroups": [many]}
    spec = {"replicas": 9999, "template": template}
    with pytest.raises(BadManifest, match=str(PODS_MAX)):
        planned(manifest("grove.io", "PodCliqueSet", spec, "v1alpha1"))


def test_a_clique_set_that_names_a_clique_it_has_not_is_named() -> None:
    template = {"podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b"]}]}
    spec = {"replicas": 1, "template": template}
    with pytest.raises(BadManifest, match="PodCliqueSet train is not shaped as its kind says"):
        planned(manifest("grove.io", "PodCliqueSet", spec, "v1alpha1"))


def test_a_train_job_is_planned_by_the_runtime_of_the_cluster() -> None:
    spec = {**example("operators/trainjob.yaml")}
    job = manifest("trainer.kubeflow.org", "TrainJob", spec, "v1alpha1")
    (ref,) = named_by([job], "team")
    assert (ref.kind, ref.namespace, ref.name) == (
        "ClusterTrainingRuntime",
        "",
        spec["runtimeRef"]["name"],
    )
    found = planned(job, read={ref: _RUNTIME})
    assert parts(found) == [{"node-replica-0": 2}]
    assert found.tasks[0].request["gpu"] == 1000
    # One beside it in the file is the newer, and need not be read.
    assert named_by([job, _RUNTIME], "team") == ()
    assert planned(job, _RUNTIME).tasks == found.tasks


def test_a_runtime_of_a_namespace_is_looked_for_there() -> None:
    spec = {"runtimeRef": {"name": "own", "kind": "TrainingRuntime"}}
    job = manifest("trainer.kubeflow.org", "TrainJob", spec, "v1alpha1")
    wanted = ObjectRef("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "team", "own")
    assert named_by([job, _RUNTIME], "team") == (wanted,)


def test_a_train_job_without_its_runtime_says_where_to_get_it() -> None:
    spec = example("operators/trainjob.yaml")
    job = manifest("trainer.kubeflow.org", "TrainJob", spec, "v1alpha1")
    with pytest.raises(BadManifest, match="kubectl get clustertrainingruntime torch-distributed"):
        planned(job)


@pytest.mark.parametrize("runtime", [{"name": "../../secrets"}, {"name": 3}, 3, [], {}])
def test_a_reference_that_points_at_anything_is_not_followed(runtime: Any) -> None:
    job = manifest("trainer.kubeflow.org", "TrainJob", {"runtimeRef": runtime}, "v1alpha1")
    for ref in named_by([job], "team"):
        assert not ref.problem()
    with pytest.raises(BadManifest):
        planned(job)


def test_a_spark_application_is_its_driver_and_what_the_driver_makes() -> None:
    spec = example("operators/sparkapplication.yaml")
    found = planned(manifest("sparkoperator.k8s.io", "SparkApplication", spec, "v1beta2"))
    assert found.problems == ()
    assert len(found.jobs) == 1
    memory = sorted(int(task.request["memory"]) >> 20 for task in found.tasks)
    # What Spark asks for beside the heap is there: a tenth, at least 384 MiB.
    assert memory == [1024 + 384, 2048 + 384, 2048 + 384]
