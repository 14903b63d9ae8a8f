"""What must hold when faults are over and the cluster has come to rest, and when all is gone."""

from collections.abc import Iterator
from typing import Final

from muster.client.kinds import Plain
from muster.lab.simulate.manifests import HOME, MIG
from muster.lab.simulate.view import (
    EVENTS,
    GROUPS,
    NANO,
    NODES,
    PODS,
    REQUESTS,
    View,
    gpu_bound,
    has_ended,
    is_terminating,
    minimum_of,
    node_of,
)
from muster.sim.amounts import pod_amounts

_SLACK: Final = 1e-6
_SIMPLE: Final = ("cpu", "memory", "nvidia.com/gpu", f"nvidia.com/mig-{MIG}")


def wrong_at_rest(view: View) -> Iterator[tuple[str, str]]:
    """What must not be so when nothing goes wrong any more: the invariant, and who breaks it."""
    for pod in view.all(PODS, HOME):
        if is_terminating(pod) or has_ended(pod) or pod["spec"].get("schedulingGates"):
            continue
        if node_of(pod):
            if (pod.get("status") or {}).get("phase") != "Running":
                yield "what is bound runs", f"{_name(pod)} does not run on {node_of(pod)}"
        elif not any(_reasons(view, pod)):
            yield "who waits is told why", f"{_name(pod)} waits without a reason"
    for group in view.all(GROUPS):
        if would_fit(view, group):
            yield "what fits runs", f"{_name(group)} waits, and there is room for it"
    for request in view.all(REQUESTS):
        phase = (request.get("status") or {}).get("phase")
        if phase != "Succeeded":
            yield "what is decided is done", f"bind request {_name(request)} is {phase}"


def left_behind(view: View) -> list[str]:
    """What of our making is still there when people have taken all of theirs away."""
    return [
        f"{storage} {one['metadata'].get('namespace', '')}/{_name(one)}"
        for storage in (PODS, GROUPS, REQUESTS)
        for one in view.all(storage)
    ]


def would_fit(view: View, group: Plain) -> bool:
    """Whether a group that waits could start where room is free, by the simplest reckoning.

    Only of pods that are alike and ask for nothing but whole things or parts of GPUs: for others
    the answer is no.
    """
    waiting = [
        pod
        for pod in view.pods_of(group)
        if not node_of(pod) and not is_terminating(pod) and not has_ended(pod)
    ]
    if not waiting or not all(_is_simple(pod) for pod in waiting):
        return False
    if group["spec"].get("topologyConstraint") or group["spec"].get("subGroups"):
        return False
    placed = view.placed(group)
    wanted = max(minimum_of(group) - placed, 1)
    if wanted > len(waiting) or not _is_allowed(view, group, waiting[0], wanted):
        return False
    return sum(_slots(view, node, waiting[0]) for node in view.all(NODES)) >= wanted


def _is_simple(pod: Plain) -> bool:
    spec = pod["spec"]
    odd = ("affinity", "nodeSelector", "resourceClaims", "schedulingGates", "priorityClassName")
    volumes = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    return not volumes and not any(spec.get(name) for name in odd[:4])


def _is_allowed(view: View, group: Plain, pod: Plain, wanted: int) -> bool:
    more, is_fixed = view.gpus(pod, widely=True) * wanted, not view.is_preemptible(group)
    chain = list(view.queue_chain(group["spec"].get("queue") or ""))
    if not chain or any(one["spec"].get("parentQueue") == _name(one) for one in chain):
        return False
    if chain[-1]["spec"].get("parentQueue"):
        return False
    for queue in chain:
        total, fixed = view.charged(_name(queue), widely=True)
        quota, limit = gpu_bound(queue, "quota"), gpu_bound(queue, "limit")
        if more and 0 <= limit < total + more - _SLACK:
            return False
        if more and is_fixed and 0 <= quota < fixed + more - _SLACK:
            return False
    return True


def _slots(view: View, node: Plain, pod: Plain) -> int:
    """How many pods like this one a node has room for."""
    if node["spec"].get("unschedulable") or node["spec"].get("taints"):
        return 0
    free = view.free(node)
    wanted = {name: one.nano for name, one in pod_amounts(pod["spec"]).items() if one.nano}
    if view.share(pod):
        wanted["nvidia.com/gpu"] = NANO
    is_mixed = (node["metadata"].get("labels") or {}).get("nvidia.com/mig.strategy") == "mixed"
    if any(name not in _SIMPLE for name in wanted) or (is_mixed and "nvidia.com/gpu" in wanted):
        return 0  # Where GPUs are partitioned only their parts are given.
    wanted["pods"] = NANO
    return min(max(free.get(name, 0), 0) // amount for name, amount in wanted.items())


def _reasons(view: View, pod: Plain) -> Iterator[str]:
    """All that is said about why a pod waits."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield condition.get("message") or ""
    group = view.group_of(pod)
    for condition in ((group or {}).get("status") or {}).get("schedulingConditions") or ():
        yield condition.get("message") or ""
    about = {_name(pod), *([_name(group)] if group else [])}
    for event in view.all(EVENTS, HOME):
        regarding = event.get("involvedObject") or event.get("regarding") or {}
        if regarding.get("name") in about:
            yield event.get("message") or event.get("note") or ""


def _name(obj: Plain) -> str:
    return str(obj["metadata"]["name"])
