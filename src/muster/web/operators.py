"""Kinds whose pods their operator describes: what each makes of one object. Pure.

Those whose pods are told apart by what their operator writes on them, or that make other objects
first, are made as the operators of the simulated world make them; what those look like stands
there once. Of those that only their operator can take apart it is said what to plan instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.sim.operators import grove, knative
from muster.sim.operators.children import Child, count
from muster.sim.operators.job_sets import job_set_children, runtime_name, train_job_children
from muster.sim.operators.serving import lws_children, ray_children, ray_job_children
from muster.sim.operators.spark import spark_children
from muster.sim.workloads.objects import JOB, owner_reference

Parts = Iterable[tuple[Any, int]]
Made = tuple[Sequence[Child], Mapping[str, Any]]
Find = Callable[[ObjectRef], Object]
"""An object that another is made of."""

_TRAINER: Final = "trainer.kubeflow.org"


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator does about one object of its kind."""

    parts: Callable[[Any], Parts]
    """Parts of the object, and how often each is in what it makes."""
    children: Callable[[Any, Find], Made]
    """What it makes, and what it then writes into the status."""
    unplanned: Callable[[Any], str] = lambda _: ""
    """What of the object is left out of a plan; "": nothing."""


def described_elsewhere(group: str, kind: str) -> str:
    """Of a kind whose pods nobody but its operator can describe: what to plan instead."""
    return _ELSEWHERE.get((group, kind), "")


def runtime_of(train_job: Any) -> ObjectRef:
    """What a TrainJob is made of."""
    named = train_job["spec"].get("runtimeRef") or {}
    kind = str(named.get("kind") or "ClusterTrainingRuntime")
    namespace = "" if kind.startswith("Cluster") else train_job["metadata"]["namespace"]
    return ObjectRef(f"{_TRAINER}/v1alpha1", kind, namespace, runtime_name(train_job))


def _only(children: Callable[[Any], Sequence[Child]]) -> Callable[[Any, Find], Made]:
    """Of an operator that needs nothing else and whose status nobody looks at."""
    return lambda one, _: (children(one), {})


def _itself(one: Any) -> Parts:
    return [(one["spec"], 1)]


def _cron_job(cron: Any) -> Sequence[Child]:
    """One run of it."""
    template = cron["spec"]["jobTemplate"]
    metadata = {
        **(template.get("metadata") or {}),
        "name": f"{cron['metadata']['name']}-1",
        "ownerReferences": [owner_reference(cron, cron["apiVersion"], cron["kind"])],
    }
    return [Child(JOB, {"metadata": metadata, "spec": template["spec"]})]


def _of_job_set(job_set: Any) -> Parts:
    entries = job_set["spec"].get("replicatedJobs") or ()
    return [(entry, count(entry.get("replicas"))) for entry in entries]


def _train_job(train_job: Any, find: Find) -> Made:
    return train_job_children(train_job, find(runtime_of(train_job)), ()), {}


def _of_lws(lws: Any) -> Parts:
    pattern = lws["spec"].get("leaderWorkerTemplate") or {}
    return [(pattern, count(lws["spec"].get("replicas")) * count(pattern.get("size")))]


def _of_ray_cluster(cluster: Any) -> Parts:
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    return [
        (cluster["spec"].get("headGroupSpec"), 1),
        *((one, count(one.get("replicas"), 0) * count(one.get("numOfHosts"))) for one in groups),
    ]


def _ray_service(service: Any, _: Find) -> Made:
    job = {**service, "spec": {"rayClusterSpec": service["spec"]["rayClusterConfig"]}}
    (cluster,) = ray_job_children(job, ())
    return [cluster], {"activeServiceStatus": {"rayClusterName": cluster.name}}


def _ray_job(job: Any, _: Find) -> Made:
    (cluster,) = ray_job_children(job, ())
    return [cluster], {"rayClusterName": cluster.name}


def _of_spark(app: Any) -> Parts:
    executor = app["spec"].get("executor") or {}
    return [(app["spec"].get("driver"), 1), (executor, count(executor.get("instances")))]


def _spark(app: Any) -> Sequence[Child]:
    """With the executors, which come when the driver runs."""
    (driver,) = spark_children(app, ())
    metadata = {**driver.body["metadata"], "uid": f"{app['metadata']['uid']}-0"}
    return spark_children(app, [{**driver.body, "metadata": metadata, "status": _RUNNING}])


