"""The scheduler service: opening a cycle; its start and its memory, and pods bound per second, on a
real API server.
"""

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.cases.apiserver import control_plane
from benchmarks.registry import Measured, case
from muster.api import kinds
from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.crds import DEFINITIONS, manifest
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.clock import SystemClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import Listing, Reader
from muster.client.transport import Request, Response
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.memory import EMPTY
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.programs import free_ports
from muster.services.scheduler.cache import SchedulerCache, Stores
from muster.services.scheduler.keep import PodKeeper
from muster.services.scheduler.options import Options
from muster.services.scheduler.surroundings import Around, AroundStores
from muster.services.scheduler.wiring import rules_of

_PODS_7 = 4_000
_BIND_REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"


@case("p5", why="opening a cycle with nothing changed, 5,000 nodes and 140,000 pods")
def p5() -> Measured:
    return asyncio.run(_open_cycle(nodes=5_000, pods=140_000))


@case("p7-500", why="4,000 waiting one-GPU pods on 500 nodes, bound through bind requests")
def p7_500() -> Measured:
    return asyncio.run(_bind(nodes=500, direct=False))


@case("p7-2000", why="the same on 2,000 nodes")
def p7_2000() -> Measured:
    return asyncio.run(_bind(nodes=2_000, direct=False))


@case("p7-500-direct", why="4,000 waiting one-GPU pods on 500 nodes, bound by the scheduler")
def p7_500_direct() -> Measured:
    return asyncio.run(_bind(nodes=500, direct=True))


@case("p7-2000-direct", why="the same on 2,000 nodes")
def p7_2000_direct() -> Measured:
    return asyncio.run(_bind(nodes=2_000, direct=True))


@case("p6", why="process start to first decision, and its memory: 140,000 pods on 5,000 nodes")
def p6() -> Measured:
    return asyncio.run(_first_decision(nodes=5_000, pods=140_000))


@case("p6-tenth", why="the same with a tenth of everything")
def p6_tenth() -> Measured:
    return asyncio.run(_first_decision(nodes=500, pods=14_000))


