"""Benchmarks of reclaim, preempt and consolidation: from a built snapshot to a plan, one core."""

import statistics
import time

from benchmarks.cases.search_loads import cluster, mixed
from benchmarks.registry import Measured, case
from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import Settings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.registry import build_actions, build_policy
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    TaskRecord,
    gang,
)
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.axis import GPU_UNIT

_NOW_S = 2e6
_ALL = "allocate, consolidation, reclaim, preempt, stalegangeviction"


@case("p4", why="reclaim for gangs of 16, 32, 64 pods of 8 GPUs on 400 nodes of one-GPU victims")
def p4() -> Measured:
    loads = [cluster(400, pending=((1, size, 8),), actor_quota=3200) for size in (16, 32, 64)]
    return _several("pods", (16, 32, 64), loads, "reclaim")


@case("k1", why="one gang of N/2 pods of 8 GPUs reclaims from 8N one-GPU jobs")
def k1() -> Measured:
    sizes = (100, 500, 1000)
    loads = [cluster(n, pending=((1, n // 2, 8),), actor_quota=8 * n) for n in sizes]
    return _several("nodes", sizes, loads, "reclaim")


@case("k2", why="8N running and 8N pending one-GPU jobs, all five actions")
def k2() -> Measured:
    sizes = (100, 500, 1000)
    loads = [cluster(n, pending=((8 * n, 1, 1),), actor_quota=8 * n) for n in sizes]
    return _several("nodes", sizes, loads, _ALL)


@case("k3", why="a gang of 10 pods of 8 GPUs that never fits, its victims one GPU short")
def k3() -> Measured:
    sizes = (100, 500, 1000)
    return _several("nodes", sizes, [_hopeless(n) for n in sizes], "reclaim")


@case("k3-anti-affinity", why="the same with required anti-affinity over nine racks")
def k3_anti_affinity() -> Measured:
    load = _hopeless(100, racks=9, anti_affinity=True)
    return _several("nodes", (100,), [load], "reclaim")


@case("k3-topology", why="the same with a required rack out of twelve")
def k3_topology() -> Measured:
    return _several("nodes", (100,), [_hopeless(100, racks=12, topology=True)], "reclaim")


@case("k4", why="50 gangs that each need a rack and are searched for in vain; then one more job")
def k4() -> Measured:
    gangs = tuple((1, pods, 8) for pods in range(13, 63))
    load = cluster(100, pending=gangs, victim_quota=400, actor_quota=400, racks=12, topology=True)
    tables = ClusterTables()
    tables.extend(load)
    policy, actions = build_policy(parse_conf("")), build_actions(parse_conf(""))

    def cycle(memory: Memory = EMPTY) -> tuple[float, CycleResult]:
        started = time.process_time()
        result = run_cycle(tables.snapshot(), policy, actions, _NOW_S, memory)
        return time.process_time() - started, result

    first = [cycle() for _ in range(3)]
    tables.upsert_job(JobRecord("load/new", "actors", uid="new", groups=gang(1), created_s=_NOW_S))
    request = {"cpu": 1000, "pods": 1, "gpu": 9 * GPU_UNIT}
    tables.upsert_task(TaskRecord("new", "new", "load/new", namespace="load", request=request,
                                  gpu=GpuRequest(GpuKind.WHOLE, 9)))  # fmt: skip
    again = [cycle(first[-1][1].memory) for _ in range(6)]
    result = again[-1][1]
    return {
        "seconds": statistics.median(spent for spent, _ in again[1:]),
        "first_s": statistics.median(spent for spent, _ in first[1:]),
        "evicted": len(result.plan.evictions),
        "refused": len(result.explanation.refusals),
    }


@case("c1", why="five gangs of 10 pods of 8 GPUs among seven movable one-GPU jobs per node")
def c1() -> Measured:
    load = cluster(500, running_per_node=7, pending=((5, 10, 8),), victim_quota=-1.0)
    return _several("nodes", (500,), [load], "allocate, consolidation")


@case("f1", why="all five actions, 8,000 running and 2,000 pending of mixed shapes in 50 queues")
def f1() -> Measured:
    return _several("nodes", (1000,), [mixed(1000, 2000, 50)], _ALL)


def _hopeless(
    nodes: int, racks: int = 0, anti_affinity: bool = False, topology: bool = False
) -> ClusterRecords:
    return cluster(
        nodes,
        pending=((1, 10, 8),),
        victim_quota=8 * nodes - 79,
        actor_quota=80,
        weight=0.0,
        racks=racks,
        anti_affinity=anti_affinity,
        topology=topology,
    )


def _several(
    what: str, sizes: tuple[int, ...], loads: list[ClusterRecords], actions: str
) -> Measured:
    measured = [
        {what: size, **_measure(load, actions)} for size, load in zip(sizes, loads, strict=True)
    ]
    return {"seconds": measured[-1]["seconds"], "sizes": measured}


def _measure(records: ClusterRecords, actions: str) -> dict[str, object]:
    """Median of five; the first run compiles and is reported apart."""
    conf = parse_conf(f'actions: "{actions}"')
    policy = build_policy(conf, Settings(max_consolidation_victims=None))
    started = time.perf_counter()
    snapshot = snapshot_of(records)
    snapshot_s = time.perf_counter() - started
    spent: list[float] = []
    for _ in range(6):
        started = time.process_time()
        result = run_cycle(snapshot, policy, build_actions(conf), _NOW_S)
        spent.append(time.process_time() - started)
    plan = result.plan
    return {
        "seconds": statistics.median(spent[1:]),
        "first_s": spent[0],
        "snapshot_s": snapshot_s,
        "waiting_for_a_place": len(plan.nominations),
        "evicted": len(plan.evictions),
    }
