"""muster up: a whole cluster on this laptop, that kubectl and every other client can use."""

import asyncio
import errno
import os
import secrets
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from muster.base.clock import Clock, SystemClock
from muster.base.log import Level, Log, TextSink
from muster.base.log_stream import LogStream
from muster.cli.flags import profile_name
from muster.cli.serving import failed
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.control_plane import ADMIN, ControlPlane, Setup
from muster.lab.demo import Demo, demo_manifests
from muster.lab.demo_past import DemoPast
from muster.lab.dialect_demos import KubeBatchDemo, VolcanoDemo
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster, webhook_server
from muster.lab.kube_programs import NotHere, kube_programs
from muster.services.scheduler.options import ProfileName
from muster.sim.apiserver.data_dir import DataDir, InUse
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.apiserver.journal import BadData
from muster.sim.apiserver.kubeconfig import ServerAccess, kubeconfig
from muster.sim.apiserver.serve import Address, ServerIdentity, Serving
from muster.sim.apiserver.store import Store
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.usage.store import BadStore

_MOST_NODES = 5000
_WORLDS = ("embedded", "kube")
_DEMO_SIZE = (64, 8)
"""Nodes and GPUs for which the demo's manifests are written."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line asks for."""

    nodes: int
    gpus: int
    address: Address
    kubeconfig: Path
    data_dir: Path | None
    log_level: Level
    services: bool = True
    runs_demo: bool = True
    once: bool = False
    on_kube: bool = False
    """On a real control plane instead of the embedded API server."""
    profile: ProfileName = ProfileName.KAI
    """Whose dialect is spoken beside our own."""

    @property
    def dialect(self) -> dict[str, Any]:
        """What of it the installation wants to know."""
        if self.profile is ProfileName.KAI:
            return {}
        conf = demo_manifests(self.profile) / "scheduler.conf"
        return {"dialect": self.profile, "dialect_conf": conf}


Started = tuple[str, Cluster | KubeCluster]
"""Where the API server is, and the cluster behind it."""


class CannotStart(Exception):
    """Something outside the program is in the way; the message says what and what to do."""


_Nodes = Annotated[int, typer.Option(min=0, max=_MOST_NODES, help="How many nodes to pretend.")]
_GpusOfEach = Annotated[int, typer.Option(min=0, max=16, help="GPUs of each node.")]
_Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of the API server; 0 takes a free one.")
]
_Host = Annotated[
    str, typer.Option(help="Address to listen on. Anything but loopback is open to others.")
]
_Kubeconfig = Annotated[Path, typer.Option("--kubeconfig", help="Where to write the kubeconfig.")]
_KEPT_IN = "Keep the state in this directory; without it, it is gone at the end."
_DataDir = Annotated[Path | None, typer.Option(help=_KEPT_IN)]
_Services = Annotated[
    bool, typer.Option(help="Run muster in the cluster; without it, the cluster alone.")
]
_Story = Annotated[bool, typer.Option(help="Show muster at work first: eight steps, each checked.")]
_WORLD = "embedded: an API server in this process; kube: the control plane of make kube."
_World = Annotated[str, typer.Option(help=_WORLD)]
_PROFILE = "kai, volcano or kube-batch: whose objects are served and shown."
_Profile = Annotated[str, typer.Option(help=_PROFILE)]
_UNTIL = "End after the demo, or stay up; by default stay on a terminal."
_Once = Annotated[bool | None, typer.Option("--once/--stay", help=_UNTIL)]
_Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")]


def up(
    nodes: _Nodes = 64,
    gpus: _GpusOfEach = 8,
    port: _Port = 0,
    host: _Host = "127.0.0.1",
    kubeconfig_path: _Kubeconfig = Path(".muster/kubeconfig"),
    data_dir: _DataDir = None,
    services: _Services = True,
    story: _Story = True,
    world: _World = "embedded",
    profile: _Profile = ProfileName.KAI.value,
    once: _Once = None,
    verbose: _Verbose = False,
) -> None:
    """Start a Kubernetes cluster with muster in this process and keep it up until Ctrl-C."""
    if world not in _WORLDS:
        raise typer.BadParameter(f"--world: {world!r} is not one of {', '.join(_WORLDS)}")
    level = Level.INFO if verbose else Level.WARNING
    options = UpOptions(
        nodes,
        gpus,
        Address(host, port),
        kubeconfig_path,
        data_dir,
        level,
        services=services,
        runs_demo=services and story and (nodes, gpus) == _DEMO_SIZE,
        once=not sys.stdout.isatty() if once is None else once,
        on_kube=world == "kube",
        profile=profile_name(profile, "--profile"),
    )
    try:
        is_well = asyncio.run(run(options, SystemClock()))
    except CannotStart as problem:
        raise failed("up", problem) from None
    if not is_well:
        raise typer.Exit(1)


