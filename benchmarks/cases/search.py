"""Benchmarks of reclaim, preempt and consolidation: from a built snapshot to a plan, one core.

`seconds` is processor time, the median of five `run_cycle`; the first one, which loads or compiles
kernels, and building the snapshot are reported apart. Every load has two more cases: `-perturbed`
compares it with the same load and a few odd things in it, `-growth` doubles one thing at a time.
"""

from collections.abc import Mapping
from functools import partial

from benchmarks.cases.search_loads import cluster, mixed, shared
from benchmarks.cases.search_timing import Load, each_size, growth, perturbed
from benchmarks.registry import case
from muster.model.records import ClusterRecords

_ALL = "allocate, consolidation, reclaim, preempt, stalegangeviction"


def _p4(
    pods: int = 64, nodes: int = 400, victims: int = 8, is_perturbed: bool = False
) -> ClusterRecords:
    return cluster(
        nodes, victims, pending=((1, pods, 8),), actor_quota=8 * nodes, is_perturbed=is_perturbed
    )


def _k1(
    nodes: int = 1000, pods: int = 0, victims: int = 8, is_perturbed: bool = False
) -> ClusterRecords:
    pending = ((1, pods or nodes // 2, 8),)
    return cluster(
        nodes, victims, pending=pending, actor_quota=8 * nodes, is_perturbed=is_perturbed
    )


def _k2(nodes: int = 1000, is_perturbed: bool = False) -> ClusterRecords:
    return cluster(
        nodes, pending=((8 * nodes, 1, 1),), actor_quota=8 * nodes, is_perturbed=is_perturbed
    )


def _k3(
    nodes: int = 1000, pods: int = 10, victims: int = 8, is_perturbed: bool = False
) -> ClusterRecords:
    """One GPU less than the gang needs may be taken."""
    quota = victims * nodes - (victims * pods - 1)
    return cluster(
        nodes,
        victims,
        pending=((1, pods, 8),),
        victim_quota=quota,
        actor_quota=8 * pods,
        weight=0.0,
        is_perturbed=is_perturbed,
    )


def _k3_anti_affinity(nodes: int = 1000, is_perturbed: bool = False) -> ClusterRecords:
    """Ten pods that keep apart in nine racks."""
    return _k3_apart(nodes, 9, is_perturbed, anti_affinity=True)


def _k3_topology(nodes: int = 1000, is_perturbed: bool = False) -> ClusterRecords:
    """Ten pods that want one rack, and racks of at most nine nodes."""
    return _k3_apart(nodes, -(-nodes // 9), is_perturbed, topology=True)


def _k3_apart(
    nodes: int, racks: int, is_perturbed: bool, anti_affinity: bool = False, topology: bool = False
) -> ClusterRecords:
    """As many GPUs as the gang needs may be taken; it is its other wish that cannot be met."""
    quota = 8 * nodes - 80
    return cluster(
        nodes,
        pending=((1, 10, 8),),
        victim_quota=quota,
        actor_quota=80,
        weight=0.0,
        racks=racks,
        anti_affinity=anti_affinity,
        topology=topology,
        is_perturbed=is_perturbed,
    )


def _c1(
    nodes: int = 500, pods: int = 10, victims: int = 7, is_perturbed: bool = False
) -> ClusterRecords:
    return cluster(
        nodes, victims, pending=((5, pods, 8),), victim_quota=-1.0, is_perturbed=is_perturbed
    )


def _c2(nodes: int = 512, is_perturbed: bool = False) -> ClusterRecords:
    return shared(nodes, is_perturbed)


def _f1(nodes: int = 1000, pending: int = 2000, is_perturbed: bool = False) -> ClusterRecords:
    return mixed(nodes, pending, 50, is_perturbed=is_perturbed)


def _register(
    name: str,
    load: Load,
    actions: str,
    why: str,
    sizes: Mapping[str, tuple[int, ...]],
    doubled: Mapping[str, tuple[int, ...]],
) -> None:
    case(name, why=why)(partial(each_size, load, actions, sizes))
    odd = f"{name} with a fractional victim, a tainted node and one more queue, against {name}"
    case(f"{name}-perturbed", why=odd)(partial(perturbed, load, actions))
    one_by_one = f"{name}, doubling one by one: {', '.join(doubled)}"
    case(f"{name}-growth", why=one_by_one)(partial(growth, load, actions, doubled))


_NODES = {"nodes": (100, 500, 1000)}
_register(
    "p4",
    _p4,
    "reclaim",
    "reclaim for gangs of 16, 32, 64 pods of 8 GPUs on 400 nodes of one-GPU victims",
    {"pods": (16, 32, 64)},
    {"nodes": (400, 800, 1600), "victims": (2, 4, 8), "pods": (32, 64, 128)},
)
_register(
    "k1",
    _k1,
    "reclaim",
    "one gang of N/2 pods of 8 GPUs reclaims from 8N one-GPU jobs",
    _NODES,
    {"nodes": (500, 1000, 2000), "victims": (2, 4, 8), "pods": (125, 250, 500)},
)
_register(
    "k2",
    _k2,
    _ALL,
    "8N running and 8N pending one-GPU jobs, all five actions",
    _NODES,
    {"nodes": (250, 500, 1000)},
)
_register(
    "k3",
    _k3,
    "reclaim",
    "a gang of 10 pods of 8 GPUs that never fits, its victims one GPU short",
    _NODES,
    {"nodes": (1000, 2000, 4000), "victims": (2, 4, 8), "pods": (10, 20, 40)},
)
_register(
    "k3-anti-affinity",
    _k3_anti_affinity,
    "reclaim",
    "ten pods of 8 GPUs that keep apart, and nine racks",
    _NODES,
    {"nodes": (500, 1000, 2000)},
)
_register(
    "k3-topology",
    _k3_topology,
    "reclaim",
    "ten pods of 8 GPUs that want one rack, and racks of nine nodes",
    _NODES,
    {"nodes": (500, 1000, 2000)},
)
_register(
    "c1",
    _c1,
    "allocate, consolidation",
    "five gangs of 10 pods of 8 GPUs among seven movable one-GPU jobs per node",
    {"nodes": (500,)},
    {"nodes": (500, 1000, 2000), "victims": (1, 2, 4), "pods": (5, 10, 20)},
)
_register(
    "c2",
    _c2,
    "allocate, consolidation",
    "a pod of 0.7 GPUs that cannot be placed, and a tenant of 0.6 on every GPU",
    {"nodes": (8, 64, 512)},
    {"nodes": (128, 256, 512)},
)
_register(
    "f1",
    _f1,
    _ALL,
    "all five actions, 8,000 running and 2,000 pending of mixed shapes in 50 queues",
    {"nodes": (1000,)},
    {"nodes": (500, 1000, 2000), "pending": (1000, 2000, 4000)},
)
