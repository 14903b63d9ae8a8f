"""A laptop cluster on which the operator's Deployments really run, each by its own words.

What a kubelet would start is started here: the command of the container with its flags, in this
process, under the account of the pod and with the files that the pod mounts. So a flag, a file or
a right that the operator forgets is missed.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
from tests.support.lab import DEFINITION, DEPLOYMENT, POD, Lab

from muster.api.config import Config, ConfigSpec
from muster.api.crds import DEFINITIONS, manifest
from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.api.roles import Rights
from muster.base.clock import Clock
from muster.base.log import Level, Log, TextSink
from muster.base.rand import Rand
from muster.cli.commands import COMMANDS
from muster.cli.services import SERVICES
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.errors import NotFound
from muster.client.events import Recorder
from muster.client.read import Reader, Selection
from muster.client.write import Writer
from muster.lab import reservation_pods
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.hosting import ACCOUNT, NAMESPACE, HostedService, ensure
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster
from muster.lab.virtual_loop import offload_here, run_virtually
from muster.lab.volcano_kinds import definitions
from muster.runtime.supervisor import Supervisor
from muster.services.admission.handler import AdmissionHandler
from muster.services.admission.wiring import AdmissionServiceConfig
from muster.services.operator import roles, wiring
from muster.services.operator.bootstrap import defaults
from muster.services.operator.objects import CONFIG_MAP, SECRET
from muster.services.operator.settings import Release
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.sim.kubelet.nodes import NodeGroup

HERE = DEFAULT.namespace
_COMMANDS = {service.name: service for service in SERVICES}
_MOUNTED = ("/etc/muster", "/tmp/k8s-webhook-server")
"""Ours, and KAI's."""
_WRITTEN = "/var/lib/muster"
_SYSTEM = NodeGroup("system", count=2)


@dataclass(slots=True)
class _Running:
    container: Any
    supervisor: Supervisor
    task: asyncio.Task[None]


@dataclass(slots=True)
class Kubelet:
    """Starts, restarts and ends the processes of the operator's Deployments."""

    cluster: Cluster
    folder: Path
    log: Log
    handler: AdmissionHandler | None = None
    running: dict[str, _Running] = field(default_factory=dict)

    async def follow(self) -> None:
        """Look at all Deployments and act."""
        listed = (await self.cluster.reader.list(DEPLOYMENT, Selection(HERE))).objects
        wanted = {one["metadata"]["name"]: one for one in listed if "command" in container_of(one)}
        for name in [*self.running]:
            running = self.running[name]
            is_as_wanted = name in wanted and container_of(wanted[name]) == running.container
            if not is_as_wanted or running.task.done():
                await self.end(name)
        for name, deployment in wanted.items():
            with suppress(NotFound):  # A volume is not there yet: its pod waits.
                spec = deployment["spec"]["template"]["spec"]
                await mount(self.cluster, self.folder / name, spec)
                if name not in self.running:
                    await self._start(name, deployment)
        for pod in (await self.cluster.reader.list(POD, Selection(HERE))).objects:
            if not pod["spec"].get("nodeName"):  # What kube-scheduler would do.
                await self.cluster.writer.bind(Key(HERE, pod["metadata"]["name"]), "system-0")

    def apps(self) -> set[str]:
        return {*self.running}

    def unready(self) -> list[str]:
        return [name for name, one in self.running.items() if one.supervisor.readiness()]

    async def end(self, name: str) -> None:
        ended = self.running.pop(name)
        ended.supervisor.stop()
        with suppress(LeadershipLost):  # It is started again, as a container is.
            await ended.task

    async def close(self) -> None:
        for name in [*self.running]:
            await self.end(name)

    async def review(self, path: str, body: bytes) -> bytes:
        assert self.handler is not None, "webhooks are registered and nobody is there"
        return msgspec.json.encode(self.handler.answer(path, msgspec.json.decode(body)))

    async def _start(self, name: str, deployment: Any) -> None:
        container, spec = container_of(deployment), deployment["spec"]["template"]["spec"]
        service = _COMMANDS[container["command"][1]]
        args = [placed(self.folder / name, arg) for arg in container["args"]]
        command = COMMANDS[service.name].load(service.name)
        written = command.make_context(service.name, args).params
        given = {key: flag.value(written[key]) for key, flag in service.flags.items()}
        process, config = service.configured(given)
        connection = await self._connection(name, spec["serviceAccountName"])
        writer, log = Writer(connection, f"muster-{service.name}"), self.log.child(name)
        elector = None
        if process.lease is not None:
            elector = Elector(Reader(connection), writer, process.lease, name, log=log)
        supervisor = Supervisor(
            name, connection, log=log, elector=elector, recorder=Recorder(writer, name, log=log)
        )
        built = service.wiring.build(supervisor, _in_process(config))
        if isinstance(built, AdmissionHandler):
            self.handler = built
        task = asyncio.create_task(supervisor.run(), name=name)
        self.running[name] = _Running(container, supervisor, task)

    async def _connection(self, who: str, account: str) -> Connection:
        found = await self.cluster.reader.get(ACCOUNT, Key(HERE, account))
        token = self.cluster.server.tokens.issue(found, self.cluster.clock.now_s(), 10**8)
        transport = self.cluster.transport(who, token)
        return Connection(transport, self.cluster.clock, Rand(len(who)), user_agent=who)


