"""Kubeflow's training jobs: a gang of all replicas unless the job names a smaller minimum."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import BUILD, base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object
from muster.services.podgrouper.groupers.workload import Workload

_JOB_NAME = "training.kubeflow.org/job-name"


def group_tf_job(workload: Workload) -> Group:
    return _gang(workload, "tfReplicaSpecs")


def group_xgboost_job(workload: Workload) -> Group:
    return _gang(workload, "xgbReplicaSpecs", ("Master", "Worker"))


def group_jax_job(workload: Workload) -> Group:
    return _gang(workload, "jaxReplicaSpecs", ("Worker",))


def group_mpi_job(workload: Workload) -> Group:
    """As the others; a launcher that is created last does not hold up its workers, also where the
    job says its minimum: it counts the launcher.
    """
    job = workload.top
    minimum = _minimum(job, "mpiReplicaSpecs", ("Launcher", "Worker"))
    waits = fields.text(job, "spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    absent = _launchers(job) if waits and not _has_launcher(workload) else 0
    return replace(base_group(workload, job), min_member=minimum - absent)


def group_notebook(workload: Workload) -> Group:
    return base_group(workload, workload.top, BUILD)


def declared_minimum(job: Object) -> int | None:
    return fields.integer(job, "spec", "runPolicy", "schedulingPolicy", "minAvailable")


def replica_specs(job: Object, field: str, mandatory: Sequence[str] = ()) -> Mapping[str, Any]:
    """The job's replica types, with the mandatory ones there."""
    specs = fields.mapping(job, "spec", field)
    if specs is None:
        raise GroupingError(
            f"the type of the job {fields.name_of(job)} doesn't have a {field} field. "
            "Please fix the replica field"
        )
    for kind in mandatory:
        if kind not in specs:
            raise GroupingError(
                f"the type of the job {fields.name_of(job)} doesn't have a {kind} replica spec "
                "which is required. Please fix the replica field"
            )
    return specs


def replica_counts(job: Object, field: str, mandatory: Sequence[str] = ()) -> dict[str, int]:
    """How many pods of each type the job wants; none may be zero."""
    specs = replica_specs(job, field, mandatory)
    counts = {kind: fields.integer(job, "spec", field, kind, "replicas") or 0 for kind in specs}
    for kind in sorted(counts):
        if counts[kind] == 0:
            raise _no_pods(job, kind)
    if (total := sum(counts.values())) <= 0:
        raise GroupingError(
            "failed calculate number of pods for a distributed job "
            f"{fields.name_of(job)}. Must be greater than 0, but got {total}",
            f"give each type in spec.{field} the replicas that it is to have",
        )
    return counts


def _gang(workload: Workload, field: str, mandatory: Sequence[str] = ()) -> Group:
    job = workload.top
    return replace(base_group(workload, job), min_member=_minimum(job, field, mandatory))


def _minimum(job: Object, field: str, mandatory: Sequence[str]) -> int:
    """Who says it is not asked for replicas, whose defaults his operator may know."""
    declared = declared_minimum(job)
    return sum(replica_counts(job, field, mandatory).values()) if declared is None else declared


def _launchers(job: Object) -> int:
    found = fields.integer(job, "spec", "mpiReplicaSpecs", "Launcher", "replicas")
    if not found:
        raise _no_pods(job, "mpiReplicaSpecs")
    return found


def _no_pods(job: Object, what: str) -> GroupingError:
    return GroupingError(
        f"the type of the job {fields.name_of(job)} doesn't allow for 0 {what} pods. "
        "Please fix the replica field"
    )


def _has_launcher(workload: Workload) -> bool:
    wanted = {_JOB_NAME: fields.name_of(workload.top), names.LABEL_KUBEFLOW_ROLE: "launcher"}
    pods = workload.reads.pods(fields.namespace_of(workload.pod), wanted)
    return any(not pod["metadata"].get("deletionTimestamp") for pod in pods)
