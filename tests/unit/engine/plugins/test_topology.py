"""Topology: the node subsets in which a group is tried, and the refusal without one."""

import msgspec
import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import NodeSubset, NoSubset, SubGroupRequest, View
from muster.engine.plugins.topology.plugin import Topology
from muster.model.ledger import Ledger
from muster.model.reasons import Reason
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    NodeRecord,
    SubGroupRecord,
    TaskRecord,
    TopologyConstraint,
    TopologyRecord,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

LEVELS = ("zone", "rack")
# Racks and their free GPUs: zone a has 5 in four racks, zone b has 6 in three.
RACKS = {"a1": 2, "a2": 1, "a3": 1, "a4": 1, "b1": 2, "b2": 2, "b3": 2}


def node(rack: str, gpus: int) -> NodeRecord:
    room = {"cpu": 64000, "memory": 2**38, "pods": 110, "gpu": gpus * 1000}
    return NodeRecord(rack, room, labels={"zone": rack[0], "rack": rack})


def subsets(
    tasks: list[TaskRecord],
    constraint: TopologyConstraint,
    nodes: list[NodeRecord] | None = None,
    within: list[str] | None = None,
    held: list[TaskRecord] | None = None,
) -> list[NodeSubset] | NoSubset | None:
    """What the plugin proposes for a group of these tasks."""
    world = nodes or [node(rack, gpus) for rack, gpus in RACKS.items()]
    placed = held or []
    snapshot = snapshot_of(
        ClusterRecords(
            nodes=tuple(world),
            tasks=(*tasks, *placed),
            topologies=(TopologyRecord("racks", LEVELS),),
        )
    )
    answers = Topology(Reader(None, "test")).open(View(snapshot, Ledger(snapshot), 0.0))
    names = snapshot.nodes.names
    mask = np.array([within is None or name in within for name in names])
    group = SubGroupRecord("workers", 1, topology=constraint)
    first = len(tasks)
    request = SubGroupRequest(0, group, np.arange(first), np.arange(first, first + len(placed)))
    found = answers.node_subsets(request, mask)
    return list(found) if isinstance(found, list) else found  # type: ignore[return-value]


def gpu_tasks(count: int, gpus: int = 1) -> list[TaskRecord]:
    request = {"gpu": gpus * 1000, "cpu": 1000, "pods": 1}
    kind = GpuRequest(GpuKind.WHOLE, gpus)
    return [TaskRecord(f"t{i}", f"t{i}", request=request, gpu=kind) for i in range(count)]


def labels(found: list[NodeSubset] | NoSubset | None) -> list[str]:
    assert isinstance(found, list)
    return [subset.label for subset in found]


def test_the_tightest_rack_that_fits_the_gang_is_tried_first() -> None:
    found = subsets(gpu_tasks(2), TopologyConstraint("racks", required="rack"))
    assert labels(found) == ["a.a1", "b.b1", "b.b2", "b.b3"]


def test_the_tightest_zone_is_tried_first_and_its_rack_with_most_gpus_scores_highest() -> None:
    found = subsets(gpu_tasks(3), TopologyConstraint("racks", "zone", "rack"))
    assert labels(found) == ["a", "b"]
    assert isinstance(found, list)
    score = found[0].score
    assert score is not None
    rack = dict(zip(sorted(RACKS), score.tolist(), strict=True))
    assert rack["a1"] > max(rack["a2"], rack["a3"], rack["a4"])
    assert max(score) == 1_000_000
    assert all(value % 100_000 == 0 for value in score)


def test_a_preferred_level_is_tried_level_by_level_up_to_the_cluster() -> None:
    found = subsets(gpu_tasks(2), TopologyConstraint("racks", preferred="rack"))
    assert labels(found) == ["a.a1", "b.b1", "b.b2", "b.b3", "a", "b", "root"]


def test_a_gang_too_large_for_any_domain_is_refused_with_numbers() -> None:
    found = subsets(gpu_tasks(3), TopologyConstraint("racks", required="rack"))
    assert isinstance(found, NoSubset)
    refusal = found.refusal
    assert (refusal.reason, refusal.subject) == (Reason.TOPOLOGY_FULL, "rack")
    assert (refusal.found, refusal.minimum) == (2, 3)
    gpu = refusal.evidence[0]
    assert (gpu.resource, gpu.need, gpu.free, gpu.where) == ("gpu", 3000, 2000, "a.a1")


