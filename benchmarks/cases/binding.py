"""Pods bound per second on a real API server: ours, Kubernetes' own scheduler, and what the server
alone can take, one after the other in the same run.

All share the machine with the API server, so the rates depend on who else uses it; the ratios and
the processor time per pod depend on it much less.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from benchmarks import load, processes, services
from benchmarks.cases.apiserver import control_plane
from benchmarks.registry import Measured, case
from muster.lab.control_plane import ControlPlane

_PODS = 4_000
_QUIET_S = 1.0
_SETTLED_WITHIN_S = 120.0


@case("p7-500", why="4,000 waiting one-GPU pods on 500 nodes, bound as they are by default")
def p7_500() -> Measured:
    return asyncio.run(_beside_others(nodes=500, by_request=False))


@case("p7-2000", why="the same on 2,000 nodes")
def p7_2000() -> Measured:
    return asyncio.run(_beside_others(nodes=2_000, by_request=False))


@case("p7-500-requests", why="4,000 waiting one-GPU pods on 500 nodes, all through bind requests")
def p7_500_requests() -> Measured:
    return asyncio.run(_beside_others(nodes=500, by_request=True))


@case("p7-2000-requests", why="the same on 2,000 nodes")
def p7_2000_requests() -> Measured:
    return asyncio.run(_beside_others(nodes=2_000, by_request=True))


Running = Callable[[ControlPlane], AbstractContextManager[Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class Contender:
    """Who binds: the name that its pods ask for, and its processes while they run."""

    scheduler: str
    running: Running
    pod_groups: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """4,000 pods bound by one contender."""

    start_to_first_s: float
    first_to_last_s: float
    settled_s: float
    """From the first binding until nothing more is written."""
    writes: Mapping[str, int]
    cpu_s: Mapping[str, float]
    """From the first binding to the last, by process."""
    settled_cpu_s: Mapping[str, float]
    """From the first binding until nothing more is written."""

    @property
    def pods_per_s(self) -> float:
        return _PODS / self.first_to_last_s

    def shown(self) -> dict[str, object]:
        return {
            "pods_per_s": round(self.pods_per_s),
            "start_to_first_s": round(self.start_to_first_s, 2),
            "settled_s": round(self.settled_s, 2),
            "writes_per_pod": {name: round(n / _PODS, 2) for name, n in self.writes.items()},
            "cpu_ms_per_pod": _ms_per_pod(self.cpu_s),
            "settled_cpu_ms_per_pod": _ms_per_pod(self.settled_cpu_s),
        }


def _ms_per_pod(used_s: Mapping[str, float]) -> dict[str, float]:
    return {name: round(1000 * used / _PODS, 2) for name, used in used_s.items()}


async def _beside_others(nodes: int, by_request: bool) -> Measured:
    await asyncio.to_thread(services.compile_kernels)
    theirs = await _round(KUBE_SCHEDULER, nodes)
    ours = await _round(_ours(by_request), nodes)
    ceiling_per_s = await _ceiling(nodes)
    return {
        "seconds": round(ours.first_to_last_s, 3),
        "pods": _PODS,
        "nodes": nodes,
        "times_kube_scheduler": round(ours.pods_per_s / theirs.pods_per_s, 2),
        "settled_times_kube_scheduler": round(ours.settled_s / theirs.settled_s, 2),
        **ours.shown(),
        "kube_scheduler": theirs.shown(),
        "ceiling_per_s": round(ceiling_per_s),
    }


async def _round(contender: Contender, nodes: int) -> Round:
    """On a control plane of its own, so that nobody inherits what another left behind."""
    async with control_plane() as plane, load.load_on(plane) as writer:
        await writer.write_all(load.nodes(nodes))
        if contender.pod_groups:
            await _prepare_groups(writer)
        await writer.write_all(load.pods(_PODS, contender.scheduler, grouped=contender.pod_groups))
        await asyncio.sleep(2.0)  # The server's own work after the load.
        before = await asyncio.to_thread(_writes, plane)
        with contender.running(plane) as pids:
            everybody = {**plane.pids(), **pids}
            at_first: dict[str, float] = {}
            first_s, last_s = await writer.seconds_until_bound(
                _PODS, lambda: at_first.update(processes.cpu_of(everybody))
            )
            at_last = processes.cpu_of(everybody)
            settled_s = last_s - first_s + await _seconds_until_quiet(plane)
            at_end = processes.cpu_of(everybody)
            after = await asyncio.to_thread(_writes, plane)
    after.subtract(before)
    return Round(
        start_to_first_s=first_s,
        first_to_last_s=last_s - first_s,
        settled_s=settled_s,
        writes={name: count for name, count in sorted(after.items()) if count > _PODS // 100},
        cpu_s={name: at_last[name] - at_first[name] for name in everybody},
        settled_cpu_s={name: at_end[name] - at_first[name] for name in everybody},
    )


async def _prepare_groups(writer: load.Load) -> None:
    await writer.write_all(services.definitions())
    await asyncio.sleep(2.0)  # New kinds are served a moment after they are accepted.
    await writer.write_all(services.queues())
    await writer.write_all(services.pod_groups(_PODS))


async def _ceiling(nodes: int) -> float:
    """Bindings per second by a client that does nothing else."""
    async with control_plane() as plane, load.load_on(plane) as writer:
        await writer.write_all(load.nodes(nodes))
        await writer.write_all(load.pods(_PODS, scheduler="nobody"))
        await asyncio.sleep(2.0)
        return _PODS / await writer.write_all(load.bindings(_PODS, over_nodes=nodes))


def _ours(by_request: bool) -> Contender:
    flags = ["--bind-requests", "always"] if by_request else []
    return Contender(
        load.OUR_SCHEDULER,
        lambda plane: services.services(plane, flags, binder=by_request),
        pod_groups=True,
    )


@contextmanager
def _kube_scheduler(plane: ControlPlane) -> Iterator[Mapping[str, int]]:
    plane.add("kube-scheduler")
    yield {"kube-scheduler": plane.pids()["kube-scheduler"]}


KUBE_SCHEDULER = Contender("default-scheduler", _kube_scheduler)


async def _seconds_until_quiet(plane: ControlPlane) -> float:
    """Until the last write; the quiet time after it, by which we know, does not count."""
    start_s = changed_s = time.perf_counter()
    count = -1
    while time.perf_counter() - changed_s < _QUIET_S:
        found = sum((await asyncio.to_thread(_writes, plane)).values())
        if found != count:
            count, changed_s = found, time.perf_counter()
        if changed_s - start_s > _SETTLED_WITHIN_S:
            break
        await asyncio.sleep(0.2)
    return changed_s - start_s


_REQUESTS = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABELS = re.compile(r'(\w+)="([^"]*)"')
_WRITES = ("POST", "PUT", "PATCH", "DELETE", "APPLY")


def _writes(plane: ControlPlane) -> "Counter[str]":
    """How many of each kind the server has seen; leases, which go by the clock, apart."""
    found: Counter[str] = Counter()
    text = plane.call("GET", "/metrics").body["text"]
    for labels, amount in _REQUESTS.findall(text):
        told = dict(_LABELS.findall(labels))
        if told["verb"] in _WRITES and told["resource"] != "leases":
            what = "/".join(filter(None, (told["resource"], told["subresource"])))
            found[f"{told['verb']} {what}"] += int(float(amount))
    return found
