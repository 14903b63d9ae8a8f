"""Past usage in a cycle: a thousand queues over thirty days from our own store.

`seconds` is what usage costs on the cycle's path: taking a new reading into the tables, the
queues' columns of the next snapshot, and the shares by it. Reading the store and folding it, which
runs in a thread beside the cycles, is reported apart: `first_read_s` of the whole store, `read_s`
of what is new since the reading before.
"""

import asyncio
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.registry import Measured, case
from muster.base.offload import inline
from muster.engine.plugins.fair_share.shares import shares_of
from muster.model.records import ClusterRecords, NodeRecord, QueueRecord
from muster.model.tables import ClusterTables
from muster.model.usage import QueueUsage, UsageWindow
from muster.numerics.axis import QUEUE_WIDTH
from muster.usage.accrual import BUCKET_S, CLUSTER, Sums
from muster.usage.embedded import EmbeddedUsage
from muster.usage.store import UsageStore

_QUEUES, _DEPARTMENTS, _DAYS = 1_000, 50, 30
_DAY_S = 86_400
_NOW_S = 20_000 * _DAY_S
_RUNS = 9


@case("p11", why="past usage of 1,000 queues over 30 days, folded into a cycle")
def p11() -> Measured:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "usage.db"
        _write(path)
        source = EmbeddedUsage(path, UsageWindow(_DAY_S * 7, _DAYS * _DAY_S), inline)
        first_read_s, usage = _timed_read(source, _NOW_S)
        read_s, usage = _timed_read(source, _NOW_S + 60)
        size = path.stat().st_size
    return {
        "seconds": statistics.median(_on_the_cycle(usage, run) for run in range(_RUNS)),
        "first_read_s": first_read_s,
        "read_s": read_s,
        "queues": len(usage.by_queue),
        "store_bytes": size,
    }


def _names() -> list[str]:
    return [f"queue-{number:04}" for number in range(_QUEUES)]


def _write(path: Path) -> None:
    """Every queue holds something all the time: the worst that a store can have."""
    store, random = UsageStore(path), np.random.default_rng(11)
    for day in range(_DAYS):
        sums = Sums()
        for start_s in range(_NOW_S - (day + 1) * _DAY_S, _NOW_S - day * _DAY_S, BUCKET_S):
            sums.held[start_s, CLUSTER] = np.full(QUEUE_WIDTH, 8_000.0 * BUCKET_S)
            for name, amounts in zip(_names(), random.random((_QUEUES, QUEUE_WIDTH)), strict=True):
                sums.held[start_s, name] = amounts * 8 * BUCKET_S
        store.add(sums, _NOW_S)
    store.close()


def _timed_read(source: EmbeddedUsage, now_s: float) -> tuple[float, QueueUsage]:
    began_s = time.perf_counter()
    usage = asyncio.run(source.read(now_s))
    return time.perf_counter() - began_s, usage


def _on_the_cycle(usage: QueueUsage, run: int) -> float:
    """Seconds of a cycle that usage takes: with a new reading, less one with the reading before."""
    tables = _tables()
    shares_of(tables.snapshot(), 1.0)
    changed = {
        name: {resource: part * (1 + run / 1000) for resource, part in used.items()}
        for name, used in usage.by_queue.items()
    }
    began_s = time.perf_counter()
    tables.set_usage(changed)
    shares_of(tables.snapshot(), 1.0)
    return time.perf_counter() - began_s


def _tables() -> ClusterTables:
    tables = ClusterTables()
    departments = [f"department-{number:02}" for number in range(_DEPARTMENTS)]
    queues = [QueueRecord(name) for name in departments]
    queues += [
        QueueRecord(name, departments[number % _DEPARTMENTS])
        for number, name in enumerate(_names())
    ]
    amounts = {"cpu": 64_000, "memory": 512 << 30, "pods": 110, "gpu": 8_000}
    nodes = [NodeRecord(f"node-{number:04}", amounts) for number in range(1_000)]
    tables.extend(ClusterRecords(nodes=tuple(nodes), queues=tuple(queues)))
    return tables
