"""The objects that a `Submit` stands for. Pure."""

from typing import Any, Final

from muster.api import kinds
from muster.api.kinds import Kind
from muster.client.kinds import Plain, plain_kind, plainly
from muster.lab.simulate.story import QueuePlan, Submit
from muster.sim.kubelet.stages import RUN_TIME

HOME: Final = "default"
DRIVER: Final = "gpu.example.com"
RACK: Final = "example.com/rack"
MIG: Final = "1g.10gb"
APP: Final = "app"
CLAIMS_ONLY: Final = {"key": "example.com/claims", "effect": "NoSchedule"}
"""The taint of nodes whose devices are only claimed."""

POD: Final = plainly(kinds.POD)
NODE: Final = plainly(kinds.NODE)
QUEUE: Final = plainly(kinds.QUEUE)
POD_GROUP: Final = plainly(kinds.POD_GROUP)
TOPOLOGY: Final = plainly(kinds.TOPOLOGY)
CLAIM: Final = plainly(kinds.PERSISTENT_VOLUME_CLAIM)
BUDGET: Final = plainly(kinds.POD_DISRUPTION_BUDGET)
JOB: Final = plain_kind("batch", "v1", "Job", "jobs")
DEPLOYMENT: Final = plain_kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET: Final = plain_kind("apps", "v1", "StatefulSet", "statefulsets")
STORAGE_CLASS: Final = plainly(kinds.STORAGE_CLASS)
DEVICE_CLASS: Final = plainly(kinds.DEVICE_CLASS)
CLAIM_TEMPLATE: Final = plain_kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
CONFIG_MAP: Final = plainly(kinds.CONFIG_MAP)

# Those that make pods of their own accord, by the kind that a story names.
CONTROLLED: Final = {"job": JOB, "deployment": DEPLOYMENT, "statefulset": STATEFUL_SET}
Made = tuple[Kind[Plain], Plain]


def objects_of(work: Submit) -> list[Made]:
    """Everything that has to be created, in order."""
    made = _claims(work)
    match work.kind:
        case "job":
            return [*made, (JOB, _job(work))]
        case "deployment" | "statefulset":
            return [*made, (CONTROLLED[work.kind], _replicated(work))]
        case "groups":
            return [*made, *_sub_groups(work)]
    return [*made, *((POD, _pod(work, name)) for name in pod_names(work))]


def pod_names(work: Submit) -> list[str]:
    """The pods that somebody makes by hand."""
    if work.kind in CONTROLLED:
        return []
    if work.pods == 1:
        return [work.name]
    return [f"{work.name}-{number}" for number in range(work.pods)]


def queue_body(queue: QueuePlan) -> Plain:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": queue.gpus, "limit": queue.limit, "overQuotaWeight": 1}
    spec: dict[str, Any] = {"resources": {"cpu": free, "memory": free, "gpu": gpu}}
    if queue.parent:
        spec["parentQueue"] = queue.parent
    return {"metadata": {"name": queue.name}, "spec": spec}


def cluster_objects() -> list[Made]:
    """What workloads refer to."""
    storage = {"provisioner": "disks.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    exactly = {"deviceClassName": DRIVER}
    wanted = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    return [
        (STORAGE_CLASS, {"metadata": {"name": "disks"}, **storage}),
        (DEVICE_CLASS, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}),
        (CLAIM_TEMPLATE, {"metadata": {"name": "one-gpu"}, "spec": {"spec": wanted}}),
        (TOPOLOGY, {"metadata": {"name": "datacenter"}, "spec": {"levels": levels}}),
    ]


def budget_body(name: str, app: str, at_least: int) -> Plain:
    spec = {"minAvailable": at_least, "selector": {"matchLabels": {APP: app}}}
    return {"metadata": {"name": name}, "spec": spec}


def _labels(work: Submit) -> dict[str, str]:
    labels = {"kai.scheduler/queue": work.queue, APP: work.name}
    if work.priority:
        labels["priorityClassName"] = work.priority
    if work.preemptibility:
        labels["kai.scheduler/preemptibility"] = work.preemptibility
    return labels


