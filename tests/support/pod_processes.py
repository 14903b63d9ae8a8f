"""A kubelet of a real control plane that runs the pods of our Deployments as processes.

kwok says of a pod that it runs; here it does: the command of its container with its flags, a
kubeconfig with the token of its account, its volumes as files. It is ready when its probe says so,
so Deployments roll and Services find their pods as they do on machines. Reservation pods, which
would need a GPU, have their agent in this process, each with the token of its own pod.
"""

import asyncio
import shutil
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.kais_cluster import CERTIFICATES
from tests.support.kais_cluster import IMAGES as KAIS_IMAGES
from tests.support.lab import POD
from tests.support.operated import HERE, AnyOperated, container_of, mount, placed
from tests.support.pod_network import PodNetwork

from muster.api.meta import Key
from muster.api.names import ANNOTATION_RESERVED_GPU, DEFAULT
from muster.base.log import Level, Log
from muster.base.timefmt import rfc3339
from muster.client.errors import ApiError, Conflict, NotFound, Unreachable
from muster.client.read import Reader, Selection
from muster.client.write import Deletion, Writer
from muster.lab.control_plane_files import write_kubeconfig
from muster.lab.kube_cluster import PLAYED_ELSEWHERE, KubeCluster
from muster.lab.programs import Guard, ManagedProgram, free_ports
from muster.services.reservation.agent import Agent
from muster.services.reservation.discover import VisibleDevice

_MUSTER = (sys.executable, "-c", "from muster.cli.main import main; main()")
_NODE = "system-0"
_PROBE_S = 5.0
_LOOK_EVERY_S = 0.3
_REFRESHED_EVERY = 10
_AT_ONCE = Deletion(grace_s=0)
_LOG = Log("pods", level=Level.ERROR)


@dataclass(slots=True)
class _Process:
    """One pod that runs."""

    pod: Any
    address: str
    program: ManagedProgram
    ports: Mapping[int, int]
    """Of this machine, by those of its container."""
    is_ready: bool | None = None
    restarts: int = 0
    ending: asyncio.Task[None] | None = None

    @property
    def app(self) -> str:
        return str(self.pod["metadata"]["labels"]["app"])