def placed(folder: Path, arg: str) -> str:
    """A flag with the paths of this machine in place of those that a container sees."""
    for path in (*_MOUNTED, _WRITTEN):
        arg = arg.replace(path, str(folder))
    return arg


async def mount(cluster: Cluster | KubeCluster, folder: Path, spec: Any) -> None:
    """Config maps and secrets of a pod as files, in place of where its container would see them."""
    volumes = {one["name"]: one for one in spec.get("volumes", ())}
    (container,) = spec["containers"]
    for mounted in container.get("volumeMounts", ()):
        if mounted["mountPath"].startswith(_MOUNTED):
            where = placed(folder, mounted["mountPath"])
            await _write(cluster, Path(where), volumes[mounted["name"]])


async def _write(cluster: Cluster | KubeCluster, where: Path, volume: Any) -> None:
    if "configMap" in volume:
        key = Key(HERE, volume["configMap"]["name"])
        data = (await cluster.reader.get(CONFIG_MAP, key))["data"]
        items = volume["configMap"].get("items")
        paths = {one["key"]: one["path"] for one in items} if items else {key: key for key in data}
        files = {path: data[key].encode() for key, path in paths.items()}
    else:
        key = Key(HERE, volume["secret"]["secretName"])
        data = (await cluster.reader.get(SECRET, key))["data"]
        files = {name: base64.b64decode(text) for name, text in data.items()}
    _put(where, files)


def _put(where: Path, files: Mapping[str, bytes]) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (where / name).exists() or (where / name).read_bytes() != content:
            (where / name).write_bytes(content)


def container_of(made: Any) -> Any:
    """Of a pod, or of a Deployment's pods."""
    spec = made["spec"]
    (container,) = spec.get("template", made)["spec"]["containers"]
    return container


def _in_process(config: Any) -> Any:
    """Without sockets and threads, for neither knows of virtual time."""
    match config:
        case SchedulerServiceConfig():
            return replace(config, offload=offload_here())
        case AdmissionServiceConfig():
            return replace(config, host="", tls=None)
    return config


class Host(Protocol):
    """Runs what Deployments say, somewhere."""

    async def follow(self) -> None: ...

    def unready(self) -> list[str]: ...

    def apps(self) -> set[str]: ...


