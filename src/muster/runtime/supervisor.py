"""Start order, readiness, leader election and graceful stop of one service.

Parts start by phase (see `parts.py`): what serves, then the informers until all have synced, then
what reads the local copies, then, where the lease is held, what changes the cluster. They stop in
the opposite order. A part that fails or ends by itself, or a lease that is lost, stops the whole
service with that error: whoever runs the process starts it anew, which is simpler and safer than
half a service.

Where there is an election, whatever changes the cluster asks whether we lead before each write
(`Connection.leads_for_s`). A lost lease cuts the leading parts off at once; when we are asked to
stop they may finish what they began, while the lease is renewed, and it is let go only after that.
Events are written by the leader: the other replicas see the same, and theirs wait until they lead.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from muster.api.kinds import Kind
from muster.base.log import Log
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.errors import ApiError, Deposed, Unreachable
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.read import EVERYTHING, Reader, Selection, Transform
from muster.runtime.controller import STEADY_PACE, Controller, Pace
from muster.runtime.informers import Informers
from muster.runtime.meters import (
    ClientMeters,
    ControllerMeters,
    meter_events,
    meter_leader,
    meter_log,
)
from muster.runtime.parts import Loop, Part, PartEnded, Phase, ended
from muster.runtime.reconciler import Reconciler

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


# Why a part cannot work; empty when it can.
Check = Callable[[], str]
_NO_NEWS_S = 120.0
"""Longer than an API server takes to restart, shorter than anybody likes to wait unaware."""


@dataclass(frozen=True, slots=True)
class _Running:
    part: Part
    phase: Phase
    task: asyncio.Task[None]


class Supervisor:
    """Runs the parts of one service."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        *,
        log: Log,
        elector: Elector | None = None,
        recorder: Recorder | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.name = name
        self.connection = connection
        self.clock = connection.clock
        self.reader = Reader(connection)
        self.recorder = recorder
        self.log = log
        self.registry = CollectorRegistry()
        self._controller_meters = ControllerMeters(self.registry)
        self._informers = Informers(
            self.reader, log=log.child("informer"), registry=self.registry, recorder=recorder
        )
        self.debug: dict[str, Callable[[], object]] = {"informers": self._informers.described}
        self.checks: list[Check] = []
        """Of parts: what keeps them from working, for readiness."""
        self.vital_checks: list[Check] = []
        """The same where only a new start helps, for liveness."""
        self.needs_news = True
        """Whether the service can do nothing good with local copies that are minutes old."""
        self._elector = elector
        self._lease: asyncio.Task[None] | None = None
        self._grace_s = grace_s
        self._parts: list[tuple[Phase, Part]] = []
        self._running: list[_Running] = []
        self._reached = Phase.SERVING
        self._stopping = asyncio.Event()
        self._is_killed = False
        self._failure: Exception | None = None
        meter_log(self.registry, lambda: log.dropped)
        client_meters = ClientMeters(self.registry)
        connection.on_outcome = client_meters.observe
        connection.on_turn = client_meters.waited
        if elector is not None:
            connection.leads_for_s = elector.leads_for_s
            meter_leader(self.registry, name, lambda: elector.is_leader)
        if recorder is not None:
            meter_events(self.registry, lambda: recorder.dropped)
            phase = Phase.SERVING if elector is None else Phase.LEADING
            self.add(Loop("events", recorder.run), phase)

    def informer(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        transform: Transform[T] | None = None,
        is_optional: bool = False,
    ) -> Informer[T]:
        """The one informer of this service for that selection: see `Informers.of`."""
        return self._informers.of(kind, selection, transform, is_optional)

    def controller(
        self, name: str, reconciler: Reconciler[K], pace: Pace = STEADY_PACE
    ) -> Controller[K]:
        """A controller that runs where this service leads; what it watches is still to be said."""
        log = self.log.child(name.replace(" ", "_"))
        made = Controller(
            name, reconciler, clock=self.clock, log=log, meters=self._controller_meters, pace=pace
        )
        self.add(made)
        return made

    def add(self, part: Part, phase: Phase = Phase.LEADING) -> None:
        self._parts.append((phase, part))

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def health(self) -> list[str]:
        """Why this process should be started anew; empty when it is well."""
        failed = [f"{type(self._failure).__name__}: {self._failure}"] if self._failure else []
        return [*failed, *_said(self.vital_checks)]

    def readiness(self) -> list[str]:
        """What is still missing; empty when ready. A replica that does not lead is ready."""
        missing = [*self.health(), *self._informers.missing(), *_said(self.checks)]
        if self.needs_news:
            missing += self._informers.broken(_NO_NEWS_S)
        if self._reached < Phase.SYNCED and not missing:
            missing.append("starting")
        if self._stopping.is_set():
            missing.append("stopping")
        return missing

    def being_read(self) -> list[tuple[str, int, int]]:
        """Kinds whose first list is on its way: how many objects are here, and of how many."""
        return self._informers.being_read()

    def refused(self) -> Mapping[str, ApiError]:
        """Kinds that we may not read, and what the server says."""
        return self._informers.refused()

    def unreachable(self) -> Unreachable | None:
        """Why the server cannot be reached, where nothing has ever come from it."""
        return self._informers.unreachable()

    def unheard(self, longer_than_s: float) -> Mapping[str, float]:
        """Kinds of which there has been no news for so long: for how many seconds."""
        return self._informers.unheard(longer_than_s)

    async def run(self) -> None:
        """Until `stop`; raises what made a part fail."""
        starting = asyncio.create_task(self._watched("start", self._start, may_end=True))
        try:
            await self._stopping.wait()
        finally:
            await ended((starting,))
            if self._is_killed:
                await ended(self._tasks())
            else:
                await self._shut_down()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._stopping.set()

    def kill(self) -> None:
        """End as a power cut would: nobody is asked, nothing is flushed, the lease stays held."""
        self._is_killed = True
        self._stopping.set()

    async def _start(self) -> None:
        self._begin(Phase.SERVING)
        self._launch(self._informers, Phase.SYNCED)
        await self._informers.synced()
        self._begin(Phase.SYNCED)
        if self._elector is not None:
            await self._elector.acquire()
            renewing = self._watched("lease", self._elector.renew)
            self._lease = asyncio.create_task(renewing, name="lease")
        self._begin(Phase.LEADING)
        self.log.info("started", service=self.name)

    def _begin(self, phase: Phase) -> None:
        for wanted, part in self._parts:
            if wanted is phase:
                self._launch(part, phase)
        self._reached = phase

    def _launch(self, part: Part, phase: Phase) -> None:
        task = asyncio.create_task(self._watched(part.name, part.run), name=part.name)
        self._running.append(_Running(part, phase, task))

    async def _watched(
        self, name: str, work: Callable[[], Awaitable[None]], may_end: bool = False
    ) -> None:
        """A part's run, whose end is everybody's. One that is killed first never begins."""
        try:
            await work()
            failure: Exception = PartEnded(f"{self.name}: {name} ended by itself")
            if may_end:
                return
        except asyncio.CancelledError:
            if self._stopping.is_set() or may_end:
                raise
            failure = PartEnded(f"{self.name}: {name} was cancelled by itself")
        except Exception as error:  # noqa: BLE001 - kept, and raised by `run`
            failure = _loss_of_leadership(error) or error
        if not self._stopping.is_set():
            # First of all: whatever else goes wrong here, the service ends, and says why.
            self._failure = failure
            self._stopping.set()
            self.log.error("part failed", service=self.name, part=name, error=repr(failure))

    async def _shut_down(self) -> None:
        if self._elector is None:
            await self._end(Phase.LEADING)
        else:
            await self._step_down(self._elector)
        await self._end(Phase.SYNCED)
        await self._end(Phase.SERVING)
        if self._elector is None:
            await self._flush_events()
        self.log.info("stopped", service=self.name)

    async def _step_down(self, elector: Elector) -> None:
        """End what only a leader may do; then, if we still lead, let go of the lease."""
        if elector.is_leader:
            await self._end(Phase.LEADING)
            await self._flush_events()
        else:
            await ended(self._tasks(Phase.LEADING))
        if self._lease is not None:
            await ended((self._lease,))
        await elector.release()

    def _tasks(self, *phases: Phase) -> list[asyncio.Task[None]]:
        """Those of some phases, or all there are."""
        if phases:
            return [one.task for one in self._running if one.phase in phases]
        lease = [] if self._lease is None else [self._lease]
        return [one.task for one in self._running] + lease

    async def _end(self, phase: Phase) -> None:
        """Ask the parts of a phase to end, give them a while, then insist."""
        ending = [running for running in self._running if running.phase is phase]
        for running in ending:
            running.part.stop()
        tasks = self._tasks(phase)
        if tasks:
            await self._grace(tasks, phase)
        if late := [running.part.name for running in ending if not running.task.done()]:
            self.log.warning("parts did not end in time", parts=late, grace_s=self._grace_s)
        await ended(tasks)

    async def _grace(self, tasks: Collection[asyncio.Task[None]], phase: Phase) -> None:
        """Until they have ended, but not longer than they may, nor than we lead."""
        ended_all = asyncio.ensure_future(asyncio.wait(tasks))
        enders: list[asyncio.Future[Any]] = [ended_all]
        if phase is Phase.LEADING and self._lease is not None:
            enders.append(self._lease)
        await asyncio.wait(enders, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        await ended((ended_all,))

    async def _flush_events(self) -> None:
        if self.recorder is None:
            return
        try:
            async with asyncio.timeout(2.0):
                await self.recorder.flush()
        except (TimeoutError, Deposed):
            self.log.debug("events not written")


def _said(checks: Iterable[Check]) -> list[str]:
    return [text for check in checks if (text := check())]


def _loss_of_leadership(error: Exception) -> LeadershipLost | None:
    """The same error where a part ended only because what it wrote was a leader's to write."""
    match error:
        case LeadershipLost():
            return error
        case Deposed():
            return LeadershipLost(str(error))
        case ExceptionGroup(exceptions=parts):
            found = [_loss_of_leadership(part) for part in parts]
            return found[0] if all(found) else None
    return None


async def run_until_signalled(supervisor: Supervisor) -> None:
    """Run; the first SIGINT or SIGTERM stops gracefully, a second one at once."""
    loop = asyncio.get_running_loop()
    running = asyncio.current_task()
    assert running is not None, "a coroutine runs in a task"

    def stop() -> None:
        if supervisor.is_stopping:
            running.cancel()
        supervisor.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await supervisor.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
