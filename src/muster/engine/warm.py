"""Compile every kernel before the first cycle needs it.

Kernels are compiled when first called and kept on disk. `steps` calls each once, on a cluster that
is just large enough to reach all of them; after it no cycle compiles anything. A process does it
before it says that it is ready; the first time on a machine takes seconds, later ones load what was
kept.
"""

import math
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

import numpy as np

from muster import numerics
from muster.engine.config.conf import DEFAULT_ACTIONS, parse_conf
from muster.engine.config.defragmentation import NAME
from muster.engine.cycle import run_cycle
from muster.engine.memory import Memory
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.engine.registry import build_actions, build_policy
from muster.engine.search.bulk_search import LARGE_NODES
from muster.engine.search.victim_order import QueueStanding
from muster.model.ledger import Ledger
from muster.model.records import (
    DEFAULT_SUB_GROUP,
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
    gang,
    queue_amounts,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics import gpu_shares
from muster.numerics.axis import GPU_UNIT
from muster.numerics.least_victims import least_units

_HALF = GpuRequest(GpuKind.FRACTION, 1, portion=500)
_PAIR = SubGroupRecord("", None, (SubGroupRecord("left", 1), SubGroupRecord("right", 1)))
_ALL = ", ".join(DEFAULT_ACTIONS)
Step = tuple[str, Callable[[], object]]


_done: set[str] = set()


def warm_up(
    say: Callable[[str], object] = lambda text: None,
    wanted: Callable[[], Iterator[Step]] | None = None,
) -> None:
    """Compile or load all kernels, once in a process; `say` is told what is done, before it is.

    `wanted`: the steps, where others than cycles need kernels too.
    """
    for name, step in (wanted or steps)():
        if name not in _done:
            say(name)
            step()
            _done.add(name)


def steps() -> Iterator[Step]:
    """What to run, with a name for people."""
    yield "fair shares, queue order and allocate", lambda: _cycle(_cluster(), "allocate")
    yield "consolidation, reclaim and preempt", lambda: _cycle(_cluster(), _ALL)
    yield "small searches for victims", lambda: _cycle(_contest(2), _ALL)
    yield "shared GPUs and equal queues", lambda: _questions(Ledger(snapshot_of(_cluster())))
    yield "defragmentation", _defragmentation
    yield "large searches for victims", lambda: _cycle(_contest(LARGE_NODES), _ALL)
    yield "equal tasks in tiers", _tiers


def compiled() -> dict[str, int]:
    """How many versions of each kernel this process has: none may be added by a cycle."""
    return {
        f"{kernel.__module__}.{name}": len(kernel.signatures)
        for module in pkgutil.iter_modules(numerics.__path__, f"{numerics.__name__}.")
        for name, kernel in vars(import_module(module.name)).items()
        if hasattr(kernel, "signatures")
    }


def _cycle(records: ClusterRecords, actions: str) -> None:
    for placement in ("least-fragmentation", "binpack"):
        conf = parse_conf(f'actions: "{actions}"\nplacement: {placement}\n')
        run_cycle(snapshot_of(records), build_policy(conf), build_actions(conf), now_s=0.0)


def _defragmentation() -> None:
    """A round that is due."""
    conf = parse_conf("actions: allocate\nplacement: least-fragmentation\ndefragmentation: {}\n")
    memory = Memory(acted_s={NAME: -math.inf})
    run_cycle(snapshot_of(_contest(2)), build_policy(conf), (), 0.0, memory)


def _tiers() -> None:
    """A gang by Volcano's default rules."""
    conf = parse_for(VOLCANO, "", "built-in default")
    cluster = ClusterRecords(
        nodes=(NodeRecord("node", {"cpu": 4_000, "memory": 1 << 30, "pods": 8}),),
        queues=(QueueRecord("queue"),),
        jobs=(JobRecord("warm/gang", "queue", sub_groups=gang(2)),),
        tasks=tuple(
            TaskRecord(uid, uid, "warm/gang", request={"cpu": 1_000, "pods": 1}) for uid in "ab"
        ),
    )
    run_cycle(
        snapshot_of(cluster), build_policy(conf, None, VOLCANO), build_actions(conf, VOLCANO), 0.0
    )


def _cluster() -> ClusterRecords:
    """Two nodes, one full; jobs that fit, grow, wait, are refused, and want parts of GPUs."""
    room = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": 4 * GPU_UNIT}
    plain = {"cpu": 1000, "pods": 1}
    return ClusterRecords(
        nodes=(NodeRecord("a", room, gpu_memory_mib=80_000), NodeRecord("b", room)),
        queues=(
            QueueRecord("top", quota=queue_amounts(-1)),
            QueueRecord("one", parent="top", quota=queue_amounts(-1, gpu=2 * GPU_UNIT)),
            QueueRecord("two", parent="top", limit=queue_amounts(-1, gpu=6 * GPU_UNIT)),
        ),
        jobs=(
            JobRecord("x/runs", "two", uid="0", sub_groups=gang(4)),
            JobRecord("x/fits", "one", uid="1", sub_groups=gang(1)),
            JobRecord("x/shares", "one", uid="2", sub_groups=gang(1)),
            JobRecord("x/too-large", "one", uid="3", sub_groups=gang(3), is_preemptible=False),
            JobRecord("x/without", "two", uid="4", sub_groups=gang(1)),
            JobRecord("x/shared", "two", uid="5", sub_groups=gang(1)),
            JobRecord("x/pair", "one", uid="6", sub_groups=_PAIR),
            JobRecord("x/large-pair", "one", uid="7", sub_groups=_PAIR),
        ),
        tasks=(
            *_tasks("runs", 4, {**plain, "gpu": GPU_UNIT}, node="a"),
            *_tasks("fits", 2, {**plain, "gpu": GPU_UNIT}),
            *_tasks("shares", 1, plain, _HALF),
            *_tasks("too-large", 3, {**plain, "gpu": 4 * GPU_UNIT}),
            *_tasks("without", 1, plain),
            *_tasks("shared", 1, plain, _HALF, node="b"),
            *_tasks("pair", 1, plain, _HALF, sub_group="left"),
            *_tasks("pair", 1, plain, _HALF, sub_group="right"),
            *_tasks("large-pair", 1, {**plain, "cpu": 8000}, sub_group="left"),
            *_tasks("large-pair", 1, {**plain, "cpu": 8000}, sub_group="right"),
        ),
    )


def _contest(nodes: int) -> ClusterRecords:
    """Full nodes of one queue, and another queue that may take some of them back; one of those who
    go can move to a node that is too small for who comes.
    """
    room = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": GPU_UNIT}
    request = {"cpu": 1000, "pods": 1, "gpu": GPU_UNIT}
    names = [f"n{at:02}" for at in range(nodes)]
    return ClusterRecords(
        nodes=(
            *(NodeRecord(name, room) for name in names),
            NodeRecord("small", {**room, "cpu": 1000}),
        ),
        queues=(
            QueueRecord("has", quota=queue_amounts(-1, gpu=0)),
            QueueRecord("wants", quota=queue_amounts(-1, gpu=nodes * GPU_UNIT)),
        ),
        jobs=(
            *(
                JobRecord(f"x/{name}", "has", uid=name, sub_groups=gang(1), priority=at % 2)
                for at, name in enumerate(names)
            ),
            JobRecord("x/takes", "wants", uid="takes", sub_groups=gang(2), is_preemptible=False),
        ),
        tasks=(
            *(task for name in names for task in _tasks(name, 1, request, node=name)),
            *_tasks("takes", 2, {**request, "cpu": 2000}),
        ),
    )


def _questions(ledger: Ledger) -> None:
    """What only rare features ask about shared GPUs, what queues that are alike ask, and searches
    for the least of many.
    """
    gpu_shares.free_units(ledger.handle)
    gpu_shares.in_use(ledger.handle)
    gpu_shares.used(ledger.handle, 0)
    QueueStanding(ledger.snapshot, ledger, None).settles_tie(0, 1)
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    least_units(one > 0, none, none, one, one, none, none, need=1, wanted=1)


def _tasks(
    job: str,
    count: int,
    request: dict[str, int],
    gpu: GpuRequest | None = None,
    node: str = "",
    sub_group: str = DEFAULT_SUB_GROUP,
) -> Iterator[TaskRecord]:
    whole = GpuRequest(GpuKind.WHOLE, request["gpu"] // GPU_UNIT) if "gpu" in request else None
    for at in range(count):
        yield TaskRecord(
            uid=f"{job}-{sub_group}-{at}",
            name=f"{job}-{sub_group}-{at}",
            sub_group=sub_group,
            gpu_shares=(f"{job}-{at}",) if gpu and node else (),
            job=f"x/{job}",
            status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
            node=node,
            request=request,
            gpu=gpu or whole or GpuRequest(),
        )
