"""The engine with Volcano's default configuration: tables in, plan out.

Volcano itself takes 22.8 s for this load on a machine of the same kind, 48 s when it looks at all
nodes.
"""

import statistics
import time

from benchmarks.registry import Measured, case
from muster.base.gc_pause import gc_paused
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.engine.registry import build_actions, build_policy
from muster.model.batch_terms import GroupTerms, PodTerms, QueueTerms
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    gang,
)
from muster.model.snapshot import ClusterSnapshot
from muster.model.tables import snapshot_of

_RUNS = 5
_GIB = 1 << 30
_NODE = {"cpu": 32_000, "memory": 256 * _GIB, "pods": 110}
_POD = {"cpu": 1_000, "memory": _GIB, "pods": 1}
_CONF = parse_for(VOLCANO, "", "built-in default")
_POLICY = build_policy(_CONF, None, VOLCANO)
_ACTIONS = build_actions(_CONF, VOLCANO)


def records(nodes: int, gangs: int, size: int, queues: int = 1) -> ClusterRecords:
    """Gangs that wait to be let in, on empty nodes."""
    names = [f"queue-{number}" for number in range(queues)]
    return ClusterRecords(
        nodes=tuple(NodeRecord(f"node-{number:05}", _NODE) for number in range(nodes)),
        queues=tuple(QueueRecord(name, uid=name, terms=QueueTerms()) for name in names),
        jobs=tuple(
            JobRecord(
                f"load/gang-{number}",
                names[number % queues],
                uid=f"gang-{number}",
                sub_groups=gang(size),
                created_s=float(number),
                terms=GroupTerms("Pending", size),
            )
            for number in range(gangs)
        ),
        tasks=tuple(
            TaskRecord(
                f"gang-{number}-{member}",
                f"gang-{number}-{member}",
                f"load/gang-{number}",
                namespace="load",
                request=_POD,
                terms=PodTerms(),
            )
            for number in range(gangs)
            for member in range(size)
        ),
    )


def _cycle(snapshot: ClusterSnapshot) -> CycleResult:
    with gc_paused():
        return run_cycle(snapshot, _POLICY, _ACTIONS, 0.0)


def _measured(world: ClusterRecords) -> Measured:
    snapshot = snapshot_of(world)
    result = _cycle(snapshot)
    times, cpu = [], []
    for _ in range(_RUNS):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        _cycle(snapshot)
        times.append(time.perf_counter() - wall_s)
        cpu.append(time.process_time() - cpu_s)
    return {
        "seconds": round(statistics.median(times), 4),
        "cpu_seconds": round(statistics.median(cpu), 4),
        "binds": len(result.plan.binds),
        "admitted": len(result.plan.admitted),
    }


@case("p1-volcano", why="1,000 gangs of 10 pods on 1,000 nodes with Volcano's default conf")
def p1_volcano() -> Measured:
    return _measured(records(1_000, 1_000, 10))


@case("p1-volcano-50-queues", why="the same in 50 queues")
def p1_volcano_50_queues() -> Measured:
    return _measured(records(1_000, 1_000, 10, queues=50))
