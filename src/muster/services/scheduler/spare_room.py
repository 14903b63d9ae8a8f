"""Says on nodes how much CPU and memory their pods ask for and do not use, where that is policy.

It stands there as resources of our own, which pods may ask for instead of CPU and memory: kubelets
refuse pods whose requests for those go beyond what a node has, and count these beside them. When
nothing is known any more, no more is offered than is held.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.api import kinds, names
from muster.api.core import Node, Pod, ResourceList
from muster.base.clock import Clock
from muster.model.records import TaskRecord
from muster.model.usage import OvercommitPolicy
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.status_updater import StatusUpdater, Update
from muster.usage.overcommit import Amounts, HeldPod, Offer, PodPeaks, offers
from muster.usage.utilisation import Utilisation

_GUARANTEED: Final = "Guaranteed"
_NOTHING_KNOWN: Final[Mapping[str, PodPeaks]] = {}


@dataclass(slots=True)
class SpareRoom:
    """Told of every reading, and when there is none."""

    _cache: SchedulerCache
    _updater: StatusUpdater
    _clock: Clock

    def heard(self, reading: Utilisation | None, policy: OvercommitPolicy | None) -> None:
        nodes = {node.metadata.name: node for node in self._cache.nodes()}
        if reading is None or policy is None:
            # Most clusters have no such nodes, and this is asked of them once.
            nodes = {name: node for name, node in nodes.items() if _says_any(node)}
        found = offers(
            {name: _has(node) for name, node in nodes.items()},
            (_held(task, pod) for task, pod in self._cache.placed_pods()) if nodes else (),
            _NOTHING_KNOWN if reading is None else reading.peaks,
            None if reading is None else policy,
            self._clock.now_s(),
        )
        for name, offer in found.items():
            self._say(nodes[name], offer)

    def _say(self, node: Node, offer: Offer) -> None:
        wanted = {
            names.RESOURCE_SPARE_CPU: offer.amounts.cpu_milli,
            names.RESOURCE_SPARE_MEMORY: offer.amounts.memory_bytes,
        }
        status = node.status
        has = {
            name: (_amount(status.capacity, name), _amount(status.allocatable, name))
            for name in wanted
        }
        if all(has[name] == (amount or None, amount or None) for name, amount in wanted.items()):
            return
        # What is not there at all is no resource of the node: a kubelet does not ask for it.
        said = {name: str(amount) if amount else None for name, amount in wanted.items()}
        patch = {"status": {"capacity": said, "allocatable": said}}
        uid = node.metadata.uid
        self._updater.put(Update(kinds.NODE, node.key, "spare room", patch, "status", uid=uid))


def _says_any(node: Node) -> bool:
    spare = (names.RESOURCE_SPARE_CPU, names.RESOURCE_SPARE_MEMORY)
    return any(name in node.status.capacity for name in spare)


def _amount(listed: ResourceList, name: str) -> int | None:
    found = listed.get(name)
    return None if found is None else found.value


def _has(node: Node) -> Amounts:
    cpu = node.status.allocatable.get(names.RESOURCE_CPU)
    memory = node.status.allocatable.get(names.RESOURCE_MEMORY)
    return Amounts(
        0 if cpu is None else max(0, cpu.milli), 0 if memory is None else max(0, memory.value)
    )


def _held(task: TaskRecord, pod: Pod) -> HeldPod:
    asked = task.request
    started = pod.status.start_time
    sidecars = sum(one.is_sidecar for one in pod.spec.init_containers)
    return HeldPod(
        key=f"{task.namespace}/{task.name}",
        node=task.node,
        asked=Amounts(asked.get(names.RESOURCE_CPU, 0), asked.get(names.RESOURCE_MEMORY, 0)),
        on_spare=Amounts(
            asked.get(names.RESOURCE_SPARE_CPU, 0), asked.get(names.RESOURCE_SPARE_MEMORY, 0)
        ),
        containers=len(pod.spec.containers) + sidecars,
        is_guaranteed=pod.status.qos_class == _GUARANTEED,
        started_s=None if started is None else started.timestamp(),
    )
