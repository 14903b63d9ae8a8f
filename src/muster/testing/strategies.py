"""Hypothesis strategies: small clusters with everything that the engine has to get right.

Clusters are drawn as records in a random order. Running work is put where there is room, so that
what the engine starts from is possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from muster.model.constraint_terms import Taint
from muster.model.records import (
    ClusterRecords,
    Disruption,
    JobRecord,
    NodeRecord,
    QueueRecord,
    SubGroupRecord,
    TaskRecord,
)
from muster.model.status import TaskStatus
from muster.testing import make

_TAINTS: tuple[tuple[Taint, ...], ...] = ((), (), (), (Taint("kept"),))
_GPU_MEMORY = "memory of each GPU, in MiB"
_CORDONED = (False, False, False, True)
_POD_SLOTS = (110, 110, 110, 2)
_GPU_MEMORY_MIB = (80_000, 80_000, 40_000, 0)
DISRUPTIONS = (Disruption.GANG, Disruption.GANG, Disruption.JOB, Disruption.TASK)
_HELD = (TaskStatus.RUNNING, TaskStatus.RUNNING, TaskStatus.RELEASING)


@dataclass(frozen=True, slots=True)
class Features:
    """What a drawn cluster may contain."""

    fractions: bool = False
    sub_groups: bool = False


Part = NodeRecord | QueueRecord | make.Workload
PLAIN = Features()
ALL = Features(fractions=True, sub_groups=True)


@st.composite
def clusters(draw: st.DrawFn, features: Features = PLAIN) -> ClusterRecords:
    """A cluster of up to five nodes, four leaf queues and eight jobs."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    memory_mib = st.sampled_from(_GPU_MEMORY_MIB) if features.fractions else st.just(80_000)
    nodes = [
        make.node(
            f"n{at}",
            gpu=gpu,
            cpu=8,
            pods=draw(st.sampled_from(_POD_SLOTS)),
            gpu_memory_mib=draw(memory_mib),
            taints=draw(st.sampled_from(_TAINTS)),
            is_unschedulable=draw(st.sampled_from(_CORDONED)),
        )
        for at, gpu in enumerate(sizes)
    ]
    queues = draw(_queues())
    leaves = [q.name for q in queues if not any(other.parent == q.name for other in queues)]
    free = {n.name: {**n.allocatable, _GPU_MEMORY: n.gpu_memory_mib} for n in nodes}
    work = [draw(_job(f"j{at}", leaves, features, free)) for at in range(draw(st.integers(1, 8)))]
    parts: list[Part] = [*nodes, *queues, *work]
    return make.cluster(*draw(st.permutations(parts)))


@st.composite
def _queues(draw: st.DrawFn) -> list[QueueRecord]:
    tops = [make.queue(f"t{at}", quota_gpu=4) for at in range(draw(st.integers(0, 2)))]
    count = draw(st.integers(1, 4))
    parents = [top.name for top in tops] or [""]
    return tops + [
        make.queue(
            f"q{at}",
            parent=draw(st.sampled_from(parents)),
            quota_gpu=draw(st.integers(-1, 4)),
            limit_gpu=draw(st.sampled_from([-1, -1, -1, 2, 5])),
            weight=draw(st.integers(0, 2)),
            priority=draw(st.sampled_from([100, 100, 200])),
            created_s=float(draw(st.integers(0, 2))),
        )
        for at in range(count)
    ]


@st.composite
def _job(
    draw: st.DrawFn,
    name: str,
    queues: list[str],
    features: Features,
    free: dict[str, dict[str, int]],
) -> make.Workload:
    leaves = draw(_leaves(features))
    job = JobRecord(
        key=f"default/{name}",
        uid=name,
        queue=draw(st.sampled_from(queues)),
        sub_groups=SubGroupRecord("", None, tuple(leaf for leaf, _ in leaves)),
        priority=draw(st.sampled_from([50, 50, 75, 100])),
        is_preemptible=draw(st.booleans()),
        created_s=float(draw(st.integers(0, 3))),
        disruption=draw(st.sampled_from(DISRUPTIONS)),
    )
    tasks: list[TaskRecord] = []
    runs = draw(st.booleans()) and draw(st.booleans())
    for leaf, size in leaves:
        need = draw(_needs(features))
        for _ in range(size):
            node = _node_with_capacity(free, need) if runs else ""
            status = draw(st.sampled_from(_HELD)) if node else TaskStatus.PENDING
            tasks.append(
                make.task(job, len(tasks), need, node=node, sub_group=leaf.name, status=status)
            )
    return make.Workload(job, tuple(tasks))


@st.composite
def _leaves(draw: st.DrawFn, features: Features) -> list[tuple[SubGroupRecord, int]]:
    count = draw(st.integers(1, 3)) if features.sub_groups else 1
    names = [f"g{at}" for at in range(count)] if count > 1 else ["default"]
    found = []
    for leaf in names:
        size = draw(st.integers(1, 4))
        found.append((SubGroupRecord(leaf, draw(st.integers(0, size))), size))
    return found


@st.composite
def _needs(draw: st.DrawFn, features: Features) -> make.Need:
    cpu = draw(st.sampled_from([0.5, 1, 3]))
    how = draw(st.sampled_from(["whole", "part", "memory"])) if features.fractions else "whole"
    if how == "whole":
        return make.Need(gpu=draw(st.integers(0, 3)), cpu=cpu)
    devices = draw(st.sampled_from([1, 1, 1, 2]))
    if how == "part":
        return make.Need(gpu=draw(st.sampled_from([0.25, 0.5, 0.7])), devices=devices, cpu=cpu)
    memory_mib = draw(st.sampled_from([10_000, 30_000, 60_000]))
    return make.Need(gpu_memory_mib=memory_mib, devices=devices, cpu=cpu)


def _node_with_capacity(free: Mapping[str, dict[str, int]], need: make.Need) -> str:
    """A node with room for one more, which is then taken; "" when there is none."""
    wanted = dict(need.amounts)
    if need.gpu_request.is_shared:
        wanted["gpu"] = 1000 * need.gpu_request.devices
    for name, amounts in sorted(free.items()):
        if amounts[_GPU_MEMORY] < need.gpu_memory_mib:
            continue
        if all(amounts.get(resource, 0) >= amount for resource, amount in wanted.items()):
            for resource, amount in wanted.items():
                amounts[resource] -= amount
            return name
    return ""
