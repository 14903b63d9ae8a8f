"""ReplicaSet: as many pods as spec.replicas. Pure."""

from collections.abc import Sequence
from typing import Any

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.client.kinds import Plain, header
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, status_patch
from muster.sim.workloads.objects import (
    POD,
    REPLICA_SET,
    available_in_s,
    created_s,
    is_active,
    is_ready,
    is_terminating,
    owner_reference,
    phase,
    pod_of,
)

# Kubernetes makes at most this many at a time.
_BURST = 500


def decide(
    replica_set: Plain, pods: Sequence[Plain], now_s: float
) -> tuple[list[Action], float | None]:
    """What to do about a replica set and its pods, and after how long to requeue."""
    spec = replica_set["spec"]
    active = [pod for pod in pods if is_active(pod)]
    actions: list[Action] = []
    if not is_terminating(replica_set):
        actions += _scaled(replica_set, active, int(spec.get("replicas", 1)))
    min_ready_s = float(spec.get("minReadySeconds") or 0)
    waits = [available_in_s(pod, min_ready_s, now_s) for pod in active]
    going = sum(is_terminating(pod) for pod in pods)
    status = _status(replica_set, active, waits) | {"terminatingReplicas": going}
    actions += status_patch(REPLICA_SET, replica_set, status)
    return actions, min((wait for wait in waits if wait), default=None)


def surplus(pods: Sequence[Plain], count: int) -> list[Plain]:
    """Which pods go first: those on no node, not running, not ready, youngest."""
    ranked = sorted(
        pods,
        key=lambda pod: (
            bool(pod["spec"].get("nodeName")),
            phase(pod) == "Running",
            is_ready(pod),
            -created_s(pod),
            str(pod["metadata"]["name"]),
        ),
    )
    return ranked[:count]


def _scaled(replica_set: Plain, active: Sequence[Plain], wanted: int) -> list[Action]:
    missing = min(wanted, PODS_PER_WORKLOAD_MAX) - len(active)
    namespace = replica_set["metadata"]["namespace"]
    if missing > 0:
        reference = owner_reference(replica_set, "apps/v1", "ReplicaSet")
        template = replica_set["spec"].get("template") or {}
        made = [pod_of(replica_set, reference, template) for _ in range(min(missing, _BURST))]
        return [CreateAction(POD, pod, namespace) for pod in made]
    return [
        DeleteAction(POD, header(pod).key, pod["metadata"]["uid"])
        for pod in surplus(active, -missing)
    ]


def _status(
    replica_set: Plain, active: Sequence[Plain], waits: Sequence[float | None]
) -> dict[str, Any]:
    labels = (replica_set["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
    labelled = [
        pod for pod in active if labels.items() <= (pod["metadata"].get("labels") or {}).items()
    ]
    counts = {
        "fullyLabeledReplicas": len(labelled),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(wait == 0.0 for wait in waits),
    }
    status: dict[str, Any] = {name: count or None for name, count in counts.items()}
    status["replicas"] = len(active)
    status["observedGeneration"] = replica_set["metadata"].get("generation")
    return status
