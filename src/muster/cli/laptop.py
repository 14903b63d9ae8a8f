"""The cluster behind `muster up`, from its start to the first signal."""

import asyncio
import errno
import os
import secrets
import signal
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import typer

from muster.api.profiles import ProfileName
from muster.base.clock import Clock
from muster.base.database_file import BadFile
from muster.base.log import Level, Log, TextSink
from muster.base.log_stream import LogStream
from muster.cli.cluster_records import (
    DEFAULT_NAME,
    ClusterRecord,
    ClusterRecords,
    HeldRecord,
    NameTaken,
    NoRecords,
    records_folder,
)
from muster.cli.kubeconfig_file import KubeconfigFile, NotOurs
from muster.cli.pages import PAGE_ADDRESSES, address
from muster.cli.web import DEFAULT_LISTEN, Site, build_web
from muster.engine.config.reader import ConfigError
from muster.engine.profiles.known import profile_of
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.control_plane import ADMIN, ControlPlane, Setup
from muster.lab.demo import Demo, demo_manifests
from muster.lab.demo_past import DemoPast
from muster.lab.dialect_demos import KubeBatchDemo, VolcanoDemo
from muster.lab.ecosystem import SPECIAL_NODES, TOPOLOGY, start_ecosystem
from muster.lab.hosting import HostedService
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster, webhook_server
from muster.lab.kube_programs import NotHere, kube_programs
from muster.lab.programs import free_ports
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.services.scheduler.roles import observer_rights
from muster.sim.apiserver.data_dir import DataDir, InUse
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.apiserver.journal import BadData
from muster.sim.apiserver.kubeconfig import ServerAccess, kubeconfig
from muster.sim.apiserver.serve import Address, ServerIdentity, Serving
from muster.sim.apiserver.store import Store
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line asks for."""

    nodes: int
    gpus: int
    address: Address
    kubeconfig: Path
    data_dir: Path | None
    log_level: Level
    name: str = DEFAULT_NAME
    services: bool = True
    runs_demo: bool = True
    once: bool = False
    on_kube: bool = False
    """On a real control plane instead of the embedded API server."""
    profile: ProfileName = ProfileName.MUSTER
    """Whose dialect is spoken beside our own."""
    scheduler_conf: Path | None = None
    pages_port: int | None = None
    """Of the scheduler's pages; None: the usual one if it is free."""
    ecosystem: bool = True
    """With what people have beside a scheduler: see `muster.lab.ecosystem`."""

    @property
    def native_conf(self) -> Path | None:
        """That of the scheduler of our own objects, which is there beside another profile's."""
        return self.scheduler_conf if self.profile.speaks_kai else None

    @property
    def dialect_conf(self) -> Path | None:
        """That of the other profile's scheduler: the one that is named, else that of its demo."""
        if self.profile not in _DEMOS:
            return None if self.profile.speaks_kai else self.scheduler_conf
        return self.scheduler_conf or demo_manifests(self.profile) / "scheduler.conf"


Home = Cluster | KubeCluster


@dataclass(frozen=True, slots=True)
class Started:
    """A cluster that can be reached."""

    url: str
    kubeconfig: str
    home: Home
    is_resumed: bool = False
    """Whether it goes on with a state of before."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What is there before the cluster: its store and who it is."""

    store: Store
    identity: ServerIdentity
    settings: EmbeddedSettings
    is_resumed: bool


class CannotStart(Exception):
    """Something outside the program is in the way; the message says what and what to do."""


async def run(options: UpOptions, clock: Clock) -> bool:
    """The cluster, from its start to the first signal; whether all went as it should."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        is_well = await _unless(stop, _start_and_tell(options, clock, stack))
        if not options.once and not stop.is_set():
            typer.echo("\nThe cluster stays up. Ctrl-C stops it.")
            await stop.wait()
        typer.echo("\nStopping.")
    return is_well


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, bool]) -> bool:
    """The work's answer; True when somebody asks to stop before there is one."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else True
    finally:
        stopped.cancel()
        if working.cancel():
            # What it has begun is taken back before the cluster under it goes.
            await asyncio.gather(working, return_exceptions=True)


