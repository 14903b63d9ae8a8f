"""A full cluster at work: as many pods come as go, for ten minutes, and each newcomer is timed.

Kubernetes' own scheduler and ours one after the other in the same run, each on a control plane of
its own, with the real garbage collector beside: what pods leave behind goes as in any cluster. Ours
is the whole chain, from a bare pod over its pod group and bind request to its binding, with the
flags that a user gets who gives none.
"""

import asyncio
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import load, processes, services
from benchmarks.cases.apiserver import control_plane
from benchmarks.cases.binding import KUBE_SCHEDULER, Contender
from benchmarks.cases.start import until_calm, until_served
from benchmarks.copies import copy_stored
from benchmarks.registry import Measured, case
from muster.lab.control_plane import ControlPlane, Setup

_COLLECTOR = "--controllers=garbage-collector-controller,serviceaccount-controller"
_SETUP = Setup(
    more_flags={
        "etcd": ["--quota-backend-bytes=8589934592"],
        "kube-controller-manager": [_COLLECTOR],
    }
)
_SAMPLE_S = 10.0
_WARM_S = 60.0
"""What came before is not in the figures: caches fill, processes grow to their size."""
_LAST_WITHIN_S = 60.0
_BEGINS_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Steady:
    """How much, and for how long."""

    nodes: int = 2_000
    pods: int = 20_000
    per_s: float = 30.0
    lasts_s: float = 600.0


@case("p10", why="2,000 nodes, 20,000 pods, 30 a second come and go for 10 minutes: time to bind")
def p10() -> Measured:
    return asyncio.run(_beside_kube_scheduler(Steady()))


@case("p10-minute", why="the same for two minutes, a tenth of the size: to try things out")
def p10_minute() -> Measured:
    return asyncio.run(_beside_kube_scheduler(Steady(nodes=200, pods=2_000, lasts_s=120.0)))


@dataclass(slots=True)
class Waits:
    """When each pod was asked for, and how long its binding took."""

    asked_s: dict[str, float] = field(default_factory=dict)
    to_bind_s: dict[str, float] = field(default_factory=dict)

    def bound(self, name: str) -> None:
        asked_s = self.asked_s.get(name)
        if asked_s is not None and name not in self.to_bind_s:
            self.to_bind_s[name] = time.perf_counter() - asked_s

    def figures(self, since_s: float) -> dict[str, object]:
        took_s = sorted(
            took for name, took in self.to_bind_s.items() if self.asked_s[name] >= since_s
        )
        never = len(self.asked_s) - len(self.to_bind_s)
        return {
            "median_s": round(statistics.median(took_s), 3),
            "p99_s": round(took_s[int(0.99 * (len(took_s) - 1))], 3),
            "worst_s": round(took_s[-1], 3),
            "bound": len(took_s),
            "never_bound": never,
        }


async def _beside_kube_scheduler(steady: Steady) -> Measured:
    await asyncio.to_thread(services.compile_kernels)
    theirs = await _round(KUBE_SCHEDULER, steady)
    ours = await _round(_OURS, steady)
    return {
        "seconds": ours["median_s"],
        **ours,
        "nodes": steady.nodes,
        "pods": steady.pods,
        "per_s": steady.per_s,
        "lasts_s": steady.lasts_s,
        "kube_scheduler": theirs,
    }


_OURS = Contender(load.OUR_SCHEDULER, services.product, pod_groups=True)


async def _round(contender: Contender, steady: Steady) -> dict[str, object]:
    async with control_plane(_SETUP) as plane, load.load_on(plane) as writer:
        await _fill(plane, writer, steady, contender)
        await asyncio.to_thread(plane.add, "kube-controller-manager")
        with contender.running(plane) as pids:
            await asyncio.sleep(15.0)  # Everybody has read what is there.
            await _until_it_binds(writer, steady, contender.scheduler)
            await until_calm(plane)
            everybody = {**plane.pids(), **pids}
            before = processes.cpu_of(everybody)
            waits, sizes = Waits(), list[Mapping[str, float]]()
            began_s = time.perf_counter()
            async with _watched(writer, waits), _sampled(pids, sizes):
                await _come_and_go(writer, steady, contender.scheduler, waits)
                await _until_all_bound(waits)
            after = processes.cpu_of(everybody)
    return {
        **waits.figures(began_s + min(_WARM_S, steady.lasts_s / 4)),
        "cpu_ms_per_pod": {
            name: round(1000 * (after[name] - before[name]) / len(waits.asked_s), 2)
            for name in everybody
        },
        "memory": _memory(sizes),
    }


