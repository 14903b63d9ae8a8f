"""The cluster as it is stored, in the words of the invariants. Reads; believes nobody's sums."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.api.core import ENDED_PHASES
from muster.api.names import DEFAULT_POD_GROUP_PRIORITY
from muster.api.podgroup import is_preemptible
from muster.client.kinds import Plain
from muster.sim.amounts import amounts, pod_amounts
from muster.sim.apiserver.store import Store

PODS: Final = "pods"
NODES: Final = "nodes"
GROUPS: Final = "podgroups.scheduling.run.ai"
REQUESTS: Final = "bindrequests.scheduling.run.ai"
QUEUES: Final = "queues.scheduling.run.ai"
CLAIMS: Final = "resourceclaims.resource.k8s.io"
EVENTS: Final = "events"
_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_GPU: Final = "nvidia.com/gpu"
_MIG: Final = "nvidia.com/mig-"
_GPU_MEMORY: Final = "nvidia.com/gpu.memory"
NANO: Final = 10**9
SLACK: Final = 1e-6
"""Of sums of GPUs, which are not exact."""


@dataclass(frozen=True, slots=True)
class View:
    """Questions about what is stored now."""

    store: Store

    def all(self, storage: str, namespace: str = "") -> list[Plain]:
        return list(self.store.list(storage, namespace))

    def holding(self, node: str) -> list[Plain]:
        """The pods that hold something on a node."""
        return [pod for pod in self.all(PODS) if node_of(pod) == node and not has_ended(pod)]

    def free(self, node: Plain) -> dict[str, int]:
        """What the node has and nobody holds, in thousand-millionths."""
        left = {name: one.nano for name, one in amounts(node["status"]["allocatable"]).items()}
        for pod in self.holding(node["metadata"]["name"]):
            for name, amount in pod_amounts(pod["spec"]).items():
                left[name] = left.get(name, 0) - amount.nano
            left["pods"] = left.get("pods", 0) - NANO
        return left

    def shares(self) -> dict[str, float]:
        """How much of each shared GPU is promised."""
        found: dict[str, float] = {}
        for pod in self.all(PODS):
            if node_of(pod) and not has_ended(pod):
                for group in gpu_groups(pod):
                    found[group] = found.get(group, 0.0) + self.share(pod)
        return found

    def share(self, pod: Plain) -> float:
        """The part of each of its devices that a pod asks for."""
        notes = pod["metadata"].get("annotations") or {}
        if "gpu-memory" in notes:
            return float(notes["gpu-memory"]) / self._memory_mib(node_of(pod))
        return float(notes.get("gpu-fraction") or 0)

    def gpus(self, pod: Plain, widely: bool = False) -> float:
        """What a queue pays for a pod; `widely`: with all that may be counted as GPUs."""
        asked = pod_amounts(pod["spec"])
        slices = sum(one.nano for name, one in asked.items() if name.startswith(_MIG))
        claims = len(pod["spec"].get("resourceClaims") or ())
        whole = asked[_GPU].nano if _GPU in asked else 0
        return (whole + slices * widely) / NANO + self.share(pod) + claims * widely

    def group_of(self, pod: Plain) -> Plain | None:
        name = (pod["metadata"].get("annotations") or {}).get("pod-group-name", "")
        return self.store.get(GROUPS, pod["metadata"]["namespace"], name) if name else None

    def pods_of(self, group: Plain) -> list[Plain]:
        meta = group["metadata"]
        return [
            pod
            for pod in self.all(PODS, meta["namespace"])
            if (pod["metadata"].get("annotations") or {}).get("pod-group-name") == meta["name"]
        ]

    def placed(self, group: Plain) -> int:
        """How many pods of a group have a node, or had one and are done."""
        return sum(
            bool(node_of(pod))
            and not is_terminating(pod)
            and (pod.get("status") or {}).get("phase") != "Failed"
            for pod in self.pods_of(group)
        )

    def is_preemptible(self, group: Plain) -> bool:
        spec = group["spec"]
        found = self.store.get(_CLASSES, "", spec.get("priorityClassName") or "")
        priority = int(found["value"]) if found else DEFAULT_POD_GROUP_PRIORITY
        return is_preemptible(spec.get("preemptibility"), priority)

    def queue_chain(self, name: str) -> Iterator[Plain]:
        """A queue and those above it."""
        seen = set[str]()
        while name and name not in seen:
            seen.add(name)
            queue = self.store.get(QUEUES, "", name)
            if queue is None:
                return
            yield queue
            name = queue["spec"].get("parentQueue") or ""

    def charged(self, queue: str, widely: bool = False) -> tuple[float, float]:
        """GPUs that a queue and those below it hold: in all, and by what cannot be evicted."""
        total = fixed = 0.0
        for group in self.all(GROUPS):
            chain = [one["metadata"]["name"] for one in self.queue_chain(group["spec"]["queue"])]
            if queue not in chain:
                continue
            held = sum(self.gpus(pod, widely) for pod in self.pods_of(group) if is_charged(pod))
            total += held
            fixed += 0.0 if self.is_preemptible(group) else held
        return total, fixed

    def devices(self) -> list[tuple[str, str, str]]:
        """The devices of all claims, as often as they are given."""
        return [device for claim in self.all(CLAIMS) for device in devices_of(claim)]

    def _memory_mib(self, node: str) -> float:
        nodes = [self.store.get(NODES, "", node)] if node else self.all(NODES)
        labels = [(one or {}).get("metadata", {}).get("labels") or {} for one in nodes]
        known = [float(one[_GPU_MEMORY]) for one in labels if _GPU_MEMORY in one]
        return max(known, default=81559.0)


def name_of(obj: Plain) -> str:
    return str(obj["metadata"]["name"])


def node_of(pod: Plain) -> str:
    return str(pod["spec"].get("nodeName") or "")


def has_ended(pod: Plain) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES


def is_terminating(obj: Plain) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_charged(pod: Plain) -> bool:
    return bool(node_of(pod)) and not has_ended(pod) and not is_terminating(pod)


def gpu_groups(pod: Plain) -> list[str]:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return [
        value
        for key, value in labels.items()
        if key == "runai-gpu-group" or key.startswith("runai-gpu-group/")
    ]


def devices_of(claim: Plain) -> list[tuple[str, str, str]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: Iterable[Any] = (allocation.get("devices") or {}).get("results") or ()
    return [(one["driver"], one["pool"], one["device"]) for one in results]


def gpu_bound(queue: Plain, which: str) -> float:
    """`quota` or `limit` of a queue; negative: none."""
    found = ((queue["spec"].get("resources") or {}).get("gpu") or {}).get(which)
    return -1.0 if found is None else float(found)


def minimum_of(group: Plain) -> int:
    found = group["spec"].get("minMember")
    return 1 if found is None else int(found)
