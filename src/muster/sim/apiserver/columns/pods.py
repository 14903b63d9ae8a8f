"""Cells of pods and nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.kinds import Object


def pod_status(pod: Object) -> str:
    """The STATUS column: the most telling of phase, reasons and container states."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    waiting = _init_reason(pod)
    reason = waiting or _container_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp") and status.get("reason") == "NodeLost":
        return "Unknown"
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") not in (
        "Succeeded",
        "Failed",
    ):
        return "Terminating"
    return str(reason)


def pod_cells(pod: Object, now_s: float) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    names = {c["name"] for c in sidecars}
    counted = [
        *statuses,
        *(s for s in status.get("initContainerStatuses") or () if s["name"] in names),
    ]
    ready = sum(1 for s in counted if s.get("ready"))
    total = len(spec.get("containers") or ()) + len(sidecars)
    restarts = sum(s.get("restartCount", 0) for s in counted)
    gates = spec.get("readinessGates") or ()
    met = sum(1 for gate in gates if condition_status(status, gate["conditionType"]) == "True")
    return [
        pod["metadata"]["name"],
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(restarts, counted, now_s),
        age(pod["metadata"].get("creationTimestamp"), now_s),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"{met}/{len(gates)}" if gates else "<none>",
    ]


def _restarts(count: int, statuses: Sequence[Object], now_s: float) -> str:
    ends = [
        finished
        for s in statuses
        if (finished := ((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    if not count or not ends:
        return str(count)
    return f"{count} ({age(max(ends), now_s)} ago)"


def _init_reason(pod: Object) -> str:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    specs = {c["name"]: c for c in (pod.get("spec") or {}).get("initContainers") or ()}
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        restarts = specs.get(status.get("name"), {}).get("restartPolicy") == "Always"
        if restarts and status.get("started"):
            continue
        if ended:
            return "Init:" + (ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
        reason = (state.get("waiting") or {}).get("reason") or ""
        if reason and reason != "PodInitializing":
            return "Init:" + str(reason)
        return f"Init:{index}/{len(specs)}"
    return ""


def _container_reason(status: Object, reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended := state.get("terminated"):
            reason = ended.get("reason") or (
                f"Signal:{ended['signal']}"
                if ended.get("signal")
                else f"ExitCode:{ended.get('exitCode', 0)}"
            )
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if condition_status(status, "Ready") == "True" else "NotReady"
    return reason


def condition_status(status: Object, kind: str) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return str(condition.get("status", ""))
    return ""


def node_cells(node: Object, now_s: float) -> list[Any]:
    status, labels = node.get("status") or {}, node["metadata"].get("labels") or {}
    system = status.get("nodeInfo") or {}
    ready = condition_status(status, "Ready")
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [
        node["metadata"]["name"],
        ",".join(words),
        _roles(labels),
        age(node["metadata"].get("creationTimestamp"), now_s),
        system.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        system.get("osImage") or "<unknown>",
        system.get("kernelVersion") or "<unknown>",
        system.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(labels: Mapping[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(role for role in roles if role)) or "<none>"


def _address(status: Object, kind: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return "<none>"