def test_running_tasks_fix_the_domain_of_the_rest() -> None:
    running = TaskRecord("r", "r", status=TaskStatus.RUNNING, node="b2")
    constraint = TopologyConstraint("racks", required="zone")
    assert labels(subsets(gpu_tasks(2), constraint, held=[running])) == ["b"]
    assert labels(subsets(gpu_tasks(2), constraint)) == ["a", "b"]


def test_a_required_level_above_the_given_nodes_stays_within_them() -> None:
    constraint = TopologyConstraint("racks", required="zone")
    found = subsets(gpu_tasks(2), constraint, within=["b1"])
    assert labels(found) == ["b"]
    assert isinstance(found, list)
    assert found[0].nodes.sum() == 1
    assert isinstance(subsets(gpu_tasks(3), constraint, within=["b1"]), NoSubset)


def test_nodes_without_all_level_labels_are_outside_the_topology() -> None:
    odd = NodeRecord("z", {"gpu": 8000, "pods": 110, "cpu": 64000}, labels={"zone": "a"})
    found = subsets(gpu_tasks(8), TopologyConstraint("racks", "zone"), nodes=[node("a1", 2), odd])
    assert isinstance(found, NoSubset)


def test_tasks_with_different_requests_are_compared_by_their_sum() -> None:
    mixed = [*gpu_tasks(1, gpus=2), TaskRecord("c", "c", request={"cpu": 1000, "pods": 1})]
    found = subsets(mixed, TopologyConstraint("racks", required="rack"))
    assert labels(found) == ["a.a1", "b.b1", "b.b2", "b.b3"]


def test_gpu_fractions_are_counted_against_what_shared_gpus_have_left() -> None:
    half = GpuRequest(GpuKind.FRACTION, 1, portion=500)
    held = TaskRecord(
        "h", "h", status=TaskStatus.RUNNING, node="a2", gpu=half, gpu_shares=("g",),
        request={"pods": 1},
    )  # fmt: skip
    tasks = [TaskRecord(f"t{i}", f"t{i}", gpu=half, request={"pods": 1}) for i in range(4)]
    nodes = [node("a1", 1), node("a2", 2)]
    constraint = TopologyConstraint("racks", required="rack")
    assert isinstance(subsets(tasks, constraint, nodes, held=[held]), NoSubset)
    found = subsets(tasks[:3], TopologyConstraint("racks", required="rack"), nodes)
    assert labels(found) == ["a.a2"]


def test_parts_of_gpus_by_memory_count_by_the_memory_that_gpus_have() -> None:
    """Three tasks of 30,000 MiB find room in a rack with two GPUs of 80,000, not with one."""
    memory = GpuRequest(GpuKind.MEMORY, 1, memory_mib=30_000)
    tasks = [TaskRecord(f"t{i}", f"t{i}", gpu=memory, request={"pods": 1}) for i in range(3)]
    nodes = [
        msgspec.structs.replace(node(rack, gpus), gpu_memory_mib=80_000)
        for rack, gpus in RACKS.items()
    ]
    rack = TopologyConstraint("racks", required="rack")
    assert labels(subsets(tasks, rack, nodes)) == ["a.a1", "b.b1", "b.b2", "b.b3"]
    small = GpuRequest(GpuKind.MEMORY, 1, memory_mib=10_000)
    tasks[0] = TaskRecord("small", "small", gpu=small, request={"pods": 1})
    assert labels(subsets(tasks, rack, nodes)) == [f"{name[0]}.{name}" for name in sorted(RACKS)]


def test_unknown_topologies_and_levels_are_refused_by_name() -> None:
    for constraint, reason, subject in [
        (TopologyConstraint("moon", "zone"), Reason.TOPOLOGY_MISSING, "moon"),
        (TopologyConstraint("racks", "block"), Reason.TOPOLOGY_LEVEL_MISSING, "block"),
    ]:
        found = subsets(gpu_tasks(1), constraint)
        assert isinstance(found, NoSubset)
        assert (found.refusal.reason, found.refusal.subject) == (reason, subject)


def test_a_topology_constraint_without_levels_restricts_nothing() -> None:
    assert subsets(gpu_tasks(1), TopologyConstraint("racks")) is None
    assert subsets(gpu_tasks(1), TopologyConstraint("")) is None
