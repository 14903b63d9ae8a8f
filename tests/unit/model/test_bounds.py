"""Out-of-range numbers in objects that bypassed the schemas are clamped or refused."""

from collections.abc import Mapping

import numpy as np
import pytest

from muster.api.bounds import COUNT_MAX, QUEUE_LEVELS_MAX, RESOURCE_COLUMNS_MAX
from muster.api.core import Container, Pod, PodSpec, PriorityClass, ResourceRequirements
from muster.api.meta import ObjectMeta
from muster.api.noderesourcetopology import NodeResourceTopology, Zone
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.api.quantity import from_value
from muster.api.queue import Queue, QueueSpec
from muster.api.topology import Topology, TopologyLevel, TopologySpec
from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_policy
from muster.model.build import Priorities, job_record, queue_record, topology_record
from muster.model.numa import numa_topology
from muster.model.pod_requirements import requirements_of
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    SubGroupRecord,
    TaskRecord,
)
from muster.model.selectors import Operator, requirement
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics import numa
from muster.testing import make

pytestmark = pytest.mark.timeout(60)
_HUGE = 10**30
_ALLOCATE = build_policy(parse_conf("actions: allocate\n"))


def test_counts_beyond_the_largest_of_kubernetes_are_clamped() -> None:
    huge = PriorityClass(metadata=ObjectMeta(name="huge"), value=_HUGE, global_default=True)
    parts = (SubGroup(name="a", min_member=_HUGE), SubGroup(name="b", min_member=-_HUGE))
    tables = ClusterTables()
    for name, spec in (
        ("flat", PodGroupSpec(min_member=_HUGE, queue="q")),
        ("tree", PodGroupSpec(sub_groups=parts, queue="q")),
    ):
        group = PodGroup(metadata=ObjectMeta(name=name, namespace="d", uid=name), spec=spec)
        tables.upsert_job(job_record(group, Priorities.of([huge]), {}))
    queue = Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(priority=-_HUGE))
    tables.upsert_queue(queue_record(queue))
    snapshot = tables.snapshot()
    assert snapshot.leaves.minimum.max() == COUNT_MAX
    assert snapshot.jobs.priority.tolist() == [COUNT_MAX, COUNT_MAX]
    assert snapshot.queues.priority.tolist() == [-COUNT_MAX]


@pytest.mark.parametrize(
    ("written", "counted"), [(_HUGE, COUNT_MAX), (-_HUGE, 0), (2, 2), (None, None)]
)
def test_a_minimum_of_sub_groups_is_clamped_at_every_level(
    written: int | None, counted: int | None
) -> None:
    parts = (
        SubGroup(name="top", min_sub_group=written),
        SubGroup(name="leaf", parent="top", min_member=1),
    )
    spec = PodGroupSpec(min_sub_group=written, sub_groups=parts, queue="q")
    group = PodGroup(metadata=ObjectMeta(name="g", namespace="d", uid="g"), spec=spec)
    root = job_record(group, Priorities.of([]), {}).sub_groups
    assert (root.minimum, root.children[0].minimum) == (counted, counted)


def test_a_topology_is_cut_to_its_largest_number_of_levels() -> None:
    levels = tuple(TopologyLevel(node_label=f"level-{at}") for at in range(100_000))
    record = topology_record(
        Topology(metadata=ObjectMeta(name="t"), spec=TopologySpec(levels=levels))
    )
    assert record.levels == tuple(f"level-{at}" for at in range(16))


def test_zones_with_plain_numbers_are_sorted_by_them_before_others() -> None:
    names = ["node-10", "node-2", "x" + "9" * 100_000, "odd", "1" * 100_000 + "x"]
    found = numa_topology(
        NodeResourceTopology(zones=tuple(Zone(name=n, type="Node") for n in names))
    )
    assert found is not None
    assert [zone.name[:10] for zone in found.zones[:2]] == ["node-2", "node-10"]


def test_the_restricted_numa_search_over_forty_zones_ends() -> None:
    zones = 40
    allocatable = np.ones((1, zones, 1), np.int64)
    available = np.zeros((1, zones, 1), np.int64)
    exists = np.ones((1, zones), np.bool_)
    need = np.array([zones // 2], np.int64)
    assert not numa.restricted(need, available, allocatable, exists).any()
    assert numa.restricted(need, allocatable, allocatable, exists).sum() == zones // 2


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 1_000_000, "9" * 20, str(2**63)])
def test_a_number_beyond_int64_compares_with_nothing(text: str) -> None:
    labels: Mapping[str, str] = {"a": "5"}
    assert not requirement("a", Operator.LESS, text).matches(labels)
    assert requirement("a", Operator.LESS, str(2**63 - 1)).matches(labels)


