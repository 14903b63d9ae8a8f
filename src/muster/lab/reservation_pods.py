"""What runs inside reservation pods on a cluster whose kubelets run no containers.

The same agent as on a real node; only the question "which devices does this container see" is
answered here, by handing each reservation pod of a node a device of its own.
"""

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.api.names import Names
from muster.client.informer import Informer
from muster.client.read import Selection
from muster.client.write import Writer
from muster.runtime.controller import own_key
from muster.runtime.reconciler import DONE, Result
from muster.runtime.supervisor import Supervisor
from muster.services.reservation.agent import Agent
from muster.services.reservation.discover import VisibleDevice

_MEMORY_MIB = 81_559


def build(supervisor: Supervisor, known: Names) -> None:
    pods = supervisor.informer(POD, Selection(known.reservation_namespace))
    controller = supervisor.controller("reservation-pods", _Containers(pods, supervisor))
    controller.watch(pods, own_key)


class _Containers:
    """Runs the agent of each reservation pod once the pod runs."""

    def __init__(self, pods: Informer[Pod], supervisor: Supervisor) -> None:
        self._pods = pods
        self._reader = supervisor.reader
        self._writer = Writer(supervisor.connection, "muster-reservation")
        self._log = supervisor.log
        self._given: dict[str, str] = {}
        """Devices by the uid of the pod: what was announced may not have come back yet."""

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or pod.status.phase != "Running" or _device(pod):
            return DONE
        self._given[pod.metadata.uid] = self._free_device(pod)
        device = VisibleDevice(self._given[pod.metadata.uid], "Simulated GPU", _MEMORY_MIB)
        agent = Agent(self._reader, self._writer, self._log, lambda: [device])
        await agent.announce(key)
        return DONE

    def _free_device(self, pod: Pod) -> str:
        node, there = pod.spec.node_name, self._pods.objects.values()
        uids = {other.metadata.uid for other in there if other is not pod}
        self._given = {uid: device for uid, device in self._given.items() if uid in uids}
        taken = {_device(other) for other in there} | set(self._given.values())
        number = 0
        while f"GPU-{node}-{number}" in taken:
            number += 1
        return f"GPU-{node}-{number}"


def _device(pod: Pod) -> str:
    return pod.metadata.annotations.get(names.ANNOTATION_RESERVED_GPU, "")
