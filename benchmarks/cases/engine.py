"""The engine alone: tables in, plan out, no API server, one core.

`seconds` is the median of five `run_cycle` from a built snapshot with what a user gets who
configures nothing, empty memory and explanations on; `cpu_seconds` is the same in processor time,
for machines that others use too. Building the snapshot and the first call, which loads or compiles
kernels, are reported apart.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec

from benchmarks.cases.engine_loads import Load, records
from benchmarks.registry import Measured, case
from muster.base.gc_pause import gc_paused
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.policy import Policy
from muster.engine.profiles.known import KAI, MUSTER, conf_of
from muster.engine.registry import build_actions, build_policy
from muster.model.records import JobRecord, QueueRecord, TaskRecord, gang
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables, snapshot_of

_RUNS = 5
_ALLOCATE = "actions: allocate\n"
_CONF, _KAI_CONF = (conf_of(profile, _ALLOCATE, "benchmark") for profile in (MUSTER, KAI))
_POLICY, _KAI_POLICY = build_policy(_CONF), build_policy(_KAI_CONF)
_ACTIONS = build_actions(_CONF)

P1 = Load(nodes=1_000, jobs=8_000)
P1_SHARED = replace(P1, jobs=16_000, portion=500)
P1X = Load(nodes=10_000, jobs=100_000, queues=50)
P2 = Load(nodes=500, jobs=1_000, is_full=True)
P3 = Load(nodes=1_000, jobs=1, gang=512, gpus=8)
LOADS = {
    "p1": (P1, "8,000 one-GPU jobs on 1,000 empty 8-GPU nodes"),
    "p1-50-queues": (replace(P1, queues=50), "the same in 50 queues on two levels"),
    "p1-shared": (P1_SHARED, "16,000 half-GPU pods on 1,000 empty 8-GPU nodes"),
    "p1x": (P1X, "100,000 one-GPU jobs on 10,000 nodes, 50 queues"),
    "p2": (P2, "1,000 identical jobs that cannot fit on 500 full nodes"),
    "p2x": (replace(P2, is_many_shapes=True), "1,000 shapes that cannot fit on 500 full nodes"),
    "p3": (P3, "a gang of 512 pods x 8 GPUs on 1,000 nodes"),
    "p3-too-large": (replace(P3, gang=1_001), "a gang of 1,001 pods x 8 GPUs on 1,000 nodes"),
}


def _cycle(
    snapshot: ClusterSnapshot, memory: Memory = EMPTY, policy: Policy = _POLICY
) -> CycleResult:
    with gc_paused():  # as the scheduler does it
        return run_cycle(snapshot, policy, _ACTIONS, 0.0, memory)


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(load: Load, policy: Policy = _POLICY) -> Measured:
    """One load, run five times after a first call."""
    world = records(load)
    building_s, _ = _timed(lambda: snapshot_of(world))
    snapshot = snapshot_of(world)
    first_s, _ = _timed(lambda: _cycle(snapshot, policy=policy))
    times = [_timed(lambda: _cycle(snapshot, policy=policy)) for _ in range(_RUNS)]
    result = _cycle(snapshot, policy=policy)
    return {
        "seconds": round(statistics.median(wall for wall, _ in times), 5),
        "cpu_seconds": round(statistics.median(cpu for _, cpu in times), 5),
        "snapshot_seconds": round(building_s, 4),
        "first_seconds": round(first_s, 3),
        "binds": len(result.plan.binds),
        "refused": len(result.explanation.refusals),
    }


def _register(name: str, load: Load, why: str) -> None:
    case(name, why=why)(lambda: measured(load))
    perturbed = replace(load, is_perturbed=True)
    case(f"{name}-perturbed", why=f"{why}, some of them odd")(lambda: measured(perturbed))


for _name, (_load, _why) in LOADS.items():
    _register(_name, _load, _why)


for _name in ("p1", "p1-shared"):
    _load, _ = LOADS[_name]
    case(f"{_name}-kai", why=f"{_name} in KAI's profile, which packs nodes")(
        partial(measured, _load, _KAI_POLICY)
    )


@case("p2-again", why="the cycle after p2, when nothing changed")
def p2_again() -> Measured:
    snapshot = snapshot_of(records(P2))
    memory = _cycle(snapshot).memory
    times = [_timed(lambda: _cycle(snapshot, memory)) for _ in range(_RUNS)]
    return {"seconds": round(statistics.median(wall for wall, _ in times), 6)}


@case("p2-came-to-run", why="the cycle after p2, when one bound pod came to run")
def p2_came_to_run() -> Measured:
    def change(tables: ClusterTables) -> None:
        task = next(task for task in tables.records().tasks if task.status is TaskStatus.RUNNING)
        tables.upsert_task(msgspec.structs.replace(task, status=TaskStatus.BOUND))

    return _after(change)


@case("p2-newcomer", why="the cycle after p2, when a pod came to another queue and fits")
def p2_newcomer() -> Measured:
    def change(tables: ClusterTables) -> None:
        tables.upsert_queue(QueueRecord("other", uid="other"))
        tables.upsert_job(JobRecord("load/new", "other", uid="new", sub_groups=gang(1)))
        request = {"cpu": 1000, "pods": 1}
        tables.upsert_task(TaskRecord("new", "new", "load/new", namespace="load", request=request))

    return _after(change)


def _after(change: Callable[[ClusterTables], None]) -> Measured:
    """The cycle after p2 and a change, with what p2 remembers, and without."""
    tables = ClusterTables()
    tables.extend(records(P2))
    memory = _cycle(tables.snapshot()).memory
    change(tables)
    snapshot = tables.snapshot()
    times = [_timed(lambda: _cycle(snapshot, memory)) for _ in range(_RUNS)]
    without = [_timed(lambda: _cycle(snapshot)) for _ in range(_RUNS)]
    result = _cycle(snapshot, memory)
    return {
        "seconds": round(statistics.median(wall for wall, _ in times), 6),
        "cpu_seconds": round(statistics.median(cpu for _, cpu in times), 6),
        "cpu_seconds_without": round(statistics.median(cpu for _, cpu in without), 6),
        "binds": len(result.plan.binds),
        "refused": len(result.explanation.refusals),
    }


@case("p9", why="p1 at 1, 2 and 4 times the nodes and pods: growth per doubling")
def p9() -> Measured:
    sizes = []
    for times in (1, 2, 4):
        load = replace(P1, nodes=times * P1.nodes, jobs=times * P1.jobs)
        sizes.append({"nodes": load.nodes, **measured(load)})
    first, last = (float(str(sizes[at]["cpu_seconds"])) for at in (0, -1))
    growth = (last / first) ** 0.5
    return {
        "seconds": sizes[-1]["seconds"],
        "growth_per_doubling": round(growth, 3),
        "sizes": sizes,
    }