@dataclass(slots=True)
class AnyOperated:
    """A cluster that the operator runs."""

    lab: Lab
    kubelet: Host

    async def until(self, so: Callable[[], Awaitable[bool]], why: str, within_s: int = 300) -> None:
        for _ in range(within_s):
            await self.turn()
            if await so():
                return
            await self.lab.clock.sleep(1.0)
        raise AssertionError(f"not so within {within_s} s: {why}")

    async def until_ready(self, kind: Any, name: str) -> None:
        async def ready() -> bool:
            found = await self.lab.get(kind, name)
            listed = (found.get("status") or {}).get("conditions", ())
            now = ("Ready", "True", found["metadata"]["generation"])
            told = [(one["type"], one["status"], one["observedGeneration"]) for one in listed]
            return now in told

        await self.until(ready, f"{kind.kind} {name} is ready")
        await self.until(self._all_ready, "every service is ready")

    async def _all_ready(self) -> bool:
        return not self.kubelet.unready()

    async def until_running(self, prefix: str, pods: int) -> dict[str, str]:
        async def so() -> bool:
            return len(await self.lab.running(prefix)) == pods

        await self.until(so, f"{pods} pods {prefix}* run")
        return await self.lab.running(prefix)

    async def turn(self) -> None:
        """What kubelets and kube-scheduler do of themselves."""
        await self.kubelet.follow()


@dataclass(slots=True)
class Operated(AnyOperated):
    """The same in this process, under virtual time."""

    kubelet: Kubelet


def operated(
    story: Callable[[Operated], Awaitable[None]],
    nodes: Sequence[NodeGroup],
    folder: Path,
    kinds_of: str = "",
    **shard: Any,
) -> None:
    """Tell a story on a cluster with an operator, a Config, a shard and two queues; and with the
    kinds of another system."""

    async def main(clock: Clock) -> None:
        kubelets: list[Kubelet] = []

        async def review(path: str, body: bytes) -> bytes:
            return await kubelets[0].review(path, body)

        plan = ClusterPlan(nodes=(_SYSTEM, *nodes), webhooks={(HERE, "admission"): review})
        async with Cluster(plan, clock=clock) as cluster:
            log = Log("operated", TextSink(clock=clock), Level.WARNING)
            kubelets.append(Kubelet(cluster, folder, log))
            for definition in DEFINITIONS:
                await ensure(cluster.writer, DEFINITION, manifest(definition))
            for body in definitions(kinds_of) if kinds_of else ():
                await ensure(cluster.writer, DEFINITION, body)
            await ensure(cluster.writer, NAMESPACE, {"metadata": {"name": HERE}})
            world = Operated(Lab(cluster, Installation(), clock), kubelets[0])
            try:
                await cluster.start(HostedService("operator", _operator, roles.rights(DEFAULT)))
                for want in defaults(_CONFIG):
                    spec = {**_SPEC, "SchedulingShard": shard}.get(want.kind.kind)
                    spec = want.body["spec"] if spec is None else spec
                    await cluster.writer.create(want.kind, {**want.body, "spec": spec})
                await world.until(lambda: _accounts_are_there(cluster), "accounts are there")
                await cluster.start(_reservations())
                await story(world)
                await world.lab.check()
            finally:
                await kubelets[0].close()

    run_virtually(main)


_CONFIG = Config(spec=ConfigSpec(namespace=HERE))
_SPEC: dict[str, Any] = {"Config": {"namespace": HERE, "admission": {"gpuSharing": True}}}


def _operator(supervisor: Supervisor) -> None:
    wiring.build(supervisor, wiring.OperatorServiceConfig(release=Release("registry.example", "1")))


def _reservations() -> HostedService:
    """The agents inside reservation pods, under the account that the operator made for them."""
    return HostedService(
        DEFAULT.reservation_service_account,
        lambda supervisor: reservation_pods.build(supervisor, DEFAULT),
        Rights(),
        DEFAULT.reservation_namespace,
    )


async def _accounts_are_there(cluster: Cluster) -> bool:
    found = (await cluster.reader.list(ACCOUNT, Selection(DEFAULT.reservation_namespace))).objects
    return any(one["metadata"]["name"] == DEFAULT.reservation_service_account for one in found)
