"""The start of the scheduler in a large cluster: until its first decision, and its memory then."""

import asyncio
import time

from benchmarks import load, processes, services
from benchmarks.cases.apiserver import control_plane
from benchmarks.copies import copy_stored
from benchmarks.registry import Measured, case
from muster.lab.control_plane import ControlPlane, Setup

# A gigabyte of pods, and etcd keeps what was before until it is told to forget it.
ROOMY = Setup(more_flags={"etcd": ["--quota-backend-bytes=8589934592"]})


_SERVED_WITHIN_S = 120.0
_CALM_WITHIN_S = 60.0
_CALM_CPU_S = 0.2  # in two seconds


@case("p6", why="process start to first decision, and its memory: 140,000 pods on 5,000 nodes")
def p6() -> Measured:
    return asyncio.run(_first_decision(nodes=5_000, pods=140_000))


@case("p8", why="the same start for its memory: resident after the first cycle, and the peak")
def p8() -> Measured:
    return p6()


@case("p6-unlike", why="the same with pods of which no two have the same environment")
def p6_unlike() -> Measured:
    return asyncio.run(_first_decision(nodes=5_000, pods=140_000, alike=False))


@case("p6-tenth", why="the same with a tenth of everything")
def p6_tenth() -> Measured:
    return asyncio.run(_first_decision(nodes=500, pods=14_000))


async def _first_decision(nodes: int, pods: int, alike: bool = True) -> Measured:
    """One pod waits among many that run; the first decision is where it goes, and it is bound."""
    await asyncio.to_thread(services.compile_kernels)
    async with control_plane(ROOMY) as plane, load.load_on(plane) as writer:
        began_s = time.perf_counter()
        await fill(plane, writer, nodes, pods, alike)
        loaded_s = time.perf_counter() - began_s
        await until_calm(plane)
        with services.services(plane, binder=False) as pids:
            pid, before = pids["scheduler"], processes.cpu_of(plane.pids())
            decided_s = await writer.seconds_until_placed(load.pod_name(pods))
            used_s, server_s = processes.cpu_s(pid), processes.cpu_of(plane.pids())
            await asyncio.sleep(2.0)  # The cycle ends with reports.
            memory = processes.memory_mib(pid)
    return {
        "seconds": round(decided_s, 3),
        "cpu_s": round(used_s, 2),
        "server_cpu_s": {name: round(server_s[name] - before[name], 2) for name in before},
        "pods": pods,
        "nodes": nodes,
        "resident_mib": round(memory["VmRSS"]),
        "resident_peak_mib": round(memory["VmHWM"]),
        "loaded_in_s": round(loaded_s, 1),
    }


async def fill(plane: ControlPlane, writer: load.Load, nodes: int, pods: int, alike: bool) -> None:
    await writer.write_all(services.definitions())
    await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
    await writer.write_all(load.nodes(nodes, gpus=-(-pods // nodes) + 4))
    await writer.write_all(services.queues())
    await writer.write_all(services.pod_groups(1, first=pods))
    await _run_pods(plane, writer, nodes, pods, alike)
    await writer.write_all(load.pods(1, load.OUR_SCHEDULER, first=pods, grouped=True))


async def _run_pods(
    plane: ControlPlane, writer: load.Load, nodes: int, pods: int, alike: bool
) -> None:
    """Large pods, each on its node: one by the API, the others copied from it."""
    await writer.write_all(load.born_on_a_node(load.large_pods(1)))
    first = load.pod_name(0)
    uid = (await writer.read(f"{load.PODS}/{first}"))["metadata"]["uid"]
    await copy_stored(
        plane.store,
        f"/registry/pods/default/{first}",
        (
            {
                first: load.pod_name(number),
                load.node_name(0): load.node_name(number % nodes),
                uid: f"{number:08x}{uid[8:]}",
                **({} if alike else {load.LAST_VALUE: f"{number:0{len(load.LAST_VALUE)}}"}),
            }
            for number in range(1, pods)
        ),
    )
    await until_served(writer, load.pod_name(pods - 1))


async def until_served(writer: load.Load, pod: str) -> None:
    """The server has taken in what was put behind its back."""
    async with asyncio.timeout(_SERVED_WITHIN_S):
        # Version 0: out of the server's own copy, as informers are served.
        while True:
            if await writer.exists(f"{load.PODS}/{pod}?resourceVersion=0"):
                return
            await asyncio.sleep(0.5)


async def until_calm(plane: ControlPlane) -> None:
    """The server's own work after such a load (collecting, compacting) is not what we measure."""
    pids = plane.pids()
    for _ in range(int(_CALM_WITHIN_S / 2.0)):
        before = sum(processes.cpu_of(pids).values())
        await asyncio.sleep(2.0)
        if sum(processes.cpu_of(pids).values()) - before < _CALM_CPU_S:
            return