@pytest.mark.timeout(10)
def test_a_selector_of_a_hundred_thousand_values_is_matched_within_seconds() -> None:
    names = [f"v{at}" for at in range(100_000)]
    among, beside = (requirement("a", how, *names) for how in (Operator.IN, Operator.NOT_IN))
    for value, is_listed in [("v99999", True), ("other", False), ("z", False)] * 5000:
        assert among.matches({"a": value}) is is_listed
        assert beside.matches({"a": value}) is not is_listed


def test_a_job_of_twenty_thousand_sub_groups_is_placed_in_a_cycle() -> None:
    names = [f"s{at}" for at in range(20_000)]
    tree = SubGroupRecord("", 1, tuple(SubGroupRecord(name, 1) for name in names))
    tasks = [
        TaskRecord(uid=name, name=name, job="d/j", sub_group=name, request={"gpu": 1000})
        for name in names[:2]
    ]
    world = ClusterRecords(
        nodes=(make.node("n", gpu=2),),
        queues=(make.queue("q"),),
        jobs=(JobRecord("d/j", "q", sub_groups=tree),),
        tasks=tuple(tasks),
    )
    result = run_cycle(snapshot_of(world), _ALLOCATE, (("allocate", allocate.execute),), make.NOW_S)
    assert len(result.plan.binds) == 2


def test_jobs_of_too_deep_or_circular_queues_are_refused_with_the_fix() -> None:
    deep = [
        make.queue(f"q{at}", parent=f"q{at - 1}" if at else "")
        for at in range(QUEUE_LEVELS_MAX + 1)
    ]
    circle = [make.queue("a", parent="b"), make.queue("b", parent="a")]
    jobs = [make.gang(name, 1, gpu=1, queue=name) for name in ("a", f"q{QUEUE_LEVELS_MAX}")]
    world = make.cluster(make.node("n", gpu=2), *deep, *circle, *jobs)
    result = run_cycle(snapshot_of(world), _ALLOCATE, (("allocate", allocate.execute),), make.NOW_S)
    assert result.explanation.sentences("default/a") == (
        "Queue a is its own ancestor, or below a queue that is.",
    )
    assert result.explanation.sentences("default/q64") == (
        "Queue q64 is more than 64 levels deep.",
    )
    for key in ("default/a", "default/q64"):
        why = result.explanation.why(key)
        assert why is not None
        assert "spec.parentQueue" in why.dominant.next_step


def test_a_pod_that_names_thousands_of_resources_is_refused_and_widens_nothing() -> None:
    resources = {f"example.com/r{at}": from_value(1) for at in range(3000)}
    container = Container(name="c", resources=ResourceRequirements(requests=resources))
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,)))
    found = requirements_of(pod, {}, False)
    assert "names 3000 resources: ask for at most 64" in found.constraints.request_problem
    assert len(found.amounts) == 64


def test_resources_that_no_node_offers_are_counted_up_to_a_limit_and_those_of_nodes_always() -> (
    None
):
    tables = ClusterTables()
    tables.upsert_node(NodeRecord("n", {"cpu": 1000, "example.com/real": 8}))
    for at in range(700):
        request = {"cpu": 1, f"example.com/r{at}": 1}
        tables.upsert_task(TaskRecord(f"t{at}", f"t{at}", request=request))
    tables.upsert_node(NodeRecord("m", {"cpu": 1000, "example.com/late": 8}))
    tables.upsert_task(TaskRecord("late", "late", request={"example.com/late": 1}))
    snapshot = tables.snapshot()
    assert len(snapshot.axis) == RESOURCE_COLUMNS_MAX + 1
    problems = {r.uid: r.constraints.request_problem for r in snapshot.tasks.records}
    assert "no node offers example.com/r699, and the scheduler counts at most" in problems["t699"]
    assert problems["late"] == problems["t0"] == ""


def test_resources_that_no_node_offers_are_limited_also_when_all_pods_come_at_once() -> None:
    """A restart, or a recorded cycle, brings all of them in one piece."""
    tasks = tuple(
        TaskRecord(f"t{at}", f"t{at}", request={f"example.com/r{at}": 1}) for at in range(700)
    )
    tables = ClusterTables()
    tables.extend(ClusterRecords(nodes=(NodeRecord("n", {"cpu": 1000}),), tasks=tasks))
    snapshot = tables.snapshot()
    assert len(snapshot.axis) == RESOURCE_COLUMNS_MAX
    refused = [one for one in snapshot.tasks.records if one.constraints.request_problem]
    assert 100 < len(refused) < 700
