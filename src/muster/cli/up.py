"""muster up: a whole cluster on this laptop, that kubectl and every other client can use."""

import asyncio
import errno
import os
import secrets
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from muster.base.clock import Clock, SystemClock
from muster.base.log import Level, Log
from muster.lab.cluster import Cluster, Plan
from muster.sim.apiserver.data_dir import DataDir, InUse
from muster.sim.apiserver.embedded import Embedded, Settings, World
from muster.sim.apiserver.journal import BadData
from muster.sim.apiserver.kubeconfig import Access, kubeconfig
from muster.sim.apiserver.serve import Address, Identity, Serving
from muster.sim.apiserver.store import Store
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_MOST_NODES = 5000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    nodes: int
    gpus: int
    address: Address
    kubeconfig: Path
    data_dir: Path | None
    log_level: Level


class CannotStart(Exception):
    """Something outside the program is in the way; the message says what and what to do."""


def up(
    nodes: Annotated[
        int, typer.Option(min=0, max=_MOST_NODES, help="How many nodes to pretend.")
    ] = 64,
    gpus: Annotated[int, typer.Option(min=0, max=16, help="GPUs of each node.")] = 8,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API server; 0 takes a free one.")
    ] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Anything but loopback is open to others.")
    ] = "127.0.0.1",
    kubeconfig_path: Annotated[
        Path, typer.Option("--kubeconfig", help="Where to write the kubeconfig.")
    ] = Path(".muster/kubeconfig"),
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the state in this directory; without it, it is gone at the end."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False,
) -> None:
    """Start a Kubernetes cluster in this process and keep it up until Ctrl-C."""
    level = Level.INFO if verbose else Level.WARNING
    wanted = Wanted(nodes, gpus, Address(host, port), kubeconfig_path, data_dir, level)
    try:
        asyncio.run(run(wanted, SystemClock()))
    except CannotStart as problem:
        typer.echo(f"muster up: {problem}", err=True)
        raise typer.Exit(1) from None


async def run(wanted: Wanted, clock: Clock) -> None:
    """The cluster, from its start to the first signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    began_s = clock.monotonic_s()
    async with AsyncExitStack() as stack:
        access = await _start(wanted, clock, stack)
        _announce(wanted, access, clock.monotonic_s() - began_s)
        await stop.wait()
        typer.echo("\nStopping.")
    if wanted.data_dir is None:
        wanted.kubeconfig.unlink(missing_ok=True)


async def _start(wanted: Wanted, clock: Clock, stack: AsyncExitStack) -> Access:
    log = Log("muster", level=wanted.log_level)
    store, identity, settings = Store(), None, Settings(admin_token=secrets.token_urlsafe(24))
    if wanted.data_dir is not None:
        try:
            data = stack.enter_context(DataDir(wanted.data_dir))
            store = data.journal.opened_store()
        except (InUse, BadData) as problem:
            raise CannotStart(str(problem)) from None
        identity = data.identity(wanted.address, clock.now_s())
        settings = Settings(
            admin_token=data.secret("admin").decode(), signing_secret=data.secret("signing")
        )
    identity = identity or Identity.new(wanted.address, clock.now_s())
    server = Embedded(settings, World(clock=clock, store=store, log=log.child("apiserver")))
    # The port first: there is no point in a cluster that nobody can reach.
    serving = Serving(server.handle, wanted.address, identity)
    await _listen(serving, wanted, stack)
    await stack.enter_async_context(Cluster(_plan(wanted), clock=clock, log=log, server=server))
    access = Access(serving.url, identity.authority_pem, settings.admin_token)
    _write_kubeconfig(wanted.kubeconfig, kubeconfig(access))
    return access


async def _listen(serving: Serving, wanted: Wanted, stack: AsyncExitStack) -> None:
    try:
        await stack.enter_async_context(serving)
    except OSError as error:
        where = f"{wanted.address.host}:{wanted.address.port}"
        if error.errno == errno.EADDRINUSE:
            advice = "choose another with --port, or leave it out and take a free one"
            raise CannotStart(f"port {wanted.address.port} is taken: {advice}") from None
        if error.errno == errno.EACCES:
            advice = "ports below 1024 need rights; choose a higher one with --port"
            raise CannotStart(f"may not listen on {where}: {advice}") from None
        raise CannotStart(f"cannot listen on {where}: {error.strerror or error}") from None


def _plan(wanted: Wanted) -> Plan:
    gpus = Gpus(count=wanted.gpus) if wanted.gpus else None
    groups = [NodeGroup("node", count=wanted.nodes, gpus=gpus)] if wanted.nodes else []
    return Plan(nodes=groups, keeps_journal=False, log_level=wanted.log_level)


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


def _announce(wanted: Wanted, access: Access, took_s: float) -> None:
    nodes = f"{wanted.nodes} nodes" + (f" of {wanted.gpus} GPUs" if wanted.gpus else "")
    kept = f"kept in {wanted.data_dir}" if wanted.data_dir else "gone when it stops"
    typer.echo(
        f"A cluster of {nodes} is up at {access.url} ({took_s:.1f} s). Its state is {kept}.\n\n"
        f"  export KUBECONFIG={wanted.kubeconfig.resolve()}\n"
        "  kubectl get nodes\n"
        "  kubectl create deployment web --image=nginx --replicas=3\n"
        "  kubectl get pods -o wide\n\n"
        "Ctrl-C stops it."
    )
