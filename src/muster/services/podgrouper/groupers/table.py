"""Which grouper serves which kind of top owner. One table; a new kind is a new line."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.api import names
from muster.api.bounds import COUNT_MAX, SUB_GROUPS_MAX
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.batch import (
    group_cron_job,
    group_job,
    group_runai_job,
)
from muster.services.podgrouper.groupers.default import group_by_top_owner
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object
from muster.services.podgrouper.groupers.grove import group_pod_gang
from muster.services.podgrouper.groupers.job_set import group_job_set
from muster.services.podgrouper.groupers.karta import group_by_karta, karta_of
from muster.services.podgrouper.groupers.knative import group_knative_service
from muster.services.podgrouper.groupers.kubeflow import (
    group_jax_job,
    group_mpi_job,
    group_notebook,
    group_tf_job,
    group_xgboost_job,
)
from muster.services.podgrouper.groupers.leader_worker_set import group_leader_worker_set
from muster.services.podgrouper.groupers.native import group_natively, is_native
from muster.services.podgrouper.groupers.others import group_aml_job, group_spot_request
from muster.services.podgrouper.groupers.pods import group_deployment, group_pod
from muster.services.podgrouper.groupers.pytorch import group_pytorch_job
from muster.services.podgrouper.groupers.ray import (
    group_ray_cluster,
    group_ray_job,
    group_ray_service,
)
from muster.services.podgrouper.groupers.rules import group_by_rule, rule_of
from muster.services.podgrouper.groupers.workload import Grouper, ObjectRef, Workload

_ANY = "*"


def group_of(workload: Workload) -> Group | None:
    """The group of a pod: as it says itself, or by its kind: a grouper, a rule, a Karta."""
    try:
        group = _group_of(workload)
        return None if group is None else _within_bounds(group)
    except (AttributeError, LookupError, TypeError, ValueError) as misshapen:
        # Nothing checks the objects of other people's kinds: any field may hold anything.
        what = f"{workload.top.get('kind')} {fields.key_of(workload.top)}"
        raise GroupingError(
            f"{what} is not shaped as its kind says: {misshapen}; compare it with the kind's schema"
        ) from misshapen


def _within_bounds(group: Group) -> Group:
    """The group, unless its numbers are such that no pod group can have them."""
    minimums = [("", group.min_member)]
    minimums += [(f" of sub-group {part.name}", part.min_member) for part in group.sub_groups]
    for where, minimum in minimums:
        if minimum is not None and minimum > COUNT_MAX:
            raise GroupingError(
                f"minMember{where} would be {minimum}, more than the {COUNT_MAX} allowed; "
                "lower the numbers of the workload that it is made of"
            )
    if len(group.sub_groups) > SUB_GROUPS_MAX:
        raise GroupingError(
            f"it would have {len(group.sub_groups)} sub-groups, more than the {SUB_GROUPS_MAX} "
            "allowed; make several workloads of it"
        )
    return group


def _group_of(workload: Workload) -> Group | None:
    if is_native(workload.pod):
        return group_natively(workload)
    group, version = fields.group_version(workload.top)
    kind = str(workload.top.get("kind") or "")
    grouper = TABLE.get((group, version, kind)) or TABLE.get((group, _ANY, kind))
    if grouper:
        return grouper(workload)
    rule = rule_of(workload)
    if rule:
        return group_by_rule(workload, rule)
    karta = karta_of(workload)
    return group_by_karta(workload, karta) if karta else group_by_top_owner(workload)


def group_below_top_owner(workload: Workload) -> Group | None:
    """For kinds that only wrap another: group by what is below, with the wrapper's metadata."""
    skipped, below = workload.top, workload.owners[:-1]
    delegate = _full_owner(workload, below[-1]) if below else {**_POD, **workload.pod}
    merged = _with_gaps_filled(workload, delegate, skipped)
    owners = [*below[:-1], merged] if below else []
    # As in the original, a Karta describes top owners only.
    settings = replace(workload.settings, uses_kartas=False)
    inner = Workload(workload.pod, merged, owners, workload.reads, settings)
    return group_of(inner)


_POD = {"apiVersion": "v1", "kind": "Pod"}


def _full_owner(workload: Workload, owner: Object) -> Object:
    namespace = fields.namespace_of(workload.pod)
    ref = ObjectRef(owner["apiVersion"], owner["kind"], namespace, fields.name_of(owner))
    return workload.reads.get(ref) or owner


