"""Our services as processes of their own on a real control plane, each behind a proxy of its own.

The proxy sees every write of its process with its moment, and may strike one; a process is ended,
frozen and thawed by signals, as a node would do it. Admission and the reservation agents, whom the
API server must reach, stay in this process.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.support.kube_lab import empty
from tests.support.lab import Lab

from muster.lab.chaos_proxy import ChaosProxy
from muster.lab.control_plane import ControlPlane
from muster.lab.faults import ALL_WRITES, WRITES, Fault, FaultRule, FaultScript, ObservedCall
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster, webhook_server
from muster.lab.programs import Guard, ManagedProgram
from muster.sim.kubelet.nodes import NodeGroup

COMMANDS: Mapping[str, str] = {
    "scheduler": "--listen-address",
    "binder": "--metrics-bind-address",
    "pod-grouper": "--metrics-bind-address",
    "podgroup-controller": "--metrics-bind-address",
    "queue-controller": "--metrics-listen-address",
}
"""By service, the flag that says where it listens."""
_FLAGS: Mapping[str, Sequence[str]] = {
    # Every kind of write is made then.
    "scheduler": ["--bind-requests=always"],
    "binder": ["--resource-reservation-pod-image=muster/reservation"],
}
_IN_THIS_PROCESS = ("admission", "reservation")
_MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class TimedWrite:
    """A write as it came by, and when."""

    at_s: float
    call: ObservedCall

    @property
    def kind(self) -> tuple[str, str]:
        return self.call.verb, self.call.resource


@dataclass(slots=True)
class TimedScript(FaultScript):
    """A script that also notes when each write came by."""

    writes: list[TimedWrite] = field(default_factory=list)

    def fault_for(self, call: ObservedCall) -> Fault | None:
        if ALL_WRITES.fits(call):
            self.writes.append(TimedWrite(time.monotonic(), call))
        return FaultScript.fault_for(self, call)


@dataclass(slots=True)
class Replica:
    """One process of one service."""

    service: str
    script: TimedScript
    program: ManagedProgram
    deaths: int = 0

    def decisions(self, since_s: float = 0.0) -> list[TimedWrite]:
        """Its writes that change the cluster: neither its lease nor an event."""
        return [one for one in self.script.writes if one.at_s > since_s and WRITES.fits(one.call)]

    def lease_writes(self) -> list[TimedWrite]:
        return [one for one in self.script.writes if one.call.resource == "leases"]

    def arm(self, *rules: FaultRule) -> None:
        self.script.writes.clear()
        self.script.arm(rules)


@dataclass(slots=True)
class ServiceProcesses:
    """All that run now, and the cluster that they serve."""

    lab: Lab
    plane: ControlPlane
    replicas: list[Replica] = field(default_factory=list)

    def of(self, service: str) -> list[Replica]:
        return [one for one in self.replicas if one.service == service]


Story = Callable[[ServiceProcesses], Awaitable[None]]


def with_processes(
    plane: ControlPlane,
    story: Story,
    nodes: Sequence[NodeGroup],
    *,
    replicas: int = 1,
) -> None:
    """Tell a story; at its end the cluster is checked, and emptied for the next."""
    product = Installation(
        without=[one.name for one in Installation().services if one.name not in _IN_THIS_PROCESS],
        webhook_server=webhook_server(plane),
    )

    async def main() -> None:
        async with KubeCluster(plane, nodes) as cluster:
            lab = Lab(cluster, product, cluster.clock, look_every_s=0.1)
            try:
                await product.bring_up(cluster)
                async with _running(lab, plane, replicas) as processes:
                    await story(processes)
                    await lab.check()
            finally:
                await empty(cluster, lab)

    asyncio.run(main())


@asynccontextmanager
async def _running(lab: Lab, plane: ControlPlane, replicas: int) -> AsyncIterator[ServiceProcesses]:
    guard, found = Guard(), ServiceProcesses(lab, plane)
    async with AsyncExitStack() as stack:
        stack.callback(guard.close)
        for service in COMMANDS:
            for number in range(replicas):
                given = ["--leader-elect"] if replicas > 1 else []
                replica = await _replica(
                    stack, plane, guard, service, number, [*given, *_FLAGS.get(service, ())]
                )
                found.replicas.append(replica)
        try:
            yield found
        except Exception as error:
            for replica in found.replicas:
                error.add_note(f"-- {replica.program.name}: {replica.program.log_tail()}")
            raise


async def _replica(
    stack: AsyncExitStack,
    plane: ControlPlane,
    guard: Guard,
    service: str,
    number: int,
    flags: Sequence[str],
) -> Replica:
    script = TimedScript()

    async def kill() -> None:
        replica.deaths += 1
        replica.program.kill()
        replica.program.start()

    proxy = await stack.enter_async_context(ChaosProxy(plane, script, kill))
    command = [
        *_MUSTER,
        service,
        f"--kubeconfig={proxy.kubeconfig()}",
        f"{COMMANDS[service]}=127.0.0.1:0",
        *flags,
    ]
    name = f"{service}-{number}"
    program = ManagedProgram(name, command, plane.folder / f"{name}.log", guard)
    program.start()
    stack.callback(program.kill)
    replica = Replica(service, script, program)
    return replica
