"""The start of the scheduler in a large cluster: until its first decision, and its memory then."""

import asyncio
from collections.abc import Iterator
from typing import Any

from benchmarks import load, processes, services
from benchmarks.cases.apiserver import control_plane
from benchmarks.registry import Measured, case
from muster.lab.control_plane import Setup

_BIND_REQUESTS = "/apis/scheduling.run.ai/v1alpha2/bindrequests"
# A gigabyte of pods, and etcd keeps what was before until it is told to forget it.
_ROOMY = Setup(more_flags={"etcd": ["--quota-backend-bytes=8589934592"]})


@case("p6", why="process start to first decision, and its memory: 140,000 pods on 5,000 nodes")
def p6() -> Measured:
    return asyncio.run(_first_decision(nodes=5_000, pods=140_000))


@case("p6-tenth", why="the same with a tenth of everything")
def p6_tenth() -> Measured:
    return asyncio.run(_first_decision(nodes=500, pods=14_000))


async def _first_decision(nodes: int, pods: int) -> Measured:
    """One pod waits among many that run; the first decision is the bind request for it."""
    async with control_plane(_ROOMY) as plane, load.load_on(plane) as writer:
        created_s = await writer.write_all(services.definitions())
        await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
        created_s += await writer.write_all(load.nodes(nodes, gpus=-(-pods // nodes) + 4))
        created_s += await writer.write_all(services.queues())
        created_s += await writer.write_all(_running(load.large_pods(pods), nodes))
        created_s += await writer.write_all(services.pod_groups(1, first=pods))
        waiting = load.pods(1, load.OUR_SCHEDULER, first=pods, grouped=True)
        created_s += await writer.write_all(waiting)
        with services.services(plane, binder=False) as pids:
            pid = pids["scheduler"]
            decided_s = await writer.seconds_until_any(_BIND_REQUESTS)
            used_s = processes.cpu_s(pid)
            await asyncio.sleep(2.0)  # The cycle ends with reports.
            memory = processes.memory_mib(pid)
    return {
        "seconds": round(decided_s, 3),
        "cpu_s": round(used_s, 2),
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
