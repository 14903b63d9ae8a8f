"""Node lifecycle: silent nodes are marked and tainted, and their pods go after a while. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain, header
from muster.client.write import PatchType
from muster.sim.workloads.actions import Action, DeleteAction, PatchAction
from muster.sim.workloads.objects import (
    NODE,
    POD,
    condition_of,
    created_s,
    is_terminating,
    seconds_of,
)

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_OURS: Final = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE})
# Beyond the lease's own time, as Kubernetes allows.
_PATIENCE_S: Final = 10.0


def decide(
    node: Plain, lease: Plain | None, pods: Sequence[Plain], now_s: float
) -> tuple[list[Action], float | None]:
    """What to do about a node and the pods on it, and after how long to requeue."""
    silent_in_s = _silent_in_s(node, lease, now_s)
    is_silent = silent_in_s is not None and silent_in_s <= 0
    actions: list[Action] = []
    ready = str(condition_of(node, "Ready").get("status") or "Unknown")
    if is_silent and ready != "Unknown":
        actions.append(_unknown(node, now_s))
        ready = "Unknown"
    taints = _taints(node, ready, now_s)
    if taints != (node["spec"].get("taints") or []):
        patch = {"spec": {"taints": taints or None}}
        actions.append(PatchAction(NODE, header(node).key, patch))
    evictions, evict_in_s = _evictions(taints, pods, now_s)
    waits = [wait for wait in (silent_in_s, evict_in_s) if wait is not None and wait > 0]
    return [*actions, *evictions], min(waits, default=None)


def orphans(pods: Sequence[Plain], node_names: frozenset[str]) -> list[Action]:
    """Pods on nodes that are no more are deleted at once: nobody else can."""
    return [
        DeleteAction(POD, header(pod).key, pod["metadata"]["uid"], grace_s=0)
        for pod in pods
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in node_names
    ]


def _silent_in_s(node: Plain, lease: Plain | None, now_s: float) -> float | None:
    """When the node counts as silent; None when it never had a lease."""
    spec = (lease or {}).get("spec") or {}
    if not spec.get("renewTime"):
        return None
    allowed_s = float(spec.get("leaseDurationSeconds") or 40) + _PATIENCE_S
    return seconds_of(spec["renewTime"]) + allowed_s - now_s


def _unknown(node: Plain, now_s: float) -> Action:
    entry = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": rfc3339(now_s),
    }
    status = {"status": {"conditions": [entry]}}
    return PatchAction(NODE, header(node).key, status, "status", PatchType.STRATEGIC)


def _taints(node: Plain, ready: str, now_s: float) -> list[dict[str, Any]]:
    """The taints that the node should have: ours by its conditions, all others as they are."""
    old = [dict(taint) for taint in node["spec"].get("taints") or ()]
    wanted = []
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted = [(key, "NoSchedule"), (key, "NoExecute")]
    if node["spec"].get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    kept = [
        taint
        for taint in old
        if taint["key"] not in _OURS or (taint["key"], taint["effect"]) in wanted
    ]
    present = {(taint["key"], taint["effect"]) for taint in kept}
    new = [
        {"key": key, "effect": effect, "timeAdded": rfc3339(now_s)}
        for key, effect in wanted
        if (key, effect) not in present
    ]
    return kept + new


def _evictions(
    taints: Sequence[Mapping[str, Any]], pods: Sequence[Plain], now_s: float
) -> tuple[list[Action], float | None]:
    executing = [taint for taint in taints if taint.get("effect") == "NoExecute"]
    actions: list[Action] = []
    waits: list[float] = []
    for pod in pods if executing else ():
        left_s = _stays_s(pod, executing, now_s)
        if is_terminating(pod) or left_s is None:
            continue
        if left_s <= 0:
            actions.append(DeleteAction(POD, header(pod).key, pod["metadata"]["uid"]))
        else:
            waits.append(left_s)
    return actions, min(waits, default=None)


def _stays_s(pod: Plain, taints: Sequence[Mapping[str, Any]], now_s: float) -> float | None:
    """How long a pod may stay on a node with these taints; None: for ever."""
    tolerations = pod["spec"].get("tolerations") or ()
    least: float | None = None
    for taint in taints:
        matching = [each for each in tolerations if _tolerates(each, taint)]
        if not matching:
            return 0.0
        bounded = [each["tolerationSeconds"] for each in matching if "tolerationSeconds" in each]
        if len(bounded) < len(matching):
            continue
        # A pod that came after the taint has its patience from its own beginning.
        since_s = seconds_of(taint["timeAdded"]) if taint.get("timeAdded") else now_s
        left_s = max(since_s, created_s(pod)) + float(min(bounded)) - now_s
        least = left_s if least is None else min(least, left_s)
    return least


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("key") == taint["key"] and (
        (toleration.get("value") or "") == (taint.get("value") or "")
    )