@dataclass(slots=True)
class PodProcesses:
    """Starts, probes and ends the pods of our namespace."""

    cluster: KubeCluster
    folder: Path
    network: PodNetwork
    guard: Guard = field(default_factory=Guard)
    running: dict[str, _Process] = field(default_factory=dict)
    """By the name of the pod."""
    _pods_so_far: int = 0
    _looks: int = 0

    async def follow(self) -> None:
        """Look at all pods and act."""
        listed = (await self.cluster.reader.list(POD, Selection(HERE))).objects
        pods = {one["metadata"]["name"]: one for one in listed}
        for name in {*self.running} - {*pods}:
            self._forget(name)
        for name, pod in pods.items():
            if pod["metadata"].get("deletionTimestamp"):
                await self._end(name)
            elif not pod["spec"].get("nodeName"):
                await self._take(name)
            elif name not in self.running:
                await self._start(name, pod)
        await asyncio.gather(*(self._probe(name, one) for name, one in [*self.running.items()]))
        await self._announce_reserved()
        self._looks += 1
        if self._looks % _REFRESHED_EVERY == 0:
            await self._refresh()

    def apps(self) -> set[str]:
        """Of which Deployments there is a pod."""
        return {one.app for one in self.running.values()}

    def unready(self) -> list[str]:
        return [one.app for one in self.running.values() if not one.is_ready]

    def port_of(self, app: str, port: int) -> int:
        """Where a port of its pod is, on this machine."""
        (one,) = (one for one in self.running.values() if one.app == app and not one.ending)
        return one.ports[port]

    def certificate_of(self, app: str, port: int) -> str:
        """What it shows to whoever comes now."""
        return ssl.get_server_certificate(("127.0.0.1", self.port_of(app, port)), timeout=5)

    def kill(self, app: str) -> None:
        """As a node does that runs out of memory: at once, and the container is started again."""
        for one in self.running.values():
            if one.app == app:
                one.program.kill()

    def logs(self) -> str:
        return "\n".join(
            f"-- {name} ({one.restarts} restarts): {one.program.log_tail()}"
            for name, one in self.running.items()
        )

    async def close(self) -> None:
        for one in self.running.values():
            one.program.kill()
        await asyncio.gather(*(one.ending for one in self.running.values() if one.ending))
        self.guard.close()

    # --- One pod ------------------------------------------------------------------------------

    async def _take(self, name: str) -> None:
        """What kube-scheduler would do; and kwok is to leave it alone."""
        with suppress(NotFound, Conflict):  # It went, or is going, since it was listed.
            await self.cluster.writer.bind(
                Key(HERE, name), _NODE, annotations={PLAYED_ELSEWHERE: "true"}
            )

    async def _start(self, name: str, pod: Any) -> None:
        container, folder = container_of(pod), self.folder / name
        account = Key(HERE, pod["spec"]["serviceAccountName"])
        try:
            await mount(self.cluster, folder, pod["spec"])
            token = await self.cluster.token(account, pod)
        except (NotFound, Conflict):
            return  # A volume or the account is not there yet: its pod waits. Or the pod has gone.
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.cluster.plane.certificate_authority_file, folder / "ca.crt")
        kubeconfig = write_kubeconfig(
            folder / "kubeconfig", self.cluster.plane.server, name, {"token": token}
        )
        wanted = [one["containerPort"] for one in container.get("ports", ())]
        ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
        if container["image"].startswith(KAIS_IMAGES):
            command = _of_kai(container, folder, ports)
        else:
            args = [_here(placed(folder, arg), ports) for arg in container["args"]]
            command = [*_MUSTER, *container["command"][1:], f"--kubeconfig={kubeconfig}", *args]
        program = ManagedProgram(name, command, self.folder / f"{name}.log", self.guard)
        program.start()
        self._pods_so_far += 1
        address = f"10.99.{self._pods_so_far // 250}.{self._pods_so_far % 250 + 1}"
        self.network.routes |= {(address, port): here for port, here in ports.items()}
        self.running[name] = _Process(pod, address, program, ports)

    async def _refresh(self) -> None:
        """Volumes follow what they were made of, while their pods run."""
        for name, one in [*self.running.items()]:
            with suppress(NotFound):
                await mount(self.cluster, self.folder / name, one.pod["spec"])

    async def _probe(self, name: str, one: _Process) -> None:
        if one.ending is not None:
            return
        if not one.program.running():
            one.program.start()
            one.restarts += 1
        is_ready = True
        if "readinessProbe" in container_of(one.pod):
            probe = container_of(one.pod)["readinessProbe"]["httpGet"]
            ports = {port["name"]: port["containerPort"] for port in container_of(one.pod)["ports"]}
            url = f"http://127.0.0.1:{one.ports[ports[probe['port']]]}{probe['path']}"
            is_ready = await asyncio.to_thread(_answers, url)
        if is_ready is not one.is_ready:
            one.is_ready = is_ready
            try:
                await self.cluster.writer.patch(
                    POD, Key(HERE, name), {"status": self._status(one)}, subresource="status"
                )
            except NotFound:
                return

    def _status(self, one: _Process) -> Any:
        now = rfc3339(self.cluster.clock.now_s())
        conditions = {
            "PodScheduled": True,
            "Initialized": True,
            "ContainersReady": one.is_ready,
            "Ready": one.is_ready,
        }
        container = container_of(one.pod)
        return {
            "phase": "Running",
            "podIP": one.address,
            "podIPs": [{"ip": one.address}],
            "startTime": now,
            "conditions": [
                {"type": name, "status": str(bool(is_so)), "lastTransitionTime": now}
                for name, is_so in conditions.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "ready": bool(one.is_ready),
                    "restartCount": one.restarts,
                    "state": {"running": {"startedAt": now}},
                }
            ],
        }

    async def _end(self, name: str) -> None:
        one = self.running.get(name)
        if one is None:
            await self._remove(name)
        elif one.ending is None:
            one.ending = asyncio.ensure_future(self._stop(name, one))

    async def _stop(self, name: str, one: _Process) -> None:
        """Asked to end, given its time, and taken off the list when it has."""
        grace_s = one.pod["spec"]["terminationGracePeriodSeconds"]
        await asyncio.to_thread(one.program.stop, grace_s)
        await self._remove(name)

    async def _remove(self, name: str) -> None:
        try:
            await self.cluster.writer.delete(POD, Key(HERE, name), _AT_ONCE)
        except NotFound:
            return

    def _forget(self, name: str) -> None:
        one = self.running.pop(name)
        one.program.kill()
        for port in one.ports:
            self.network.routes.pop((one.address, port), None)

    # --- Pods that hold shared GPUs -----------------------------------------------------------

    async def _announce_reserved(self) -> None:
        selection = Selection(DEFAULT.reservation_namespace)
        held = (await self.cluster.reader.list(POD, selection)).objects
        taken = {_device(pod) for pod in held}
        for pod in held:
            if (pod.get("status") or {}).get("phase") != "Running" or _device(pod):
                continue
            node = pod["spec"]["nodeName"]
            numbers = (number for number in range(len(held)))
            free = next(n for n in numbers if f"GPU-{node}-{n}" not in taken)
            device = VisibleDevice(f"GPU-{node}-{free}", "Made up", 81_559)
            taken.add(device.uuid)
            meta = pod["metadata"]
            account = Key(meta["namespace"], pod["spec"]["serviceAccountName"])
            with suppress(NotFound):  # It went since it was listed.
                connection = await self.cluster.connect(meta["name"], account, pod)
                writer = Writer(connection, "muster-reservation")
                agent = Agent(Reader(connection), writer, _LOG, lambda given=device: [given])  # type: ignore[misc]
                await agent.announce(Key(meta["namespace"], meta["name"]))


