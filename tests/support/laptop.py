"""The laptop cluster in a thread, for clients that come over HTTPS: kubectl, other libraries.

A few nodes, Kubernetes' controllers, and a binder that puts every pod on the next node: the
simplest thing that makes pods run, so that clients have something to look at.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.base.clock import SystemClock
from muster.base.log import Level, Log
from muster.client.transport import Request
from muster.lab.cluster import Cluster, ClusterPlan
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.apiserver.kubeconfig import ServerAccess, kubeconfig
from muster.sim.apiserver.serve import Address, ServerIdentity, Serving
from muster.sim.apiserver.store import Change
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_TOKEN = "laptop"


@dataclass(frozen=True, slots=True)
class Laptop:
    """How to reach the running cluster."""

    url: str
    kubeconfig: Path
    token: str
    authority: Path


@contextmanager
def laptop(folder: Path, nodes: int = 3) -> Iterator[Laptop]:
    ready: Future[Laptop] = Future()
    stop = threading.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_live(folder, nodes, ready, stop)), daemon=True
    )
    thread.start()
    try:
        yield ready.result(timeout=200)
    finally:
        stop.set()
        thread.join(timeout=30)


async def _live(folder: Path, nodes: int, ready: "Future[Laptop]", stop: threading.Event) -> None:
    try:
        await _serve(folder, nodes, ready, stop)
    except BaseException as error:  # the test waits for `ready`, and is told why it never comes
        if ready.done():
            raise
        ready.set_exception(error)


async def _serve(folder: Path, nodes: int, ready: "Future[Laptop]", stop: threading.Event) -> None:
    clock, log = SystemClock(), Log("laptop", level=Level.ERROR)
    address = Address()
    identity = ServerIdentity.new(address, clock.now_s())
    server = Embedded(
        EmbeddedSettings(admin_token=_TOKEN), EmbeddedDependencies(clock=clock, log=log)
    )
    plan = ClusterPlan(
        nodes=[NodeGroup("node", count=nodes, gpus=Gpus(count=8))], records_writes=False
    )
    async with (
        Cluster(plan, clock=clock, log=log, server=server) as cluster,
        Serving(server.handle, address, identity) as serving,
    ):
        binder = asyncio.create_task(_bind_everything(server, cluster))
        access = ServerAccess(serving.url, identity.authority_pem, _TOKEN)
        (folder / "kubeconfig").write_text(kubeconfig(access))
        (folder / "ca.pem").write_bytes(identity.authority_pem)
        ready.set_result(Laptop(serving.url, folder / "kubeconfig", _TOKEN, folder / "ca.pem"))
        await asyncio.to_thread(stop.wait)
        binder.cancel()
        (ended,) = await asyncio.gather(binder, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


async def _bind_everything(server: Embedded, cluster: Cluster) -> None:
    table = server.store.table("pods")
    position, turn = 0, 0
    names = cluster.fleet.node_names
    while True:
        changes: list[Change] = list(table.since(position))
        position += len(changes)
        for change in changes:
            pod = change.after.obj if change.after else None
            if pod is not None and change.before is None and not pod["spec"].get("nodeName"):
                turn += 1
                await _bind(server, change.key, names[turn % len(names)])
        if not changes:
            await table.waiter()


async def _bind(server: Embedded, key: tuple[str, str], node: str) -> None:
    body = {"target": {"kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}/binding"
    headers = {"authorization": f"Bearer {_TOKEN}"}
    await server.handle(Request("POST", path, (), headers, json.dumps(body).encode()))
