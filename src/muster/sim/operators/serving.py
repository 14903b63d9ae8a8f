"""RayCluster, RayJob and LeaderWorkerSet: pods that serve until somebody deletes them. Pure.

The RayJob of this world makes its cluster and runs on it; nothing submits, so it does not end.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count, pod_child, ready_count
from muster.sim.workloads.objects import is_ready, owner_reference

RAY_CLUSTER: Final = plain_kind("ray.io", "v1", "RayCluster", "rayclusters")
RAY_JOB: Final = plain_kind("ray.io", "v1", "RayJob", "rayjobs")
LEADER_WORKER_SET: Final = plain_kind(
    "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"
)
_LWS: Final = "leaderworkerset.sigs.k8s.io"


def ray_children(cluster: Plain, there: Sequence[Plain]) -> list[Child]:
    spec, name = cluster["spec"], cluster["metadata"]["name"]
    if spec.get("suspend"):
        return []
    head = (spec.get("headGroupSpec") or {}).get("template") or {}
    pods = [pod_child(cluster, f"{name}-head", head, _ray_labels(cluster, "head", "headgroup"))]
    for at, group in enumerate(spec.get("workerGroupSpecs") or ()):
        if group.get("suspend"):
            continue
        called = str(group.get("groupName") or f"worker-group-{at}")
        labels = _ray_labels(cluster, "worker", called)
        hosts = count(group.get("numOfHosts"))
        template = group.get("template") or {}
        pods += [
            pod_child(cluster, f"{name}-{called}-worker-{number}", template, labels)
            for number in range(count(count(group.get("replicas"), 0) * hosts))
        ]
    return pods


def ray_status(cluster: Plain, there: Sequence[Plain]) -> dict[str, Any]:
    wanted = ray_children(cluster, there)
    ready = ready_count(there)
    head = f"{cluster['metadata']['name']}-head"
    has_head = any(one["metadata"]["name"] == head and is_ready(one) for one in there)
    workers = ready - has_head
    return {
        "state": "ready" if wanted and ready == len(wanted) else None,
        "desiredWorkerReplicas": max(len(wanted) - 1, 0),
        "availableWorkerReplicas": workers,
        "readyWorkerReplicas": workers,
        "observedGeneration": cluster["metadata"].get("generation"),
    }


def ray_job_children(job: Plain, there: Sequence[Plain]) -> list[Child]:
    spec, meta = job["spec"], job["metadata"]
    if spec.get("suspend"):
        return []
    metadata = {
        "name": _cluster_of(job),
        "labels": {"ray.io/originated-from-cr-name": meta["name"]},
        "ownerReferences": [owner_reference(job, job["apiVersion"], "RayJob")],
    }
    return [Child(RAY_CLUSTER, {"metadata": metadata, "spec": copied(spec["rayClusterSpec"])})]


def ray_job_status(job: Plain, there: Sequence[Plain]) -> dict[str, Any]:
    cluster = there[0] if there else None
    is_ready_now = ((cluster or {}).get("status") or {}).get("state") == "ready"
    return {
        "rayClusterName": None if job["spec"].get("suspend") else _cluster_of(job),
        "jobDeploymentStatus": "Running" if is_ready_now else "Initializing",
        "jobStatus": "RUNNING" if is_ready_now else "PENDING",
        "observedGeneration": job["metadata"].get("generation"),
    }


def _cluster_of(job: Plain) -> str:
    return f"{job['metadata']['name']}-cluster"


def lws_children(lws: Plain, there: Sequence[Plain]) -> list[Child]:
    """Groups of a leader and its workers; workers after their leader, where the set says so."""
    spec = lws["spec"]
    pattern = spec.get("leaderWorkerTemplate") or {}
    size = count(pattern.get("size"))
    worker = pattern.get("workerTemplate") or {}
    leader = pattern.get("leaderTemplate") or worker
    ready = {one["metadata"]["name"] for one in there if is_ready(one)}
    waits = spec.get("startupPolicy") == "LeaderReady"
    pods: list[Child] = []
    groups = count(spec.get("replicas"))
    for group in range(min(groups, PODS_PER_WORKLOAD_MAX // max(size, 1))):
        first = _member(lws, leader, group, 0, size)
        pods.append(first)
        if not waits or first.name in ready or _has_workers(first.name, there):
            pods += [_member(lws, worker, group, at, size) for at in range(1, size)]
    return pods


def lws_status(lws: Plain, there: Sequence[Plain]) -> dict[str, Any]:
    size = count((lws["spec"].get("leaderWorkerTemplate") or {}).get("size"))
    ready: dict[str, int] = {}
    for pod in there:
        group = (pod["metadata"].get("labels") or {}).get(f"{_LWS}/group-index", "")
        ready[group] = ready.get(group, 0) + is_ready(pod)
    whole = sum(found >= size for found in ready.values())
    return {"replicas": len(ready), "readyReplicas": whole, "updatedReplicas": len(ready)}


def _has_workers(leader: str, there: Sequence[Plain]) -> bool:
    return any(one["metadata"]["name"].startswith(f"{leader}-") for one in there)


def _member(lws: Plain, template: Mapping[str, Any], group: int, at: int, size: int) -> Child:
    name = lws["metadata"]["name"]
    labels = {
        f"{_LWS}/name": name,
        f"{_LWS}/group-index": str(group),
        f"{_LWS}/worker-index": str(at),
    }
    made = copied(template)
    meta = made.setdefault("metadata", {})
    meta["annotations"] = {**(meta.get("annotations") or {}), f"{_LWS}/size": str(size)}
    called = f"{name}-{group}" if at == 0 else f"{name}-{group}-{at}"
    return pod_child(lws, called, made, labels)


def _ray_labels(cluster: Plain, role: str, group: str) -> dict[str, str]:
    return {
        "ray.io/cluster": cluster["metadata"]["name"],
        "ray.io/node-type": role,
        "ray.io/group": group,
        "ray.io/is-ray-node": "yes",
    }
