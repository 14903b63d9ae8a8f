"""What a cycle saves when the one before it searched in vain."""

import statistics
import time

from benchmarks.cases.search_loads import cluster
from benchmarks.registry import Measured, case
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.registry import build_actions, build_policy
from muster.model.records import GpuKind, GpuRequest, JobRecord, TaskRecord, gang
from muster.model.tables import ClusterTables
from muster.numerics.axis import GPU_UNIT

_NOW_S = 2e6


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
    tables.upsert_job(
        JobRecord("load/new", "actors", uid="new", sub_groups=gang(1), created_s=_NOW_S)
    )
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
