"""JobSet makes Jobs; TrainJob makes a JobSet of a runtime's template. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count, has_finished
from muster.sim.workloads.objects import JOB, condition_of, owner_reference

JOB_SET: Final = plain_kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
TRAIN_JOB: Final = plain_kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
TRAINING_RUNTIME: Final = plain_kind(
    "trainer.kubeflow.org",
    "v1alpha1",
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    namespaced=False,
)
_PREFIX: Final = "jobset.sigs.k8s.io"
_STEP: Final = "trainer.kubeflow.org/trainjob-ancestor-step"


def job_set_children(job_set: Plain, there: Sequence[Plain]) -> list[Child]:
    """All Jobs at once; or, in order, those of the next entry when the last ones are ready."""
    spec = job_set["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    by_name = {one["metadata"]["name"]: one for one in there}
    jobs: list[Child] = []
    for entry in spec.get("replicatedJobs") or ():
        made = [_job(job_set, entry, at) for at in range(count(entry.get("replicas")))]
        jobs += made
        if in_order and not all(_has_begun(by_name.get(child.name)) for child in made):
            break
    return jobs


def job_set_state(job_set: Plain, there: Sequence[Plain]) -> tuple[str, str]:
    if any(condition_of(job, "Failed").get("status") == "True" for job in there):
        return "Failed", "a job failed"
    wanted = sum(count(one.get("replicas")) for one in job_set["spec"].get("replicatedJobs") or ())
    if wanted and len(there) >= wanted and all(has_finished(job) for job in there):
        return "Completed", "all jobs are done"
    if job_set["spec"].get("suspend"):
        return "Suspended", "the jobset is suspended"
    return "StartupPolicyCompleted", "all jobs are made"


def train_job_children(
    train_job: Plain, runtime: Mapping[str, Any] | None, there: Sequence[Plain]
) -> list[Child]:
    if runtime is None:
        return []
    spec = train_job["spec"]
    template = copied((runtime["spec"].get("template") or {}).get("spec") or {})
    for entry in template.get("replicatedJobs") or ():
        _trained(entry, spec.get("trainer") or {})
        for override in spec.get("podTemplateOverrides") or ():
            targets = [one.get("name") for one in override.get("targetJobs") or ()]
            if entry.get("name") in targets:
                _overridden(entry, override)
    if spec.get("suspend"):
        template["suspend"] = True
    meta = train_job["metadata"]
    metadata = {
        "name": meta["name"],
        "labels": {**(meta.get("labels") or {}), **(spec.get("labels") or {})},
        "annotations": dict(spec.get("annotations") or {}),
        "ownerReferences": [owner_reference(train_job, train_job["apiVersion"], "TrainJob")],
    }
    return [Child(JOB_SET, {"metadata": metadata, "spec": template})]


def train_job_state(
    train_job: Plain, runtime: Mapping[str, Any] | None, there: Sequence[Plain]
) -> tuple[str, str]:
    if runtime is None:
        return "Failed" if there else "Created", f"there is no runtime {runtime_name(train_job)}"
    for job_set in there:
        if condition_of(job_set, "Completed").get("status") == "True":
            return "Complete", "all jobs are done"
        if condition_of(job_set, "Failed").get("status") == "True":
            return "Failed", "a job failed"
    if train_job["spec"].get("suspend"):
        return "Suspended", "the TrainJob is suspended"
    return "Created", "the JobSet is made"


def runtime_name(train_job: Plain) -> str:
    return str((train_job["spec"].get("runtimeRef") or {}).get("name") or "")


def _job(job_set: Plain, entry: Mapping[str, Any], at: int) -> Child:
    name, part = job_set["metadata"]["name"], str(entry.get("name") or "")
    template = copied(entry.get("template") or {})
    labels = {
        f"{_PREFIX}/jobset-name": name,
        f"{_PREFIX}/replicatedjob-name": part,
        f"{_PREFIX}/replicatedjob-replicas": str(count(entry.get("replicas"))),
        f"{_PREFIX}/job-index": str(at),
    }
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    pod_meta = spec.setdefault("template", {}).setdefault("metadata", {})
    pod_meta["labels"] = {**(pod_meta.get("labels") or {}), **labels}
    spec["template"].setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    if job_set["spec"].get("suspend"):
        spec["suspend"] = True
    metadata = {
        "name": f"{name}-{part}-{at}",
        "labels": {**(meta.get("labels") or {}), **labels},
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [owner_reference(job_set, job_set["apiVersion"], "JobSet")],
    }
    return Child(JOB, {"metadata": metadata, "spec": spec})


def _has_begun(job: Plain | None) -> bool:
    """Whether as many pods of a Job are ready, or done, as run at once."""
    if job is None:
        return False
    status = job.get("status") or {}
    reached = int(status.get("ready") or 0) + int(status.get("succeeded") or 0)
    return reached >= count(job["spec"].get("parallelism"))


def _trained(entry: dict[str, Any], trainer: Mapping[str, Any]) -> None:
    """What the TrainJob says of its nodes, written into the runtime's job for them."""
    template = entry.setdefault("template", {})
    labels = (template.get("metadata") or {}).get("labels") or {}
    if labels.get(_STEP) != "trainer":
        return
    spec = template.setdefault("spec", {})
    if trainer.get("numNodes") is not None:
        spec["parallelism"] = spec["completions"] = count(trainer["numNodes"])
    pod = spec.setdefault("template", {}).setdefault("spec", {})
    for container in pod.get("containers") or ():
        if container.get("name") != "node":
            continue
        for name in ("image", "command", "args", "env"):
            if trainer.get(name):
                container[name] = trainer[name]
        if trainer.get("resourcesPerNode"):
            container["resources"] = trainer["resourcesPerNode"]


def _overridden(entry: dict[str, Any], override: Mapping[str, Any]) -> None:
    pod = entry["template"].setdefault("spec", {}).setdefault("template", {})
    pod["spec"] = {**(pod.get("spec") or {}), **(override.get("spec") or {})}
    meta = pod.setdefault("metadata", {})
    for name in ("labels", "annotations"):
        more = (override.get("metadata") or {}).get(name) or {}
        meta[name] = {**(meta.get(name) or {}), **more}
