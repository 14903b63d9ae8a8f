"""Proves the reservation of a shared GPU on a machine that has one; prints a transcript.

    python tools/prove_reservation.py

An API server in this process, a reservation pod, the agent with the machine's own NVML, the config
map that the binder makes of what the agent found, and two processes that share the device through
exactly that environment.
"""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import ConfigMap, Node, Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.clock import SystemClock
from muster.base.log import Log
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.kinds import plain_kind
from muster.client.read import Reader
from muster.client.write import Writer
from muster.services.admission.mutate import Mutated, mutate_pod
from muster.services.admission.review import Review
from muster.services.admission.settings import AdmissionSettings
from muster.services.binder.cluster_view import BindAttempt, Create, NeedsWrites, Times
from muster.services.binder.settings import BinderSettings
from muster.services.binder.steps.gpu_sharing import ShareGpu
from muster.services.binder.steps.reserve_gpu import reservation_pod
from muster.services.reservation.agent import Agent
from muster.services.reservation.discover import NoDevice, the_only_device, visible_devices
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_NODE = "this-machine"
_GROUP = "group-0"
_WORK = textwrap.dedent(
    """
    import os, sys, time, torch
    name, seconds = sys.argv[1], 5.0
    torch.cuda.set_per_process_memory_fraction(float(os.environ["GPU_PORTION"]))
    uuid = torch.cuda.get_device_properties(0).uuid
    ones = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    began, rounds = time.time(), 0
    while time.time() - began < seconds:
        ones = (ones @ ones).clamp(max=1.0)
        torch.cuda.synchronize()
        rounds += 1
    free, total = torch.cuda.mem_get_info()
    print(f"{name}: on GPU-{uuid}, {rounds} products of 4096 x 4096 in {seconds:g} s, "
          f"from {began % 1000:.1f} to {time.time() % 1000:.1f}, sum {float(ones.sum()):g}")
    """
)


async def main() -> int:
    try:
        device = the_only_device(visible_devices())
    except NoDevice as problem:
        print(f"no proof on this machine: {problem}")
        return 1
    print(f"NVML finds one device: {device.uuid}, {device.name}, {device.memory_mib} MiB")
    smi = await asyncio.to_thread(
        subprocess.run,
        ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"nvidia-smi says: {smi.stdout.strip()}")
    announced = await _announced()
    print(f"annotation {names.ANNOTATION_RESERVED_GPU} on the reservation pod: {announced}")
    assert announced == device.uuid, "the agent must say what NVML says"
    environment = _environment(announced)
    print(f"environment of the sharing container, from the binder's config map: {environment}")
    return _share(environment, announced)


async def _announced() -> str:
    """What stands on the reservation pod after the agent has run, read back from the server."""
    settings = BinderSettings(reservation_image="reservation")
    async with Embedded(EmbeddedSettings(access_control=False)) as server:
        connection = Connection(server.transport(), SystemClock(), Rand(1))
        reader, writer = Reader(connection), Writer(connection)
        body = reservation_pod(_sharer(), _NODE, _GROUP, settings)
        namespace = settings.names.reservation_namespace
        for kind, name in (("Namespace", namespace), ("ServiceAccount", namespace)):
            await _make(writer, kind, name, namespace)
        await writer.create(POD, body, namespace)
        key = Key(namespace, body["metadata"]["name"])
        agent = Agent(reader, writer, Log("reservation"), visible_devices)
        await agent.announce(key)
        pod = await reader.get(POD, key)
        return pod.metadata.annotations[names.ANNOTATION_RESERVED_GPU]


async def _make(writer: Writer, kind: str, name: str, namespace: str) -> None:
    namespaced = kind != "Namespace"
    plural = f"{kind.lower()}s"
    found = plain_kind("", "v1", kind, plural, namespaced=namespaced)
    await writer.create(found, {"metadata": {"name": name}}, namespace if namespaced else "")


def _sharer() -> Pod:
    """A pod that asks for half of a GPU, as admission lets it in."""
    plain = {
        "metadata": {
            "name": "sharer",
            "namespace": "default",
            "uid": "u1",
            "annotations": {names.ANNOTATION_GPU_FRACTION: "0.5"},
        },
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]},
    }
    admission = AdmissionSettings(gpu_sharing=True)
    mutated = mutate_pod(Review("CREATE", plain, namespace="default"), admission, "abc1234")
    assert isinstance(mutated, Mutated)
    return from_builtins(Pod, dict(mutated.pod))


class _World:
    """Just enough of a cluster for the binder's step: the reservation pod and its device."""

    def __init__(self, uuid: str) -> None:
        notes = {names.ANNOTATION_RESERVED_GPU: uuid}
        self._reservation = from_builtins(Pod, {"metadata": {"name": "r", "annotations": notes}})

    def reservations(self, group: str) -> list[Pod]:
        return [self._reservation]

    def config_map(self, key: Key) -> ConfigMap | None:
        return None


def _environment(uuid: str) -> dict[str, str]:
    spec = {
        "podName": "sharer",
        "selectedNode": _NODE,
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 1, "portion": "0.50"},
        "selectedGPUGroups": [_GROUP],
    }
    request = from_builtins(BindRequest, {"metadata": {"name": "sharer"}, "spec": spec})
    case = BindAttempt(request, _sharer(), Node(), Times(0.0))
    world: Any = _World(uuid)
    state = ShareGpu(BinderSettings()).state(case, world)
    assert isinstance(state, NeedsWrites)
    data: dict[str, str] = {}
    for write in state.writes:
        assert isinstance(write, Create)
        data |= write.body["data"]
    return data


def _share(environment: dict[str, str], uuid: str) -> int:
    """Two processes at once, each with the container's environment and nothing else of ours.

    A container runtime turns NVIDIA_VISIBLE_DEVICES into the devices that a container sees; without
    one, CUDA is told the same thing by its own variable.
    """
    shared = {**os.environ, **environment, "CUDA_VISIBLE_DEVICES": uuid}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WORK, f"process {number}"],
            env=shared,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (1, 2)
    ]
    for process in running:
        said, _ = process.communicate(timeout=120)
        print(said.strip())
    codes = [process.returncode for process in running]
    print(f"both ended with {codes}")
    return max(codes)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
