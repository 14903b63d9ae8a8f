"""A whole cluster in this process: API server, kubelets, Kubernetes' controllers, our services.

    async with Cluster(Plan(nodes=[NodeGroup("dgx", count=8, gpus=Gpus())]), clock=clock) as lab:
        await lab.writer.create(...)

On a real clock or a virtual one (`run_virtually`). Services meet only in the API server, each with
its own service account, as they would on a real cluster. Under virtual time the same plan and seed
give the same run: `lab.write_log` is every write with its answer, in order, and two runs can be
compared by it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Level, Log, TextSink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.events import Recorder
from muster.client.read import Reader
from muster.client.transport import Request, Response, Transport
from muster.client.write import Writer
from muster.lab.hosting import ACCOUNT, HostedService, Hosting, Wrap, ensure_account, unwrapped
from muster.runtime.supervisor import Supervisor
from muster.sim.apiserver.admission import Handler, LocalWebhookCaller, WebhookCaller
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.kubelet.fleet import Fleet, Heartbeat
from muster.sim.kubelet.nodes import NodeGroup
from muster.sim.kubelet.stages import Habits
from muster.sim.workloads import wiring as workloads
from muster.sim.workloads.wiring import CONTROLLERS

ADMIN_TOKEN: Final = "lab-admin"
# Heartbeats are most of what happens in a quiet cluster: few of them, or an hour takes long.
_BEATS_PER_S: Final = 2.0
_TOKEN_S: Final = 10 * 365 * 86400


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What the cluster is to be."""

    nodes: Sequence[NodeGroup] = ()
    services: Sequence[HostedService] = ()
    # Which of Kubernetes' own controllers run; all unless told otherwise.
    controllers: Sequence[str] = CONTROLLERS
    habits: Habits = field(default_factory=Habits)
    heartbeat: Heartbeat | None = None
    # Whether kubelets record events about pods, for people who look.
    kubelet_events: bool = False
    schedulers: Sequence[str] = ()
    """Told to pods that name none."""
    seed: int = 0
    # Webhooks in this process: service (namespace, name) -> handler. Without sockets there is no
    # other way to one.
    webhooks: Mapping[tuple[str, str], Handler] = field(default_factory=dict)
    # What goes wrong between each of us and the server.
    wrap: Wrap = unwrapped
    log_level: Level = Level.WARNING
    # Every write of the run, for comparisons; a cluster that lives for days goes without.
    records_writes: bool = True


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """One write and its answer, as a line of the write log."""

    at_s: float
    who: str
    method: str
    path: str
    status: int
    digest: str


