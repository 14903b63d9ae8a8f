"""Baselines: what the API server can do, and what Kubernetes' own scheduler does with it."""

import asyncio
import sys
from pathlib import Path

from benchmarks import load
from benchmarks.registry import Measured, case
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.kube_programs import NotHere, kube_programs

_ROOT = Path(__file__).resolve().parents[2]


def control_plane(setup: Setup | None = None) -> ControlPlane:
    """A control plane for one case, or a line that says why there is none."""
    found = kube_programs(_ROOT)
    if isinstance(found, NotHere):
        sys.exit(f"{found.reason} (make kube)")
    return ControlPlane(found, setup)


@case(
    "apiserver-ceiling", why="one thin client creates and binds 4,000 pods, 32 requests in flight"
)
def apiserver_ceiling() -> Measured:
    return asyncio.run(_ceiling(pods=4_000, nodes=100))


@case("kube-scheduler-500", why="Kubernetes' own scheduler binds 4,000 waiting pods on 500 nodes")
def kube_scheduler_500() -> Measured:
    return asyncio.run(_kube_scheduler(pods=4_000, nodes=500))


@case("kube-scheduler-2000", why="the same on 2,000 nodes")
def kube_scheduler_2000() -> Measured:
    return asyncio.run(_kube_scheduler(pods=4_000, nodes=2_000))


async def _ceiling(pods: int, nodes: int) -> Measured:
    async with control_plane() as plane, load.load_on(plane) as writer:
        # The server does not count what fits on a node, so a hundred nodes take any number.
        await writer.write_all(load.nodes(nodes))
        creating_s = await writer.write_all(load.pods(pods, scheduler="nobody"))
        binding_s = await writer.write_all(load.bindings(pods, over_nodes=nodes))
    return {
        "seconds": round(binding_s, 3),
        "bindings": pods,
        "bindings_per_s": round(pods / binding_s),
        "creates_per_s": round(pods / creating_s),
    }


async def _kube_scheduler(pods: int, nodes: int) -> Measured:
    async with control_plane() as plane, load.load_on(plane) as writer:
        await writer.write_all(load.nodes(nodes))
        await writer.write_all(load.pods(pods, scheduler="default-scheduler"))
        watching = asyncio.create_task(writer.seconds_until_bound(pods))
        await asyncio.to_thread(plane.add, "kube-scheduler")
        first_s, last_s = await watching
    # From the first binding on: how long a scheduler takes to start is another question.
    return {
        "seconds": round(last_s - first_s, 3),
        "pods": pods,
        "nodes": nodes,
        "pods_per_s": round(pods / (last_s - first_s)),
    }