async def _first_decision(nodes: int, pods: int) -> Measured:
    """One pod waits among many that run; the first decision is the bind request for it."""
    roomy = Setup(more_flags={"etcd": ["--quota-backend-bytes=8589934592"]})
    async with control_plane(roomy) as plane, load.load_on(plane) as writer:
        created_s = await writer.write_all(_definitions())
        await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
        created_s += await writer.write_all(load.nodes(nodes, gpus=-(-pods // nodes) + 4))
        created_s += await writer.write_all(_queues())
        created_s += await writer.write_all(_running(load.large_pods(pods), nodes))
        created_s += await writer.write_all(_groups(1))
        waiting = itertools.islice(load.pods(pods + 1, scheduler="kai-scheduler"), pods, None)
        created_s += await writer.write_all(_grouped(waiting))
        with _services(plane, [], binds=False) as (scheduler,):
            decided_s = await writer.seconds_until_any(_BIND_REQUESTS)
            await asyncio.sleep(2.0)  # The cycle ends with reports.
            memory = _memory_mib(scheduler.pid)
    return {
        "seconds": round(decided_s, 3),
        "pods": pods,
        "nodes": nodes,
        "resident_mib": round(memory["VmRSS"]),
        "resident_peak_mib": round(memory["VmHWM"]),
        "created_in_s": round(created_s, 1),
    }


def _running(pods: Iterator[load.Write], nodes: int) -> Iterator[load.Write]:
    """The same pods, born on a node each."""
    for number, write in enumerate(pods):
        body: Any = write.body
        spec = {**body["spec"], "nodeName": load.node_name(number % nodes)}
        yield load.Write(write.method, write.path, {**body, "spec": spec})


def _memory_mib(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.startswith(("VmRSS:", "VmHWM:")))
    return {name.rstrip(":"): int(amount) / 1024 for name, amount, _ in fields}


async def _bind(nodes: int, direct: bool) -> Measured:
    async with control_plane() as plane, load.load_on(plane) as writer:
        await writer.write_all(_definitions())
        await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
        await writer.write_all(load.nodes(nodes))
        await writer.write_all(_queues())
        await writer.write_all(_groups(_PODS_7))
        await writer.write_all(_grouped(load.pods(_PODS_7, scheduler="kai-scheduler")))
        watching = asyncio.create_task(writer.seconds_until_bound(_PODS_7))
        flags = ["--bind-directly"] if direct else []
        with _services(plane, flags, binds=not direct):
            first_s, last_s = await watching
    took_s = last_s - first_s
    return {
        "seconds": round(took_s, 3),
        "pods": _PODS_7,
        "nodes": nodes,
        "pods_per_s": round(_PODS_7 / took_s),
        "start_to_first_s": round(first_s, 3),
    }


@contextmanager
def _services(
    plane: ControlPlane, flags: list[str], binds: bool
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Scheduler and binder as processes of their own, as on a cluster."""
    muster = str(Path(sys.executable).with_name("muster"))
    common = ["--kubeconfig", str(plane.kubeconfig()), "--qps", "5000", "--burst", "5000"]
    ports = free_ports(2)
    commands = [[muster, "scheduler", *common, *flags, "--listen-address", f"127.0.0.1:{ports[0]}"]]
    if binds:
        listen = f"127.0.0.1:{ports[1]}"
        commands.append([muster, "binder", *common, "--metrics-bind-address", listen])
    # An installed program finds its modules compiled, whatever the developer's shell says.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as said:
        running = [
            subprocess.Popen(command, stdout=said, stderr=said, env=environment)
            for command in commands
        ]
        try:
            yield running
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=30)


def _definitions() -> Iterator[load.Write]:
    for definition in DEFINITIONS:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        yield load.Write("POST", path, manifest(definition))


def _queues() -> Iterator[load.Write]:
    unbounded = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": unbounded, "memory": unbounded, "gpu": unbounded}
    for name, parent in (("top", ""), ("work", "top")):
        spec: dict[str, object] = {"resources": resources}
        if parent:
            spec["parentQueue"] = parent
        body: dict[str, object] = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        yield load.Write("POST", "/apis/scheduling.run.ai/v2/queues", body)


def _groups(count: int) -> Iterator[load.Write]:
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
    for number in range(count):
        body: dict[str, object] = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": f"group-{number}", "namespace": "default"},
            "spec": {"queue": "work", "minMember": 1},
        }
        yield load.Write("POST", path, body)


def _grouped(pods: Iterator[load.Write]) -> Iterator[load.Write]:
    for number, write in enumerate(pods):
        body: Any = write.body
        notes = {"pod-group-name": f"group-{number}"}
        metadata = {**body["metadata"], "annotations": notes}
        yield load.Write(write.method, write.path, {**body, "metadata": metadata})


# -- in process, no API server ---------------------------------------------------------------------


async def _open_cycle(nodes: int, pods: int) -> Measured:
    world = _world(nodes, pods)
    cache, informers = _cache()
    started = time.perf_counter()
    for informer, objects in world.items():
        informers[informer]._take(Listing(objects=objects, resource_version="1"))
    taken_s = time.perf_counter() - started
    now_s = SystemClock().now_s()
    rules = rules_of(parse_conf(""), Options())
    memory = EMPTY

    def cycle() -> None:
        nonlocal memory
        snapshot = cache.snapshot(now_s)
        result = run_cycle(snapshot, rules.policy, rules.actions, now_s, memory)
        memory = result.memory

    first_s = _timed(cycle)
    opened = sorted(_timed(cycle) for _ in range(5))
    return {
        "seconds": round(opened[2], 6),
        "nodes": nodes,
        "pods": pods,
        "first_cycle_s": round(first_s, 3),
        "taken_in_s": round(taken_s, 3),
    }


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class _Nowhere:
    """A transport to no server: the informers are filled by hand."""

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        raise AssertionError("nothing is asked of a server here")

    async def close(self) -> None:
        return


def _cache() -> tuple[SchedulerCache, dict[str, Informer[Any]]]:
    reader = Reader(Connection(_Nowhere(), SystemClock(), Rand(1)))
    log = Log("bench", MemorySink())
    made: dict[str, Informer[Any]] = {
        name: Informer(reader, kind, log=log)
        for name, kind in (
            ("pods", kinds.POD),
            ("nodes", kinds.NODE),
            ("queues", kinds.QUEUE),
            ("pod_groups", kinds.POD_GROUP),
            ("bind_requests", kinds.BIND_REQUEST),
            ("priority_classes", kinds.PRIORITY_CLASS),
            ("topologies", kinds.TOPOLOGY),
        )
    }
    stores = Stores(**made, claims=None, slices=None, around=Around(AroundStores()))
    return SchedulerCache(stores, Options(), SystemClock()), made


def _world(nodes: int, pods: int) -> dict[str, list[Any]]:
    keep = PodKeeper()
    per_node = -(-pods // nodes)
    return {
        "nodes": [_node(number) for number in range(nodes)],
        "queues": [from_builtins(Queue, {"metadata": {"name": "work"}})],
        "pod_groups": [_group(number) for number in range(pods)],
        "pods": [keep(_pod(number, number // per_node)) for number in range(pods)],
    }


def _node(number: int) -> Node:
    ready = [{"type": "Ready", "status": "True"}]
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return from_builtins(
        Node,
        {
            "metadata": {"name": f"node-{number:05}", "uid": f"n{number}"},
            "status": {"allocatable": allocatable, "conditions": ready},
        },
    )


def _group(number: int) -> PodGroup:
    metadata = {"name": f"group-{number}", "namespace": "default", "uid": f"g{number}"}
    return from_builtins(PodGroup, {"metadata": metadata, "spec": {"queue": "work"}})


def _pod(number: int, node: int) -> Pod:
    requests = {"cpu": "1", "memory": "4Gi"}
    return from_builtins(
        Pod,
        {
            "metadata": {
                "name": f"pod-{number}",
                "namespace": "default",
                "uid": f"p{number}",
                "annotations": {"pod-group-name": f"group-{number}"},
            },
            "spec": {
                "schedulerName": "kai-scheduler",
                "nodeName": f"node-{node:05}",
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Running"},
        },
    )