@dataclass(slots=True)
class OperatedByProcesses(AnyOperated):
    """A real cluster that the operator runs, and a kubelet that goes on beside the story."""

    kubelet: PodProcesses
    _goes_on: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._goes_on = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(self.kubelet.logs())
        if self._goes_on is not None:
            self._goes_on.cancel()
            await asyncio.gather(self._goes_on, return_exceptions=True)
        await self.kubelet.close()

    async def turn(self) -> None:
        assert self._goes_on is not None, "nobody has begun"
        if self._goes_on.done():
            await self._goes_on

    async def _follow(self) -> None:
        while True:
            try:
                await self.kubelet.follow()
            except (Unreachable, ApiError) as error:
                # The API server is away, or comes back: kubelets look again.
                if isinstance(error, ApiError) and not error.is_passing:
                    raise
            await self.lab.clock.sleep(_LOOK_EVERY_S)


def _of_kai(container: Any, folder: Path, ports: Mapping[int, int]) -> list[str]:
    """Stand-ins: one that answers reviews, or nobody who does anything."""
    if not ports:
        return ["sleep", "infinity"]
    words = (container["name"], str(ports[9443]), placed(folder, CERTIFICATES))
    return [sys.executable, "-m", "tests.support.kais_webhooks", *words]


def _here(arg: str, ports: Mapping[int, int]) -> str:
    """Pods have an address each; processes of one machine have ports."""
    flag, _, value = arg.rpartition("=")
    number = value.removeprefix(":")
    if not number.isdecimal() or int(number) not in ports:
        return arg
    port = ports[int(number)]
    return f"{flag}=127.0.0.1:{port}" if value.startswith(":") else f"{flag}={port}"


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=_PROBE_S) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _device(pod: Any) -> str:
    return str(pod["metadata"].get("annotations", {}).get(ANNOTATION_RESERVED_GPU, ""))
