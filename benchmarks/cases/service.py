"""The scheduler service without an API server: opening a cycle."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.registry import Measured, case
from muster.api import kinds
from muster.api.codec import Changed, from_builtins
from muster.api.core import Node, Pod
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.clock import SystemClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import Listing, Reader
from muster.client.transport import Request, Response
from muster.engine.cycle import run_cycle
from muster.engine.memory import EMPTY
from muster.engine.profiles.known import MUSTER, conf_of
from muster.services.scheduler.cache import SchedulerCache, SchedulerInformers
from muster.services.scheduler.cluster_objects import ClusterInformers, WatchedObjects
from muster.services.scheduler.options import Options
from muster.services.scheduler.pod_interning import PodInterner
from muster.services.scheduler.wiring import active_policy

_OPENINGS = 5


@case("p5", why="opening a cycle with nothing changed, 5,000 nodes and 140,000 pods")
def p5() -> Measured:
    return asyncio.run(_open_cycle(nodes=5_000, pods=140_000))


async def _open_cycle(nodes: int, pods: int) -> Measured:
    world = _world(nodes, pods)
    cache, informers = _cache()
    started = time.perf_counter()
    for informer, objects in world.items():
        informers[informer]._apply(Listing(objects=objects, resource_version="1"))
    taken_s = time.perf_counter() - started
    now_s = SystemClock().now_s()
    rules = active_policy(conf_of(MUSTER, "", "benchmark"), Options())
    memory = EMPTY

    def cycle() -> None:
        nonlocal memory
        snapshot = cache.snapshot(now_s)
        result = run_cycle(snapshot, rules.policy, rules.actions, now_s, memory)
        memory = result.memory

    first_s = _timed(cycle)
    started_cpu = time.process_time()
    opened = sorted(_timed(cycle) for _ in range(_OPENINGS))
    cpu_s = (time.process_time() - started_cpu) / _OPENINGS
    changed = sorted(_changed_cpu_s(informers, at, pods + at, cycle) for at in range(_OPENINGS))
    return {
        "seconds": round(opened[_OPENINGS // 2], 6),
        "cpu_seconds": round(cpu_s, 6),
        "changed_cpu_seconds": round(changed[_OPENINGS // 2], 6),
        "nodes": nodes,
        "pods": pods,
        "first_cycle_s": round(first_s, 3),
        "taken_in_s": round(taken_s, 3),
    }


def _changed_cpu_s(
    informers: Mapping[str, Informer[Any]], goes: int, comes: int, cycle: Callable[[], None]
) -> float:
    """Of a cycle before which one pod went, and another came that has no node yet."""
    informers["pods"]._apply(Changed("DELETED", _pod(goes, 0)))
    informers["pod_groups"]._apply(Changed("ADDED", _group(comes)))
    informers["pods"]._apply(Changed("ADDED", PodInterner()(_pod(comes))))
    started_s = time.process_time()
    cycle()
    return time.process_time() - started_s


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
    stores = SchedulerInformers(
        **made, claims=None, slices=None, cluster_objects=WatchedObjects(ClusterInformers())
    )
    return SchedulerCache(stores, Options(), SystemClock()), made


def _world(nodes: int, pods: int) -> dict[str, list[Any]]:
    transform = PodInterner()
    per_node = -(-pods // nodes)
    return {
        "nodes": [_node(number) for number in range(nodes)],
        "queues": [_queue()],
        "pod_groups": [_group(number) for number in range(pods)],
        "pods": [transform(_pod(number, number // per_node)) for number in range(pods)],
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


def _queue() -> Queue:
    """It bounds nothing."""
    unbounded = {"quota": -1, "limit": -1}
    resources = {"cpu": unbounded, "memory": unbounded, "gpu": unbounded}
    body = {"metadata": {"name": "work"}, "spec": {"resources": resources}}
    return from_builtins(Queue, body)


def _group(number: int) -> PodGroup:
    metadata = {"name": f"group-{number}", "namespace": "default", "uid": f"g{number}"}
    return from_builtins(PodGroup, {"metadata": metadata, "spec": {"queue": "work"}})


def _pod(number: int, node: int | None = None) -> Pod:
    """Running on a node, or waiting for one."""
    place = {} if node is None else {"nodeName": f"node-{node:05}"}
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
                **place,
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": "Pending" if node is None else "Running"},
        },
    )