def _notes(work: Submit) -> dict[str, str]:
    """Annotations of pods."""
    how, _, much = work.asks.partition(":")
    notes = {"fraction": {"gpu-fraction": much}, "memory": {"gpu-memory": much}}.get(how, {})
    if work.runs_s:
        notes = {**notes, RUN_TIME: f"{work.runs_s:g}s"}
    return notes


def _group_notes(work: Submit) -> dict[str, str]:
    """Annotations of the workload."""
    notes = {"kai.scheduler/batch-min-member": str(work.minimum or work.pods)}
    if work.rack:
        notes["kai.scheduler/topology"] = "datacenter"
        notes["kai.scheduler/topology-required-placement"] = RACK
    return notes


def _container(work: Submit) -> dict[str, Any]:
    how, _, much = work.asks.partition(":")
    limits = {"cpu": "1"}
    match how:
        case "gpu":
            limits["nvidia.com/gpu"] = much
        case "mig":
            limits[f"nvidia.com/mig-{MIG}"] = much
        case "cpu":
            limits["cpu"] = much
    resources: dict[str, Any] = {"limits": limits}
    if how == "claim":
        resources["claims"] = [{"name": "gpu"}]
    return {"name": "main", "image": "work", "resources": resources}


def _spec(work: Submit, restart: str = "Never") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": restart,
        "containers": [_container(work)],
    }
    if work.asks == "claim":
        spec["tolerations"] = [{**CLAIMS_ONLY, "operator": "Exists"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    if work.volume:
        source = {"persistentVolumeClaim": {"claimName": _claim_name(work)}}
        spec["volumes"] = [{"name": "data", **source}]
    return spec


def _pod(work: Submit, name: str) -> Plain:
    metadata = {"name": name, "labels": _labels(work), "annotations": _notes(work)}
    return {"metadata": metadata, "spec": _spec(work)}


def _template(work: Submit, restart: str) -> Plain:
    metadata = {"labels": _labels(work), "annotations": _notes(work)}
    return {"metadata": metadata, "spec": _spec(work, restart)}


def _job(work: Submit) -> Plain:
    return {
        "metadata": {
            "name": work.name,
            "labels": _labels(work),
            "annotations": _group_notes(work),
        },
        "spec": {
            "parallelism": work.pods,
            "completions": work.pods,
            "backoffLimit": 1000,
            "template": _template(work, "Never"),
        },
    }


def _replicated(work: Submit) -> Plain:
    selector = {"matchLabels": {APP: work.name}}
    spec = {"replicas": work.pods, "selector": selector, "template": _template(work, "Always")}
    if work.kind == "statefulset":
        spec |= {"serviceName": work.name, "podManagementPolicy": "Parallel"}
    return {"metadata": {"name": work.name, "labels": _labels(work)}, "spec": spec}


def _sub_groups(work: Submit) -> list[Made]:
    """A leader and workers, of which each part needs all of its pods."""
    parts = [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": work.pods - 1}]
    spec: dict[str, Any] = {"minMember": work.pods, "queue": work.queue, "subGroups": parts}
    if work.priority:
        spec["priorityClassName"] = work.priority
    if work.preemptibility:
        spec["preemptibility"] = work.preemptibility
    group = {"metadata": {"name": work.name, "labels": _labels(work)}, "spec": spec}
    made: list[Made] = [(POD_GROUP, group)]
    for number, name in enumerate(pod_names(work)):
        pod = _pod(work, name)
        pod["metadata"]["annotations"]["pod-group-name"] = work.name
        part = "workers" if number else "leader"
        pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] = part
        made.append((POD, pod))
    return made


def _claim_name(work: Submit) -> str:
    return f"{work.name}-data" if work.volume == "own" else work.volume


def _claims(work: Submit) -> list[Made]:
    if not work.volume:
        return []
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return [(CLAIM, {"metadata": {"name": _claim_name(work)}, "spec": spec})]
