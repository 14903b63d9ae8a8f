"""Every service twice, each process with its own connection, clock, chance and gate.

Whoever ends is started again after a while, as a Deployment does it. What ends a process by itself
is kept: losing the lease is a good reason, and there are few others.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api import names
from muster.api.meta import Key
from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.events import Recorder
from muster.client.read import Reader
from muster.client.write import Writer
from muster.engine.config.reader import ConfigError
from muster.lab.clocks import ClockAhead
from muster.lab.cluster import Cluster
from muster.lab.hosting import ACCOUNT, HostedService, ensure_account
from muster.lab.install import Installation, until_ready
from muster.lab.simulate.gates import GATE, Gate
from muster.lab.simulate.network import Network, ReplicaTransport, service_of
from muster.runtime.supervisor import Supervisor

NAMESPACE: Final = names.DEFAULT.namespace
# Of those who are elected, by service. Admission serves in every replica, and reservation stands
# for what runs inside the pods.
LEASES: Final[Mapping[str, str]] = {
    "podgrouper": names.LEASE_POD_GROUPER,
    "podgroups": names.LEASE_POD_GROUP_CONTROLLER,
    "queues": names.LEASE_QUEUE_CONTROLLER,
    "binder": names.LEASE_BINDER,
    "scheduler": names.DEFAULT.scheduler_lease(),
    "scaleadjuster": names.LEASE_SCALE_ADJUSTER,
}
SERVICES: Final = (*LEASES, "admission", "reservation")
_ALONE: Final = ("reservation",)
_RESTARTS: Final = Backoff(first_s=1.0, longest_s=20.0)
_TOKEN_S: Final = 10 * 365 * 86400
_LEASE_STORAGE: Final = "leases.coordination.k8s.io"


@dataclass(slots=True)
class Replica:
    """One of the processes of a service, over all its lives."""

    name: str
    service: HostedService
    product: Installation
    clock: Clock
    gate: Gate
    lives: int = 0
    failures: int = 0
    identity: str = ""
    transport: ReplicaTransport | None = None
    supervisor: Supervisor | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def serves(self) -> bool:
        return self.supervisor is not None and not self.gate.is_shut


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """A process that ended by itself."""

    replica: str
    at_s: float
    why: str
    is_lost_lease: bool


@dataclass(slots=True)
class Replicas:
    """All processes of our services."""

    cluster: Cluster
    network: Network
    products: tuple[Installation, ...]
    log: Log
    skews_s: Mapping[str, float]
    seed: int
    ends: list[ProcessEnd] = field(default_factory=list)
    by_name: dict[str, Replica] = field(default_factory=dict)
    _aftermath: set["asyncio.Task[None]"] = field(default_factory=set)
    _is_over: bool = False

    async def start(self) -> None:
        for number, product in enumerate(self.products):
            for service in product.services:
                if service.name in _ALONE and number:
                    continue
                await ensure_account(self.cluster.writer, service)
                name = f"{service.name}-{number}"
                clock = ClockAhead(self.cluster.clock, self.skews_s.get(name, 0.0))
                self.by_name[name] = Replica(name, service, product, clock, Gate(name))
        for replica in self.by_name.values():
            await self._begin(replica)
        started = [one.supervisor for one in self.by_name.values() if one.supervisor]
        await until_ready(started, self.cluster.clock)

    async def stop(self) -> None:
        """End all; nobody is started again."""
        self._is_over = True
        for task in list(self._aftermath):
            task.cancel()
        for replica in self.by_name.values():
            await self._end(replica)

    def leads(self, identity: str) -> bool:
        """Whether the stored lease of that process's service is its own."""
        service = service_of(identity)
        if service not in LEASES:
            return True
        lease = self.cluster.server.store.get(_LEASE_STORAGE, NAMESPACE, LEASES[service])
        return lease is not None and lease["spec"].get("holderIdentity") == identity

    def kill(self, name: str, after: int = 0) -> None:
        replica = self.by_name[name]
        replica.gate.after(after, lambda: self._later(self._killed(replica)))

    def freeze(self, name: str, for_s: float, after: int = 0) -> None:
        gate = self.by_name[name].gate

        def shut() -> None:
            if not gate.is_shut:
                gate.shut()
                self._later(self._thawed(gate, for_s))

        gate.after(after, shut)

    def calm(self) -> None:
        """Nobody is killed or stopped any more, and who stands still goes on."""
        for replica in self.by_name.values():
            replica.gate.after(-1, lambda: None)
            if replica.gate.is_shut:
                replica.gate.open()

    async def review(self, path: str, body: bytes) -> bytes:
        """What the API server asks of admission: whoever serves answers."""
        for number, product in enumerate(self.products):
            if self.by_name[f"admission-{number}"].serves:
                answer: Callable[[str, bytes], Awaitable[bytes]]
                (answer,) = product.webhooks.values()
                return await answer(path, body)
        return msgspec.json.encode({})  # Not a review: the call has failed.

    # --- Lives ------------------------------------------------------------------------------------

    async def _begin(self, replica: Replica) -> None:
        replica.lives += 1
        service = replica.service
        account = await self.cluster.reader.get(ACCOUNT, Key(service.namespace, service.name))
        token = self.cluster.server.tokens.issue(account, self.cluster.clock.now_s(), _TOKEN_S)
        replica.identity = f"{service.name}-{replica.name.rpartition('-')[2]}.{replica.lives}"
        replica.transport = ReplicaTransport(
            self.cluster.transport(replica.name, token),
            self.network,
            replica.name,
            replica.identity,
            self.leads,
        )
        context = copy_context()
        context.run(GATE.set, replica.gate)
        try:
            replica.supervisor = supervisor = context.run(self._built, replica)
        except ConfigError:
            self._later(self._begun_again(replica))
            return
        loop = asyncio.get_running_loop()
        replica.task = loop.create_task(supervisor.run(), name=replica.name, context=context)
        self._later(self._watched(replica, replica.task))

    def _built(self, replica: Replica) -> Supervisor:
        service, transport = replica.service, replica.transport
        assert transport is not None
        seed = int.from_bytes(
            hashlib.sha256(f"{self.seed}/{replica.identity}".encode()).digest()[:6]
        )
        connection = Connection(
            transport, replica.clock, Rand(seed), user_agent=f"muster-{replica.name}"
        )
        log = self.log.child(replica.name)
        writer = Writer(connection, f"muster-{service.name}")
        elector = None
        if service.name in LEASES:
            lease = Key(NAMESPACE, LEASES[service.name])
            elector = Elector(Reader(connection), writer, lease, replica.identity, log=log)
        recorder = Recorder(writer, service.name, log=log, instance=replica.identity)
        supervisor = Supervisor(
            service.name, connection, log=log, elector=elector, recorder=recorder
        )
        service.build(supervisor)
        return supervisor

    async def _watched(self, replica: Replica, task: "asyncio.Task[None]") -> None:
        """Start it anew when it ends."""
        await asyncio.wait({task})  # Not gathered: whoever no longer watches ends nobody.
        if self._is_over or replica.task is not task or task.cancelled():
            return
        ended = task.exception()
        is_lost = isinstance(ended, LeadershipLost)
        at_s = self.cluster.clock.monotonic_s()
        self.ends.append(ProcessEnd(replica.name, at_s, repr(ended), is_lost))
        replica.supervisor = None
        replica.failures += 1
        await self.cluster.clock.sleep(_RESTARTS.delay_s(replica.failures))
        if replica.task is task and not self._is_over:
            await self._begin(replica)

    async def _begun_again(self, replica: Replica) -> None:
        """It was given a configuration that is no good, and ended: until somebody mends that."""
        lives = replica.lives
        replica.failures += 1
        await self.cluster.clock.sleep(_RESTARTS.delay_s(replica.failures))
        if replica.lives == lives and not self._is_over:
            await self._begin(replica)

    async def _killed(self, replica: Replica) -> None:
        if self._is_over or replica.supervisor is None:
            return
        lives = replica.lives
        await self._end(replica)
        await self.cluster.clock.sleep(_RESTARTS.delay_s(1))
        if replica.lives == lives and not self._is_over:
            await self._begin(replica)

    async def _end(self, replica: Replica) -> None:
        """As a power cut would: nothing leaves the process any more."""
        task, supervisor = replica.task, replica.supervisor
        replica.task = replica.supervisor = None
        if replica.transport is not None:
            replica.transport.is_dead = True
        if replica.gate.is_shut:
            replica.gate.open()
        if supervisor is not None and task is not None:
            supervisor.kill()
            await asyncio.gather(task, return_exceptions=True)

    async def _thawed(self, gate: Gate, for_s: float) -> None:
        await self.cluster.clock.sleep(for_s)
        if gate.is_shut:
            gate.open()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Outside of every gate: the world does it."""
        context = copy_context()
        context.run(GATE.set, None)
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._aftermath.add(task)
        task.add_done_callback(self._aftermath.discard)