async def _start_and_tell(options: UpOptions, clock: Clock, stack: AsyncExitStack) -> bool:
    """Everything up to the end of the demo."""
    began_s = clock.monotonic_s()
    record, held, config = _claim(options, clock, stack)
    port = _pages_port(options.pages_port) if options.services else None
    opened = None if options.on_kube else _open(options, clock, stack)
    is_resumed = opened is not None and opened.is_resumed
    options = replace(options, runs_demo=options.runs_demo and not is_resumed)
    past = _past(options, clock, stack)
    ours = Installation(
        conf_file=options.native_conf or past.conf,
        usage_store=past.store,
        usage_in_cluster=True,
        dialect=options.profile,
        dialect_conf=options.dialect_conf,
        cycle_log_folder=past.folder.parent / "cycles",
        journal_folder=past.folder.parent / "journal",
        scheduler_pages=None if port is None else (_LOOPBACK, port),
    )
    try:
        if opened is None:
            started = await _start_on_kube(options, clock, stack, ours)
        else:
            started = await _start(options, clock, stack, ours, opened)
    except ConfigError as problem:
        raise CannotStart(str(problem)) from None
    _write(config, started.kubeconfig, stack, keeps=options.data_dir is not None)
    dashboard = await _dashboard(options, started.home, ours)
    pages = "" if port is None else f"http://{_LOOPBACK}:{port}"
    record = msgspec.structs.replace(record, url=started.url, pages=pages)
    held.write(msgspec.structs.replace(record, dashboard=dashboard))
    _announce(options, started, dashboard, pages, clock.monotonic_s() - began_s)
    return await _run_demo(options, started.home, clock, past) if options.runs_demo else True


# --- What must be there first -----------------------------------------------------------------


def _claim(
    options: UpOptions, clock: Clock, stack: ExitStack | AsyncExitStack
) -> tuple[ClusterRecord, HeldRecord, KubeconfigFile]:
    """The cluster's name and its kubeconfig are this process's, or nobody's."""
    config = KubeconfigFile(options.kubeconfig, options.name)
    record = ClusterRecord(
        options.name, os.getpid(), clock.now_s(), str(Path.cwd()), str(config.path.absolute())
    )
    records = ClusterRecords(records_folder(os.environ))
    try:
        held = stack.enter_context(records.held(record))
        others = {one.name for one in records.all_running()} - {options.name}
        config.check(frozenset(others))
    except (NameTaken, NoRecords, NotOurs) as problem:
        raise CannotStart(str(problem)) from None
    return record, held, config


def check(options: UpOptions, clock: Clock) -> None:
    """Raise `CannotStart` where the name or the kubeconfig is somebody else's."""
    with ExitStack() as stack:
        _claim(options, clock, stack)


def _pages_port(wanted: int | None) -> int:
    """Where the scheduler shows its pages."""
    if wanted is None:
        return _usual_or_free(address(PAGE_ADDRESSES["scheduler"])[1])
    try:
        return _bindable(wanted)
    except OSError as error:
        advice = "choose another with --pages-port, or 0 for a free one"
        raise CannotStart(
            f"cannot show the scheduler's pages on port {wanted}: {error.strerror}; {advice}"
        ) from None


def _usual_or_free(usual: int) -> int:
    """The usual port may be somebody else's."""
    try:
        return _bindable(usual)
    except OSError:
        return free_ports(1)[0]


