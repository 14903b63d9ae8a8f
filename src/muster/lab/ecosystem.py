"""What people have beside a scheduler, in a laptop cluster: racks, storage, devices, operators.

All of it belongs to the simulated world and would be the same with any other scheduler.
"""

from typing import Final

from muster.api.kinds import Kind
from muster.api.names import LABEL_AMD_GPU_PRODUCT, RESOURCE_AMD_GPU, RESOURCE_NVIDIA_GPU
from muster.client.errors import NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.write import Writer
from muster.lab.hosting import HostedService, ensure
from muster.lab.install import ServiceHost
from muster.runtime.supervisor import Supervisor
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.operators import wiring as operators
from muster.sim.operators.definitions import DEFINITION, definitions, training_runtime
from muster.sim.operators.job_sets import TRAINING_RUNTIME

TOPOLOGY: Final = {"topology.kubernetes.io/zone": 32, "example.com/rack": 8}
"""Labels of ordinary nodes, and how many of them share a value."""
DRA_DRIVER: Final = "gpu.nvidia.com"
_AMD_TAINT: Final = {"key": RESOURCE_AMD_GPU, "value": "present", "effect": "NoSchedule"}
_DRA_TAINT: Final = {"key": DRA_DRIVER, "value": "by-claim", "effect": "NoSchedule"}
SPECIAL_NODES: Final = (
    NodeGroup("mig-0", gpus=Gpus(count=1, mig={"1g.10gb": 7}, mig_gpus=1)),
    # Tainted, as such nodes are in clusters that have both: most images are made for one vendor.
    NodeGroup(
        "amd-0",
        resources={RESOURCE_AMD_GPU: "4"},
        labels={LABEL_AMD_GPU_PRODUCT: "AMD_Instinct_MI300X_OAM"},
        taints=(_AMD_TAINT,),
    ),
    # Its GPUs are given out by claim alone. Tainted, because schedulers count them for pods that
    # ask for `nvidia.com/gpu` too, and these it would refuse.
    NodeGroup(
        "dra-0",
        gpus=Gpus(count=2, driver=DRA_DRIVER),
        resources={RESOURCE_NVIDIA_GPU: "0"},
        taints=(_DRA_TAINT,),
    ),
)
_NAMESPACE: Final = "operators"
_SERVED_WITHIN_S: Final = 60.0
_STORAGE_CLASS: Final = plain_kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
_DEVICE_CLASS: Final = plain_kind(
    "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False
)
_STANDARD: Final = {
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "sim.muster.dev/volumes",
    "volumeBindingMode": "WaitForFirstConsumer",
    "reclaimPolicy": "Delete",
}
_GPU_CLASS: Final = {
    "metadata": {"name": DRA_DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRA_DRIVER}'"}}]},
}


async def start_ecosystem(home: ServiceHost) -> None:
    """Everything but the nodes, before the scheduler comes."""
    await _install(home)
    await home.start(HostedService("operators", _operators, namespace=_NAMESPACE))


async def _install(home: ServiceHost) -> None:
    writer = home.writer
    for definition in definitions():
        await ensure(writer, DEFINITION, definition)
    await ensure(writer, _STORAGE_CLASS, _STANDARD)
    await ensure(writer, _DEVICE_CLASS, _GPU_CLASS)
    await _ensure_once_served(home, TRAINING_RUNTIME, training_runtime())


async def _ensure_once_served(home: ServiceHost, kind: Kind[Plain], body: Plain) -> None:
    """A real API server serves a kind a moment after it was defined."""
    until_s = home.clock.monotonic_s() + _SERVED_WITHIN_S
    while True:
        try:
            return await ensure(home.writer, kind, body)
        except NotFound:
            if home.clock.monotonic_s() > until_s:
                raise
        await home.clock.sleep(0.1)


def _operators(supervisor: Supervisor) -> None:
    operators.build(supervisor, Writer(supervisor.connection, "operators"))