class Cluster:
    """The cluster, between `async with` and its end."""

    def __init__(
        self,
        plan: ClusterPlan,
        *,
        clock: Clock,
        log: Log | None = None,
        server: Embedded | None = None,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.write_log: list[WriteRecord] = []
        self._log = log or Log("lab", TextSink(clock=clock), plan.log_level)
        self.server = server or self._own_server()
        self._admin_token = self.server.settings.admin_token
        admin = self._connection("lab", self._admin_token)
        self.reader, self.writer = Reader(admin), Writer(admin, "lab")
        self.fleet = Fleet(
            *self._executor("kubelet", self._admin_token),
            plan.nodes,
            clock=clock,
            log=self._log.child("kubelet"),
            habits=plan.habits,
            seed=plan.seed,
            tells=plan.kubelet_events,
            heartbeat=plan.heartbeat or Heartbeat.for_nodes(_count(plan.nodes), _BEATS_PER_S),
        )
        self._stack = AsyncExitStack()
        self._hosting = Hosting(self._log)

    async def __aenter__(self) -> "Cluster":
        try:
            await self._stack.enter_async_context(self.server)
            self._hosting.run("kubelets", self.fleet.run())
            await self.fleet.ready()
            if self.plan.controllers:
                await self._start_controllers()
            for service in self.plan.services:
                await self.start(service)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        failures = await self._stop()
        if error is None and failures:
            raise failures[0]

    @property
    def supervisors(self) -> Mapping[str, Supervisor]:
        return self._hosting.supervisors

    async def start(self, service: HostedService) -> Supervisor:
        """Run a service under its own account; also one that was stopped before."""
        await ensure_account(self.writer, service)
        account = await self.reader.get(ACCOUNT, Key(service.namespace, service.name))
        token = self.server.tokens.issue(account, self.clock.now_s(), _TOKEN_S)
        return self._hosting.host(service, self._connection(service.name, token))

    async def stop(self, name: str) -> None:
        """End a service (or `controllers`) gracefully."""
        await self._hosting.stop(name)

    async def kill(self, name: str) -> None:
        """End a service in the middle of whatever it does."""
        await self._hosting.kill(name)

    async def settled(self, quiet_s: float = 5.0, within_s: float = 3600.0) -> None:
        """Wait until nothing but heartbeats has been written for a while."""
        until_s = self.clock.monotonic_s() + within_s
        seen = -1
        while self.clock.monotonic_s() < until_s:
            now = sum(1 for line in self.write_log if "/leases/" not in line.path)
            if now == seen:
                return
            seen = now
            await self.clock.sleep(quiet_s)
        raise TimeoutError(f"the cluster did not settle within {within_s:g} s")

    def transport(self, who: str, token: str = "") -> Transport:
        """A way in with this token, or the administrator's; what it writes is in the write log."""
        inner = self.server.transport(token or self._admin_token)
        if not self.plan.records_writes:
            return inner
        return _RecordingTransport(inner, who, self.clock, self.write_log)

    # --- Parts ------------------------------------------------------------------------------------

    def _own_server(self) -> Embedded:
        settings = EmbeddedSettings(seed=self.plan.seed, admin_token=ADMIN_TOKEN)
        caller: WebhookCaller = LocalWebhookCaller(dict(self.plan.webhooks))
        log = self._log.child("apiserver")
        return Embedded(settings, EmbeddedDependencies(clock=self.clock, log=log, caller=caller))

    async def _start_controllers(self) -> None:
        connection = self._connection("controllers", self._admin_token)
        log, writer = self._log.child("controllers"), Writer(connection, "controllers")
        recorder = Recorder(writer, "controllers", log=log) if self.plan.kubelet_events else None
        supervisor = Supervisor("controllers", connection, log=log, recorder=recorder)
        workloads.build(supervisor, writer, self.plan.controllers, self.plan.schedulers)
        self._hosting.supervise("controllers", supervisor)

    def _connection(self, who: str, token: str) -> Connection:
        # Each has a source of chance of its own, so that one more call of one changes no other.
        seed = int.from_bytes(hashlib.sha256(f"{self.plan.seed}/{who}".encode()).digest()[:6])
        transport = self.plan.wrap(who, self.transport(who, token), self.clock)
        return Connection(transport, self.clock, Rand(seed), user_agent=f"muster-{who}")

    def _executor(self, who: str, token: str) -> tuple[Reader, Writer]:
        connection = self._connection(who, token)
        return Reader(connection), Writer(connection, who)

    async def _stop(self) -> list[Exception]:
        failures = await self._hosting.close()
        await self._stack.aclose()
        return failures


def _count(groups: Sequence[NodeGroup]) -> int:
    return sum(group.count for group in groups)


@dataclass(frozen=True, slots=True)
class _RecordingTransport:
    """A transport that writes down every change that goes through it."""

    _inner: Transport
    _who: str
    _clock: Clock
    _write_log: list[WriteRecord]

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        response = await self._inner.send(request, timeout_s)
        if request.method != "GET":
            answer = await response.read()
            digest = hashlib.sha256(request.body + b"\0" + answer).hexdigest()[:16]
            self._write_log.append(
                WriteRecord(
                    self._clock.monotonic_s(),
                    self._who,
                    request.method,
                    request.path,
                    response.status,
                    digest,
                )
            )
        return response

    async def close(self) -> None:
        await self._inner.close()