def _bindable(port: int) -> int:
    """The port, or a free one for 0; raises OSError where it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((_LOOPBACK, port))
        return int(probe.getsockname()[1])


def _open(options: UpOptions, clock: Clock, stack: AsyncExitStack) -> Opened:
    """The state that the cluster begins with: none, or that of its data directory."""
    if options.data_dir is None:
        settings = EmbeddedSettings(admin_token=secrets.token_urlsafe(24))
        identity = ServerIdentity.new(options.address, clock.now_s())
        return Opened(Store(), identity, settings, is_resumed=False)
    try:
        data = stack.enter_context(DataDir(options.data_dir))
        store = data.journal.opened_store()
    except (InUse, BadData) as problem:
        raise CannotStart(str(problem)) from None
    settings = EmbeddedSettings(
        admin_token=data.secret("admin").decode(), signing_secret=data.secret("signing")
    )
    identity = data.identity(options.address, clock.now_s())
    return Opened(store, identity, settings, is_resumed=any(store.storages()))


def _past(options: UpOptions, clock: Clock, stack: AsyncExitStack) -> DemoPast:
    """Where past usage is kept: with the state of the cluster, or as long as the cluster."""
    folder = options.data_dir
    if folder is None:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="muster-up-")))
    past = DemoPast(folder / "usage")
    try:
        # The steps of the demo are to show one thing each: until the last the past is left out.
        past.begin(counts=not options.runs_demo)
        if options.runs_demo:
            past.write_week(clock.now_s(), float(options.nodes * options.gpus))
    except (OSError, BadFile) as problem:
        raise CannotStart(str(problem)) from None
    return past


# --- Starting ---------------------------------------------------------------------------------


async def _start(
    options: UpOptions,
    clock: Clock,
    stack: AsyncExitStack,
    ours: Installation,
    opened: Opened,
) -> Started:
    log = _log(options, stack)
    webhooks = ours.webhooks if options.services else {}
    world = EmbeddedDependencies(
        clock=clock, store=opened.store, log=log.child("apiserver"), local_webhooks=webhooks
    )
    server = Embedded(opened.settings, world)
    # The port first: there is no point in a cluster that nobody can reach.
    serving = Serving(server.handle, options.address, opened.identity)
    await _listen(serving, options, stack)
    plan = ClusterPlan(
        nodes=_nodes(options),
        kubelet_events=True,
        schedulers=(ours.names.scheduler,) if options.services else (),
        records_writes=False,
        log_level=options.log_level,
    )
    cluster = Cluster(plan, clock=clock, log=log, server=server)
    await stack.enter_async_context(cluster)
    await _bring_up(options, cluster, ours)
    token, authority = opened.settings.admin_token, opened.identity.authority_pem
    access = ServerAccess(serving.url, authority, token, name=options.name)
    return Started(serving.url, kubeconfig(access), cluster, opened.is_resumed)


async def _start_on_kube(
    options: UpOptions, clock: Clock, stack: AsyncExitStack, ours: Installation
) -> Started:
    """The same on a real API server with real controllers; kwok plays the kubelets."""
    programs = kube_programs(Path.cwd())
    if isinstance(programs, NotHere):
        raise CannotStart(f"{programs.reason}; `make kube` obtains it")
    setup = Setup(controller_manager=True, kwok=True)
    plane = await stack.enter_async_context(ControlPlane(programs, setup))
    log = _log(options, stack)
    cluster = KubeCluster(plane, _nodes(options), clock=clock, log=log)
    await stack.enter_async_context(cluster)
    ours.webhook_server = webhook_server(plane)
    await _bring_up(options, cluster, ours)
    authority = plane.certificate_authority_file.read_bytes()
    access = ServerAccess(plane.server, authority, plane.tokens[ADMIN], name=options.name)
    return Started(plane.server, kubeconfig(access), cluster)


async def _dashboard(options: UpOptions, home: Home, ours: Installation) -> str:
    """Its address; "" where there is nothing of ours to look at."""
    if not options.services or not options.profile.speaks_kai:
        return ""
    port = _usual_or_free(address(DEFAULT_LISTEN)[1])
    config = SchedulerServiceConfig(
        Options(profile=options.profile), ours.conf_file, journal_folder=ours.journal_folder
    )

    def build(supervisor: Supervisor) -> None:
        site = Site((_LOOPBACK, port), options.name, ours.usage_store)
        build_web(supervisor, config, site)

    await home.start(HostedService("web", build, observer_rights()))
    return f"http://{_LOOPBACK}:{port}"


async def _bring_up(options: UpOptions, home: Home, ours: Installation) -> None:
    if options.ecosystem:
        await start_ecosystem(home)
    if options.services:
        await ours.bring_up(home)


def _nodes(options: UpOptions) -> list[NodeGroup]:
    gpus = Gpus(count=options.gpus) if options.gpus else None
    if not options.nodes:
        return []
    if not options.ecosystem:
        return [NodeGroup("node", count=options.nodes, gpus=gpus)]
    return [NodeGroup("node", count=options.nodes, gpus=gpus, topology=TOPOLOGY), *SPECIAL_NODES]


def _log(options: UpOptions, stack: AsyncExitStack) -> Log:
    """A terminal that is held (Ctrl-S) does not hold the cluster."""
    stream = LogStream()
    stack.callback(stream.drained)
    return Log("muster", TextSink(stream), options.log_level)


async def _listen(serving: Serving, options: UpOptions, stack: AsyncExitStack) -> None:
    try:
        await stack.enter_async_context(serving)
    except OSError as error:
        where = f"{options.address.host}:{options.address.port}"
        if error.errno == errno.EADDRINUSE:
            advice = "choose another with --port, or leave it out and take a free one"
            raise CannotStart(f"port {options.address.port} is taken: {advice}") from None
        if error.errno == errno.EACCES:
            advice = "ports below 1024 need rights; choose a higher one with --port"
            raise CannotStart(f"may not listen on {where}: {advice}") from None
        raise CannotStart(f"cannot listen on {where}: {error.strerror or error}") from None


def _write(config: KubeconfigFile, text: str, stack: AsyncExitStack, *, keeps: bool) -> None:
    """`keeps`: the file is as good after a restart as before it."""
    try:
        config.write(text)
    except NotOurs as problem:
        raise CannotStart(str(problem)) from None
    except OSError as error:
        raise CannotStart(f"cannot write the kubeconfig {config.path}: {error.strerror}") from None
    if not keeps:
        stack.callback(config.remove)


# --- Telling ----------------------------------------------------------------------------------


def _announce(
    options: UpOptions, started: Started, dashboard: str, pages: str, took_s: float
) -> None:
    nodes = f"{options.nodes} nodes" + (f" of {options.gpus} GPUs" if options.gpus else "")
    kept = f"kept in {options.data_dir}" if options.data_dir else "gone when it stops"
    goes_on = " and goes on from before, without the demo" if started.is_resumed else ""
    lines = [
        f"A cluster of {nodes} is up at {started.url} ({took_s:.1f} s). "
        f"Its state is {kept}{goes_on}.",
        *([f"Its dashboard is at {dashboard}"] if dashboard else []),
        "",
        f"  export KUBECONFIG={options.kubeconfig.resolve()}",
        "  kubectl get nodes",
        f"  kubectl get {queues_and_groups(options.profile)} -A",
        "  kubectl get pods -o wide",
        *(["  muster status", "  muster jobs"] if dashboard else []),
    ]
    if pages:
        lines += ["", f"Its scheduler shows {pages}/metrics and {pages}/debug"]
    typer.echo("\n".join(lines))


def queues_and_groups(profile: ProfileName) -> str:
    """Queues and groups as kubectl finds them: several systems have kinds of these names, and of
    short names it takes the first.
    """
    spoken = profile_of(profile.value)
    if spoken is None:
        return "queues,podgroups"
    group, queue = spoken.reads[:2]
    return f"{queue.full_name},{group.full_name}"


_DEMOS: Final = {ProfileName.VOLCANO: VolcanoDemo, ProfileName.KUBE_BATCH: KubeBatchDemo}


async def _run_demo(options: UpOptions, home: Home, clock: Clock, past: DemoPast) -> bool:
    api = (home.reader, home.writer, clock)
    if options.profile.speaks_kai:
        demo = Demo(*api, demo_manifests(), typer.echo, past=past)
    else:
        demo = _DEMOS[options.profile](*api, demo_manifests(options.profile), typer.echo)
    is_well = await demo.run()
    met = sum(one.is_met for one in demo.expectations)
    verdict = "all as expected" if is_well else "NOT all as expected"
    typer.echo("\nWhat was expected:")
    for one in demo.expectations:
        mark = "ok " if one.is_met else "NOT"
        typer.echo(f"  {mark}  {one.step}: {one.text}" + (f" ({one.seen})" if one.seen else ""))
    typer.echo(f"\nThe demo in sum: {met} of {len(demo.expectations)} expectations, {verdict}.")
    return is_well
