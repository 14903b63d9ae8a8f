"""What has room and what is allowed, reckoned slowly and by whole things from stored objects."""

from collections.abc import Iterator
from typing import Final

from muster.client.kinds import Plain
from muster.lab.simulate.manifests import MIG
from muster.lab.simulate.view import (
    NANO,
    NODES,
    SLACK,
    View,
    gpu_bound,
    has_ended,
    is_terminating,
    minimum_of,
    name_of,
    node_of,
)
from muster.sim.amounts import pod_amounts

_SIMPLE: Final = ("cpu", "memory", "nvidia.com/gpu", f"nvidia.com/mig-{MIG}")


def would_fit(view: View, group: Plain) -> bool:
    """Whether a group that waits could start where room is free, by the simplest reckoning.

    Only of pods that are alike and ask for nothing but whole things or parts of GPUs: for others
    the answer is no.
    """
    waiting = waiting_pods(view, group)
    if not waiting or not is_simple(group, waiting):
        return False
    wanted = next_wanted(view, group)
    if wanted > len(waiting) or not _is_allowed(view, group, waiting[0], wanted):
        return False
    return sum(slots(view, node, waiting[0]) for node in view.all(NODES)) >= wanted


def waiting_pods(view: View, group: Plain) -> list[Plain]:
    return [
        pod
        for pod in view.pods_of(group)
        if not node_of(pod) and not is_terminating(pod) and not has_ended(pod)
    ]


def is_simple(group: Plain, pods: list[Plain]) -> bool:
    """Whether its pods may be anywhere, together or apart, and need nothing but amounts."""
    if group["spec"].get("topologyConstraint") or group["spec"].get("subGroups"):
        return False
    return not any(_is_odd(pod["spec"]) for pod in pods)


def _is_odd(spec: Plain) -> bool:
    odd = ("affinity", "nodeSelector", "resourceClaims", "schedulingGates")
    volumes = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    return bool(volumes) or any(spec.get(name) for name in odd)


def next_wanted(view: View, group: Plain) -> int:
    """How many pods must be placed together next."""
    return max(minimum_of(group) - view.placed(group), 1)


def broken_bounds(view: View, group: Plain, pod: Plain, wanted: int) -> Iterator[tuple[str, str]]:
    """Queues, and which of their bounds (`limit` or `quota`) so many more such pods would break,
    with all counted as GPUs that may be.
    """
    more, is_fixed = view.gpus(pod, widely=True) * wanted, not view.is_preemptible(group)
    for queue in view.queue_chain(group["spec"].get("queue") or ""):
        total, fixed = view.charged(name_of(queue), widely=True)
        if more and 0 <= gpu_bound(queue, "limit") < total + more - SLACK:
            yield name_of(queue), "limit"
        if more and is_fixed and 0 <= gpu_bound(queue, "quota") < fixed + more - SLACK:
            yield name_of(queue), "quota"


def slots(view: View, node: Plain, pod: Plain) -> int:
    """How many pods like this one a node has room for."""
    if is_cordoned(node) or has_taints(node):
        return 0
    free = view.free(node)
    wanted = {name: one.nano for name, one in pod_amounts(pod["spec"]).items() if one.nano}
    if view.share(pod):
        wanted["nvidia.com/gpu"] = NANO
    if any(name not in _SIMPLE for name in wanted):
        return 0
    if is_partitioned(node) and "nvidia.com/gpu" in wanted:
        return 0  # Where GPUs are partitioned only their parts are given.
    wanted["pods"] = NANO
    return min(max(free.get(name, 0), 0) // amount for name, amount in wanted.items())


def is_cordoned(node: Plain) -> bool:
    return bool(node["spec"].get("unschedulable"))


def has_taints(node: Plain) -> bool:
    return bool(node["spec"].get("taints"))


def is_ready(node: Plain) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_partitioned(node: Plain) -> bool:
    return (node["metadata"].get("labels") or {}).get("nvidia.com/mig.strategy") == "mixed"


def _is_allowed(view: View, group: Plain, pod: Plain, wanted: int) -> bool:
    chain = list(view.queue_chain(group["spec"].get("queue") or ""))
    if not chain or any(one["spec"].get("parentQueue") == name_of(one) for one in chain):
        return False
    if chain[-1]["spec"].get("parentQueue"):
        return False
    return not any(broken_bounds(view, group, pod, wanted))
