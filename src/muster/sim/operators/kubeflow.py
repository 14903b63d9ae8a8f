"""PyTorchJob and MPIJob, as Kubeflow's training and MPI operators make them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count, pod_child
from muster.sim.workloads.objects import (
    JOB,
    condition_of,
    is_ready,
    owner_reference,
    phase,
)

PYTORCH_JOB: Final = plain_kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
MPI_JOB: Final = plain_kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
_PREFIX: Final = "training.kubeflow.org"
_RESTARTS: Final = {"ExitCode": "Never"}


def pytorch_children(job: Plain, there: Sequence[Plain]) -> list[Child]:
    if _is_suspended(job):
        return []
    specs = job["spec"].get("pytorchReplicaSpecs") or {}
    return [pod for role, spec in specs.items() for pod in _replicas(job, role, spec)]


def mpi_children(job: Plain, there: Sequence[Plain]) -> list[Child]:
    """Workers, and a Job for the launcher; that one last, where the job says so."""
    specs = job["spec"].get("mpiReplicaSpecs") or {}
    if _is_suspended(job):
        return []
    workers = _replicas(job, "Worker", specs["Worker"]) if "Worker" in specs else []
    waits = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    names = {child.name for child in workers}
    ready = sum(one["metadata"]["name"] in names and is_ready(one) for one in there)
    if "Launcher" not in specs or (waits and ready < len(workers) and not _launched(job, there)):
        return workers
    return [*workers, _launcher(job, specs["Launcher"])]


def pytorch_state(job: Plain, there: Sequence[Plain]) -> tuple[str, str]:
    """The master speaks for the job; where there is none, all workers do."""
    masters = [one for one in there if _role(one) == "master"]
    phases = [phase(one) for one in masters or there]
    if any(phase(one) == "Failed" for one in there):
        return "Failed", "a replica failed"
    wanted = count((_specs(job).get("Master") or {}).get("replicas"))
    wanted = wanted if masters else len(pytorch_children(job, there))
    if phases and len(phases) >= wanted and set(phases) == {"Succeeded"}:
        return "Succeeded", "the job is done"
    return _going(there)


def mpi_state(job: Plain, there: Sequence[Plain]) -> tuple[str, str]:
    """The launcher speaks for the job."""
    for launcher in (one for one in there if one["metadata"]["name"] == _launcher_name(job)):
        if condition_of(launcher, "Complete").get("status") == "True":
            return "Succeeded", "the launcher is done"
        if condition_of(launcher, "Failed").get("status") == "True":
            return "Failed", "the launcher failed"
    return _going(there)


def _going(there: Sequence[Plain]) -> tuple[str, str]:
    if any(phase(one) == "Running" for one in there):
        return "Running", "replicas run"
    return "Created", "replicas are made"


def _specs(job: Plain) -> Mapping[str, Any]:
    found: Mapping[str, Any] = job["spec"].get("pytorchReplicaSpecs") or {}
    return found


def _replicas(job: Plain, kind: str, spec: Mapping[str, Any]) -> list[Child]:
    role = kind.lower()
    template = copied(spec.get("template") or {})
    policy = str(spec.get("restartPolicy") or "OnFailure")
    template.setdefault("spec", {})["restartPolicy"] = _RESTARTS.get(policy, policy)
    name = job["metadata"]["name"]
    return [
        pod_child(job, f"{name}-{role}-{at}", template, _labels(job, role, at))
        for at in range(count(spec.get("replicas")))
    ]


def _launcher(job: Plain, spec: Mapping[str, Any]) -> Child:
    template = copied(spec.get("template") or {})
    policy = str(spec.get("restartPolicy") or "OnFailure")
    template.setdefault("spec", {})["restartPolicy"] = _RESTARTS.get(policy, policy)
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), **_labels(job, "launcher", 0)}
    metadata = {
        "name": _launcher_name(job),
        "labels": dict(job["metadata"].get("labels") or {}),
        "ownerReferences": [owner_reference(job, job["apiVersion"], job["kind"])],
    }
    return Child(JOB, {"metadata": metadata, "spec": {"template": template}})


def _launched(job: Plain, there: Sequence[Plain]) -> bool:
    return any(one["metadata"]["name"] == _launcher_name(job) for one in there)


def _launcher_name(job: Plain) -> str:
    return f"{job['metadata']['name']}-launcher"


def _labels(job: Plain, role: str, at: int) -> dict[str, str]:
    labels = {
        f"{_PREFIX}/job-name": job["metadata"]["name"],
        f"{_PREFIX}/replica-type": role,
        f"{_PREFIX}/replica-index": str(at),
    }
    if role in ("master", "launcher"):
        labels[f"{_PREFIX}/job-role"] = role
    return labels


def _role(pod: Plain) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"{_PREFIX}/replica-type", ""))


def _is_suspended(job: Plain) -> bool:
    return bool((job["spec"].get("runPolicy") or {}).get("suspend"))