async def _fill(
    plane: ControlPlane, writer: load.Load, steady: Steady, contender: Contender
) -> None:
    """Running pods, with their pod groups where the contender has such: one of each through the
    API, the others copied from it."""
    if contender.pod_groups:
        await writer.write_all(services.definitions())
        await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
        await writer.write_all(services.queues())
    await writer.write_all(load.nodes(steady.nodes, gpus=16))
    grouped = contender.pod_groups
    first = load.pods(1, contender.scheduler, grouped=grouped)
    await writer.write_all(load.born_on_a_node(first))
    pod, node = load.pod_name(0), load.node_name(0)
    uid = (await writer.read(f"{load.PODS}/{pod}"))["metadata"]["uid"]
    numbers = range(1, steady.pods)

    def another(uid: str, number: int) -> dict[str, str]:
        return {uid: f"{number:08x}{uid[8:]}"}

    if grouped:
        await writer.write_all(services.pod_groups(1, owner=(pod, uid)))
        group = load.group_name(0)
        found = await writer.read(f"{services.POD_GROUPS}/{group}")
        own_uid = found["metadata"]["uid"]
        await copy_stored(
            plane.store,
            f"/registry/scheduling.run.ai/podgroups/default/{group}",
            (
                {
                    group: load.group_name(number),
                    pod: load.pod_name(number),
                    **another(uid, number),
                    **another(own_uid, number),
                }
                for number in numbers
            ),
        )
    await copy_stored(
        plane.store,
        f"/registry/pods/default/{pod}",
        (
            {
                pod: load.pod_name(number),
                node: load.node_name(number % steady.nodes),
                **another(uid, number),
                **({load.group_name(0): load.group_name(number)} if grouped else {}),
            }
            for number in numbers
        ),
    )
    await until_served(writer, load.pod_name(steady.pods - 1))


async def _until_it_binds(writer: load.Load, steady: Steady, scheduler: str) -> None:
    """A first pod comes and goes: processes take their time to begin, and that is another case."""
    number = steady.pods + int(steady.per_s * steady.lasts_s)
    await writer.write_all(load.pods(1, scheduler, first=number))
    for _ in range(int(_BEGINS_WITHIN_S)):
        if (await writer.read(f"{load.PODS}/{load.pod_name(number)}"))["spec"].get("nodeName"):
            await writer.write_all([load.deletion(load.pod_name(number))])
            return
        await asyncio.sleep(1.0)
    raise TimeoutError(f"{scheduler} bound nothing within {_BEGINS_WITHIN_S:.0f} s")


async def _come_and_go(writer: load.Load, steady: Steady, scheduler: str, waits: Waits) -> None:
    """One comes and the oldest goes, at the given pace, whatever the server takes to answer."""
    running = deque(load.pod_name(number) for number in range(steady.pods))
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as work:
        for step in range(int(steady.per_s * steady.lasts_s)):
            due_s = began_s + step / steady.per_s
            await asyncio.sleep(max(due_s - time.perf_counter(), 0.0))
            (comes,) = load.pods(1, scheduler, first=steady.pods + step)
            name = load.pod_name(steady.pods + step)
            waits.asked_s[name] = time.perf_counter()
            running.append(name)
            work.create_task(writer.write_all([comes]))
            work.create_task(writer.write_all([load.deletion(running.popleft())]))


async def _until_all_bound(waits: Waits) -> None:
    for _ in range(int(_LAST_WITHIN_S)):
        if len(waits.to_bind_s) == len(waits.asked_s):
            return
        await asyncio.sleep(1.0)


@asynccontextmanager
async def _watched(writer: load.Load, waits: Waits) -> AsyncIterator[None]:
    version = (await writer.read(f"{load.PODS}?limit=1"))["metadata"]["resourceVersion"]

    async def watch() -> None:
        async for name in writer.bound_pods_since(version):
            waits.bound(name)

    async with _beside(watch()):
        yield


@asynccontextmanager
async def _sampled(
    pids: Mapping[str, int], sizes: list[Mapping[str, float]]
) -> AsyncIterator[None]:
    async def sample() -> None:
        while True:
            sizes.append({name: processes.memory_mib(pid)["VmRSS"] for name, pid in pids.items()})
            await asyncio.sleep(_SAMPLE_S)

    async with _beside(sample()):
        yield


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _memory(sizes: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """After the first quarter and at the end; flat when the second is not above the first."""
    quarter, last = sizes[len(sizes) // 4], sizes[-1]
    return {
        name: {
            "after_a_quarter_mib": round(quarter[name]),
            "at_the_end_mib": round(last[name]),
            "times": round(last[name] / quarter[name], 3),
        }
        for name in last
    }