async def run(options: UpOptions, clock: Clock) -> bool:
    """The cluster, from its start to the first signal; whether all went as it should."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    began_s = clock.monotonic_s()
    async with AsyncExitStack() as stack:
        start = _start_on_kube if options.on_kube else _start
        past = _past(options, clock, stack)
        url, cluster = await start(options, clock, stack, past)
        _announce(options, url, clock.monotonic_s() - began_s)
        is_well = (
            await _unless(stop, _run_demo(options, cluster, clock, past))
            if options.runs_demo
            else True
        )
        if not options.once:
            typer.echo("\nThe cluster stays up. Ctrl-C stops it.")
            await stop.wait()
        typer.echo("\nStopping.")
    if options.data_dir is None:
        options.kubeconfig.unlink(missing_ok=True)
    return is_well


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, bool]) -> bool:
    """The work's answer; True when somebody asks to stop before there is one."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else True
    finally:
        working.cancel()
        stopped.cancel()


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
    except (OSError, BadStore) as problem:
        raise CannotStart(str(problem)) from None
    return past


_DEMOS = {ProfileName.VOLCANO: VolcanoDemo, ProfileName.KUBE_BATCH: KubeBatchDemo}


async def _run_demo(
    options: UpOptions, cluster: Cluster | KubeCluster, clock: Clock, past: DemoPast
) -> bool:
    api = (cluster.reader, cluster.writer, clock)
    if options.profile is ProfileName.KAI:
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


async def _start(
    options: UpOptions, clock: Clock, stack: AsyncExitStack, past: DemoPast
) -> Started:
    log = _log(options, stack)
    store, identity = Store(), None
    settings = EmbeddedSettings(admin_token=secrets.token_urlsafe(24))
    if options.data_dir is not None:
        try:
            data = stack.enter_context(DataDir(options.data_dir))
            store = data.journal.opened_store()
        except (InUse, BadData) as problem:
            raise CannotStart(str(problem)) from None
        identity = data.identity(options.address, clock.now_s())
        settings = EmbeddedSettings(
            admin_token=data.secret("admin").decode(), signing_secret=data.secret("signing")
        )
    identity = identity or ServerIdentity.new(options.address, clock.now_s())
    installation = Installation(conf_file=past.conf, usage_store=past.store, **options.dialect)
    webhooks = installation.webhooks if options.services else {}
    world = EmbeddedDependencies(
        clock=clock, store=store, log=log.child("apiserver"), local_webhooks=webhooks
    )
    server = Embedded(settings, world)
    # The port first: there is no point in a cluster that nobody can reach.
    serving = Serving(server.handle, options.address, identity)
    await _listen(serving, options, stack)
    cluster = Cluster(_plan(options), clock=clock, log=log, server=server)
    await stack.enter_async_context(cluster)
    if options.services:
        await installation.bring_up(cluster)
    access = ServerAccess(serving.url, identity.authority_pem, settings.admin_token)
    _write_kubeconfig(options.kubeconfig, kubeconfig(access))
    return serving.url, cluster


async def _start_on_kube(
    options: UpOptions, clock: Clock, stack: AsyncExitStack, past: DemoPast
) -> Started:
    """The same on a real API server with real controllers; kwok plays the kubelets."""
    programs = kube_programs(Path.cwd())
    if isinstance(programs, NotHere):
        raise CannotStart(f"{programs.reason}; `make kube` obtains it")
    setup = Setup(controller_manager=True, kwok=True)
    plane = await stack.enter_async_context(ControlPlane(programs, setup))
    log = _log(options, stack)
    cluster = KubeCluster(plane, _plan(options).nodes, clock=clock, log=log)
    await stack.enter_async_context(cluster)
    if options.services:
        installation = Installation(
            conf_file=past.conf,
            usage_store=past.store,
            webhook_server=webhook_server(plane),
            **options.dialect,
        )
        await installation.bring_up(cluster)
    _write_kubeconfig(options.kubeconfig, _self_contained(plane))
    return plane.server, cluster


def _log(options: UpOptions, stack: AsyncExitStack) -> Log:
    """A terminal that is held (Ctrl-S) does not hold the cluster."""
    stream = LogStream()
    stack.callback(stream.drained)
    return Log("muster", TextSink(stream), options.log_level)


def _self_contained(plane: ControlPlane) -> str:
    """A kubeconfig that needs no other file."""
    authority = plane.certificate_authority_file.read_bytes()
    return kubeconfig(ServerAccess(plane.server, authority, plane.tokens[ADMIN]))


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


def _plan(options: UpOptions) -> ClusterPlan:
    gpus = Gpus(count=options.gpus) if options.gpus else None
    groups = [NodeGroup("node", count=options.nodes, gpus=gpus)] if options.nodes else []
    return ClusterPlan(
        nodes=groups, kubelet_events=True, records_writes=False, log_level=options.log_level
    )


def _write_kubeconfig(path: Path, text: str) -> None:
    """Readable by its owner alone: it holds the administrator's token."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".new")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        partial.replace(path)
    except OSError as error:
        raise CannotStart(f"cannot write the kubeconfig {path}: {error.strerror}") from None


def _announce(options: UpOptions, url: str, took_s: float) -> None:
    nodes = f"{options.nodes} nodes" + (f" of {options.gpus} GPUs" if options.gpus else "")
    kept = f"kept in {options.data_dir}" if options.data_dir else "gone when it stops"
    typer.echo(
        f"A cluster of {nodes} is up at {url} ({took_s:.1f} s). Its state is {kept}.\n\n"
        f"  export KUBECONFIG={options.kubeconfig.resolve()}\n"
        "  kubectl get nodes\n"
        "  kubectl get queues,podgroups -A\n"
        "  kubectl get pods -o wide"
    )
