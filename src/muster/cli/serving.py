"""One service as a process: its cluster, its lease, its probes, from start to signal."""

import asyncio
import gc
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from muster.api.meta import Key
from muster.base.clock import Clock, SystemClock
from muster.base.free_memory import return_free_memory
from muster.base.log import JsonSink, Level, Log, TextSink
from muster.base.log_stream import LogStream
from muster.base.rand import Rand
from muster.cli.failing import failed
from muster.cli.pages import REVIEW_LIMITS, BadPages, PageSettings, pages
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.errors import BadAccess
from muster.client.events import Recorder
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access, load_access
from muster.client.limits import Limits
from muster.client.live_access import LiveAccess
from muster.client.read import Reader
from muster.client.write import Writer
from muster.engine.config.reader import ConfigError
from muster.runtime.httpd import CannotListen, Probes
from muster.runtime.loop_lag import LoopLag
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor, run_until_signalled
from muster.runtime.tracing import NoTracing
from muster.services.reservation.discover import NoDevice


@dataclass(frozen=True, slots=True)
class Process:
    """What every service is told."""

    name: str
    kubeconfig: Path | None = None
    lease: Key | None = None
    """None: no election, this process leads."""
    pages: PageSettings = field(default_factory=PageSettings)
    qps: float = 500.0
    burst: int = 1000
    """More than the original's 50: 30 pods a second need three writes each of one service. Against
    too many at once a server defends itself, by priority and fairness."""
    verbosity: int = 3
    log_json: bool = False
    context: str = ""
    """Of the kubeconfig; without it the current one."""
    act_as: str = ""
    """The user in whose name everything is asked; without it whoever we are."""


_USUAL = gc.get_threshold()
_SELDOM = 1_000_000
"""New containers after which the collector looks for garbage until the first lists are there: what
they bring stays, and is walked over for nothing each time."""


def serve(process: Process, build: Callable[[Supervisor], object]) -> None:
    """Run a service; ends the command with a clear line when it cannot start or fails.

    Who loses the lease begins anew, with nothing of what it knew, in the same process: after a long
    outage of the API server a kubelet would wait minutes before it starts the next one.
    """
    stream = LogStream()
    log = _log(process, stream)
    try:
        while True:
            try:
                gc.set_threshold(_SELDOM, *_USUAL[1:])
                asyncio.run(_serve(process, build, log))
                return
            except LeadershipLost as lost:
                log.warning("leadership lost, beginning anew", why=str(lost))
            # What was to stay goes after all.
            gc.unfreeze()
            gc.collect()
    except (BadAccess, BadPages, CannotListen, ConfigError, NoDevice, NoTracing) as problem:
        raise failed(process.name, problem) from None
    finally:
        gc.set_threshold(*_USUAL)
        stream.drained()


def own_identity() -> str:
    """Who holds a lease: no two processes have the same.

    Replicas may share a hostname (hostNetwork), and in a container every first process has id 1.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def _serve(process: Process, build: Callable[[Supervisor], object], log: Log) -> None:
    clock = SystemClock()
    connection = connected(process, clock, log)
    writer = Writer(connection, f"muster-{process.name}")
    identity = own_identity()
    elector = None
    if process.lease is not None:
        elector = Elector(Reader(connection), writer, process.lease, identity, log=log)
    recorder = Recorder(writer, process.name, log=log, instance=identity)
    supervisor = Supervisor(process.name, connection, log=log, elector=elector, recorder=recorder)
    build(supervisor)
    probes = Probes(
        supervisor.health, supervisor.readiness, supervisor.registry, supervisor.debug, log
    )
    reviews = connection.apart(REVIEW_LIMITS)
    supervisor.add(pages(process.pages, probes, reviews, log), Phase.SERVING)
    supervisor.add(Loop("memory", _settle), Phase.SYNCED)
    supervisor.add(Loop("lag", LoopLag(clock, supervisor.registry).run), Phase.SERVING)
    try:
        await run_until_signalled(supervisor)
    finally:
        await connection.close()


def connected(process: Process, clock: Clock, log: Log) -> Connection:
    """A client of the cluster that the process is to use."""

    def load() -> Access:
        found = load_access(clock, os.environ, path=process.kubeconfig, context=process.context)
        if not process.act_as:
            return found
        return replace(found, headers=[*found.headers, ("Impersonate-User", process.act_as)])

    access = LiveAccess(load, clock, log.child("access"))
    return Connection(
        HttpsTransport(access, clock),
        clock,
        Rand(int.from_bytes(os.urandom(6))),
        user_agent=f"muster-{process.name}",
        limits=Limits(process.qps, process.burst),
    )


async def _settle() -> None:
    """What the first lists brought stays: the collector need not walk over it again and again."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
    return_free_memory()
    await asyncio.Event().wait()


def _log(process: Process, stream: LogStream) -> Log:
    level = Level.DEBUG if process.verbosity > 3 else Level.INFO
    sink = JsonSink(stream) if process.log_json else TextSink(stream)
    return Log(process.name, sink, level)