_RUNNING: Final = {"phase": "Running"}


def _of_revision(revision: Any) -> Parts:
    return [(revision["spec"], knative.first_scale(revision["metadata"]["annotations"]))]


def _of_set(pod_clique_set: Any) -> Parts:
    return ((one.template, one.pods) for one in grove.cliques_of(pod_clique_set))


def _of_clique(clique: Any) -> Parts:
    return [(clique["spec"], count(clique["spec"].get("replicas")))]


def _grove_topology(pod_clique_set: Any) -> str:
    template = pod_clique_set["spec"].get("template") or {}
    groups = template.get("podCliqueScalingGroups") or ()
    parts = (template, *(template.get("cliques") or ()), *groups)
    if not any(one.get("topologyConstraint") for one in parts):
        return ""
    return (
        "topologyConstraint: which labels its domains stand for is known to Grove alone; planned "
        "is where its pods go without it"
    )


_SET: Final = Operator(_of_set, _only(grove.set_children), _grove_topology)
OPERATORS: Final[Mapping[tuple[str, str], Operator]] = {
    ("batch", "CronJob"): Operator(_itself, _only(_cron_job)),
    ("jobset.x-k8s.io", "JobSet"): Operator(
        _of_job_set, _only(lambda one: job_set_children(one, ()))
    ),
    (_TRAINER, "TrainJob"): Operator(_itself, _train_job),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Operator(
        _of_lws, _only(lambda one: lws_children(one, ()))
    ),
    ("ray.io", "RayCluster"): Operator(_of_ray_cluster, _only(lambda one: ray_children(one, ()))),
    ("ray.io", "RayJob"): Operator(_itself, _ray_job),
    ("ray.io", "RayService"): Operator(_itself, _ray_service),
    ("sparkoperator.k8s.io", "SparkApplication"): Operator(_of_spark, _only(_spark)),
    ("serving.knative.dev", "Service"): Operator(
        _itself, _only(lambda one: [knative.revision_of(one)])
    ),
    ("serving.knative.dev", "Revision"): Operator(
        _of_revision, _only(lambda one: [knative.deployment_of(one)])
    ),
    ("grove.io", "PodCliqueSet"): _SET,
    ("grove.io", "PodGangSet"): _SET,
    ("grove.io", "PodClique"): Operator(_of_clique, _only(grove.clique_children)),
}

BLUEPRINTS: Final = frozenset({(_TRAINER, "ClusterTrainingRuntime"), (_TRAINER, "TrainingRuntime")})
"""Kinds that others are made of, and that make nothing by themselves."""

_A_POD: Final = "plan one of the pods that it makes (kubectl get pod NAME -o yaml)"
_STEP: Final = "its steps come while it runs: plan the pod of its largest step"
_RUN_AI: Final = "plan the RunaiJob, or one of the pods, that is made of it"
_ELSEWHERE: Final[Mapping[tuple[str, str], str]] = {
    ("argoproj.io", "Workflow"): _STEP,
    ("kubeflow.org", "ScheduledWorkflow"): _STEP,
    ("tekton.dev", "PipelineRun"): _STEP,
    ("tekton.dev", "TaskRun"): _A_POD,
    ("amlarc.azureml.com", "AmlJob"): _A_POD,
    ("egx.nvidia.io", "SPOTRequest"): _A_POD,
    ("kubevirt.io", "VirtualMachineInstance"): (
        "plan the pod virt-launcher-... that it makes (kubectl get pod NAME -o yaml)"
    ),
    ("workspace.devfile.io", "DevWorkspace"): "plan the Deployment that it makes",
    ("nvidia.com", "DynamoGraphDeployment"): (
        "plan the PodCliqueSet that is made of it (kubectl get podcliqueset -o yaml)"
    ),
    ("run.ai", "TrainingWorkload"): _RUN_AI,
    ("run.ai", "InteractiveWorkload"): _RUN_AI,
    ("run.ai", "DistributedWorkload"): _RUN_AI,
    ("run.ai", "InferenceWorkload"): _RUN_AI,
    ("run.ai", "DistributedInferenceWorkload"): _RUN_AI,
}