def _with_gaps_filled(workload: Workload, delegate: Object, skipped: Object) -> dict[str, Any]:
    metadata = dict(delegate["metadata"])
    defaults = _defaults_as_labels(workload, skipped)
    # Whoever speaks explicitly, the skipped owner and the pod included, beats a default of a kind.
    spoken = {**fields.labels(workload.pod), **fields.labels(skipped), **fields.labels(delegate)}
    quiet = {key: value for key, value in defaults.items() if key not in spoken}
    metadata["labels"] = {**quiet, **fields.labels(skipped), **fields.labels(delegate)}
    metadata["annotations"] = {**fields.annotations(skipped), **fields.annotations(delegate)}
    return {**delegate, "metadata": metadata}


def _defaults_as_labels(workload: Workload, skipped: Object) -> Mapping[str, str]:
    defaults = workload.settings.defaults_of(skipped)
    found = {}
    if defaults and workload.reads.has_priority_class(defaults.priority_class):
        found[names.LABEL_PRIORITY_CLASS] = defaults.priority_class
    if defaults and defaults.preemptibility:
        found[names.LABEL_PREEMPTIBILITY] = defaults.preemptibility.lower()
    return found


TABLE: Mapping[tuple[str, str, str], Grouper] = {
    ("", "v1", "Pod"): group_pod,
    ("apps", "v1", "Deployment"): group_deployment,
    ("apps", "v1", "ReplicaSet"): group_by_top_owner,
    ("apps", "v1", "StatefulSet"): group_by_top_owner,
    ("batch", "v1", "Job"): group_job,
    ("batch", "v1", "CronJob"): group_cron_job,
    ("run.ai", "v1", "RunaiJob"): group_runai_job,
    ("jobset.x-k8s.io", "v1alpha2", "JobSet"): group_job_set,
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"): group_leader_worker_set,
    ("kubeflow.org", "v1", "TFJob"): group_tf_job,
    ("kubeflow.org", "v1", "XGBoostJob"): group_xgboost_job,
    ("kubeflow.org", "v1", "JAXJob"): group_jax_job,
    ("kubeflow.org", "v1", "MPIJob"): group_mpi_job,
    ("kubeflow.org", "v2beta1", "MPIJob"): group_mpi_job,
    ("kubeflow.org", "v1", "PyTorchJob"): group_pytorch_job,
    ("kubeflow.org", "v1beta1", "Notebook"): group_notebook,
    ("kubeflow.org", "v1alpha1", "ScheduledWorkflow"): group_by_top_owner,
    ("amlarc.azureml.com", "v1alpha1", "AmlJob"): group_aml_job,
    ("serving.knative.dev", "v1", "Service"): group_knative_service,
    ("ray.io", "v1", "RayCluster"): group_ray_cluster,
    ("ray.io", "v1alpha1", "RayCluster"): group_ray_cluster,
    ("ray.io", "v1", "RayJob"): group_ray_job,
    ("ray.io", "v1alpha1", "RayJob"): group_ray_job,
    ("ray.io", "v1", "RayService"): group_ray_service,
    ("ray.io", "v1alpha1", "RayService"): group_ray_service,
    ("egx.nvidia.io", "v1", "SPOTRequest"): group_spot_request,
    ("grove.io", "v1alpha1", "PodGangSet"): group_pod_gang,
    ("grove.io", "v1alpha1", "PodCliqueSet"): group_pod_gang,
    ("machinelearning.seldon.io", "v1", "SeldonDeployment"): group_by_top_owner,
    ("machinelearning.seldon.io", "v1alpha2", "SeldonDeployment"): group_by_top_owner,
    ("kubevirt.io", "v1", "VirtualMachineInstance"): group_by_top_owner,
    ("workspace.devfile.io", "v1alpha2", "DevWorkspace"): group_by_top_owner,
    ("tekton.dev", "v1", "PipelineRun"): group_by_top_owner,
    ("tekton.dev", "v1", "TaskRun"): group_by_top_owner,
    ("argoproj.io", "v1alpha1", "Workflow"): group_below_top_owner,
    ("trainer.kubeflow.org", "v1alpha1", "TrainJob"): group_below_top_owner,
    ("nvidia.com", _ANY, "DynamoGraphDeployment"): group_below_top_owner,
    ("run.ai", _ANY, "TrainingWorkload"): group_below_top_owner,
    ("run.ai", _ANY, "InteractiveWorkload"): group_below_top_owner,
    ("run.ai", _ANY, "DistributedWorkload"): group_below_top_owner,
    ("run.ai", _ANY, "InferenceWorkload"): group_below_top_owner,
    ("run.ai", _ANY, "DistributedInferenceWorkload"): group_below_top_owner,
}
