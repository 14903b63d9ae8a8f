"""Tables: built at once or by deltas, in any order, they give the same snapshot."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import AffinityTerm, PodAffinity
from muster.model.constraints import Constraints
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    TopologyRecord,
    from_json,
    gang,
    to_json,
)
from muster.model.selectors import LabelSelector, Operator, Requirement
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.axis import GPU

ROOM = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": 4000}
HALF = GpuRequest(GpuKind.FRACTION, devices=1, portion=500)


def _world() -> ClusterRecords:
    return ClusterRecords(
        nodes=(NodeRecord("b", ROOM), NodeRecord("a", ROOM, gpu_memory_mib=80000)),
        queues=(
            QueueRecord("top", quota={"gpu": 4000}),
            QueueRecord("leaf", parent="top"),
            QueueRecord("orphan", parent="gone"),
        ),
        jobs=(
            JobRecord("x/run", "leaf", uid="1", sub_groups=gang(1)),
            JobRecord("x/wait", "leaf", uid="2", sub_groups=gang(2), is_preemptible=False),
        ),
        tasks=(
            TaskRecord("r0", "r0", "x/run", status=TaskStatus.RUNNING, node="b",
                       request={"gpu": 2000, "pods": 1}),
            TaskRecord("r1", "r1", "x/run", status=TaskStatus.RELEASING, node="a",
                       request={"pods": 1}, gpu=HALF, gpu_shares=("g",)),
            TaskRecord("w1", "w1", "x/wait", request={"gpu": 1000, "pods": 1}, created_s=2.0),
            TaskRecord("w0", "w0", "x/wait", request={"gpu": 1000, "pods": 1}, created_s=3.0),
        ),
    )  # fmt: skip


def test_nodes_are_in_name_order_with_idle_and_releasing_amounts() -> None:
    nodes = snapshot_of(_world()).nodes
    assert nodes.names == ("a", "b")
    assert nodes.idle[:, GPU].tolist() == [3000, 2000]
    assert nodes.releasing[:, GPU].tolist() == [1000, 0]


def test_queues_are_charged_up_to_the_root_and_orphans_are_left_out() -> None:
    queues = snapshot_of(_world()).queues
    assert queues.names == ("leaf", "top")
    assert queues.allocated[:, 2].tolist() == [2000, 2000]
    assert queues.pending[:, 2].tolist() == [2000, 2000]
    assert queues.chain.tolist() == [[0, 1], [1, -1]]


def test_tasks_of_a_leaf_are_in_order_of_age_and_equal_ones_share_a_class() -> None:
    snapshot = snapshot_of(_world())
    job = snapshot.jobs.row["x/wait"]
    (leaf,) = snapshot.leaves_of_job(job)
    rows = snapshot.tasks_of_leaf(int(leaf))
    assert [snapshot.tasks.records[row].name for row in rows] == ["w1", "w0"]
    assert len({int(snapshot.tasks.shape[row]) for row in rows}) == 1


def test_an_unchanged_table_gives_the_same_snapshot() -> None:
    tables = ClusterTables()
    tables.extend(_world())
    assert tables.snapshot() is tables.snapshot()


def test_incremental_tables_equal_tables_built_at_once() -> None:
    tables = ClusterTables()
    world = _world()
    for task in world.tasks:
        tables.upsert_task(task)
    tables.snapshot()
    tables.upsert_node(NodeRecord("zz", ROOM))
    for node in world.nodes:
        tables.upsert_node(node)
    tables.upsert_task(TaskRecord("gone", "gone", "x/run", node="b", status=TaskStatus.RUNNING,
                                  request={"gpu": 1000, "example.com/thing": 1}))  # fmt: skip
    tables.snapshot()
    tables.remove_task("gone")
    tables.remove_node("zz")
    tables.extend(world)
    grown, built = tables.snapshot(), snapshot_of(world)
    assert grown.nodes.names == built.nodes.names
    assert np.array_equal(grown.nodes.idle[:, :4], built.nodes.idle)
    assert np.array_equal(grown.nodes.releasing[:, :4], built.nodes.releasing)
    assert np.array_equal(grown.queues.allocated, built.queues.allocated)
    assert set(grown.tasks.row) == set(built.tasks.row)


def test_records_round_trip_through_json() -> None:
    world = _world()
    assert from_json(to_json(world)) == world


def test_the_age_order_of_jobs_follows_every_change() -> None:
    tables = ClusterTables()
    tables.upsert_queue(QueueRecord("q"))
    for name, created_s in (("b", 2.0), ("a", 1.0), ("c", 2.0)):
        tables.upsert_job(JobRecord(f"x/{name}", "q", uid=name, created_s=created_s))
    assert _oldest_first(tables) == ["x/a", "x/b", "x/c"]
    tables.remove_job("x/a")
    tables.upsert_job(JobRecord("x/b", "q", uid="b", created_s=3.0))
    assert _oldest_first(tables) == ["x/c", "x/b"]
    tables.upsert_job(JobRecord("x/b", "q", uid="b", created_s=2.0))
    tables.upsert_job(JobRecord("x/a", "gone", uid="z", created_s=2.0))
    assert _oldest_first(tables) == ["x/b", "x/c", "x/a"]
    jobs = tables.snapshot().jobs
    assert [int(jobs.queue[jobs.row[key]]) for key in ("x/a", "x/b")] == [-1, 0]


def _oldest_first(tables: ClusterTables) -> list[str]:
    jobs = tables.snapshot().jobs
    return sorted(jobs.row, key=lambda key: int(jobs.age_rank[jobs.row[key]]))


@pytest.mark.parametrize(
    ("job", "is_timed"),
    [
        (JobRecord("ns/plain", "q"), False),
        (JobRecord("ns/delays", "q", preemption_delay_s=5.0), True),
        (JobRecord("ns/stale", "q", stale_since_s=0.0), True),
    ],
    ids=lambda value: value.key if isinstance(value, JobRecord) else "",
)
def test_jobs_that_time_alone_may_change_are_marked(job: JobRecord, is_timed: bool) -> None:
    tables = ClusterTables()
    tables.upsert_job(job)
    assert tables.snapshot().jobs.is_timed.tolist() == [is_timed]
    tables.upsert_job(JobRecord(job.key, "q"))
    assert tables.snapshot().jobs.is_timed.tolist() == [False]


def _priority_of(key: str, tables: ClusterTables) -> JobRecord:
    job = next(job for job in tables.records().jobs if job.key == key)
    return msgspec.structs.replace(job, priority=7)


def _status_of(uid: str, status: TaskStatus, tables: ClusterTables) -> TaskRecord:
    task = next(task for task in tables.records().tasks if task.uid == uid)
    return msgspec.structs.replace(task, status=status)


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [
        (lambda t: t.upsert_task(TaskRecord("w2", "w2", "x/wait", request={"pods": 1})), False),
        (lambda t: t.remove_task("w0"), False),
        (lambda t: t.upsert_job(_priority_of("x/wait", t)), False),
        (lambda t: t.remove_job("x/wait"), False),
        (lambda t: t.upsert_job(JobRecord("x/new", "leaf", uid="3", sub_groups=gang(1))), False),
        (lambda t: t.upsert_task(_status_of("r0", TaskStatus.BOUND, t)), False),
        (lambda t: t.upsert_task(_status_of("r0", TaskStatus.RELEASING, t)), True),
        (lambda t: t.upsert_task(_status_of("r0", TaskStatus.PENDING, t)), True),
        (lambda t: t.upsert_task(_status_of("w0", TaskStatus.BINDING, t)), True),
        (lambda t: t.remove_task("r0"), True),
        (lambda t: t.upsert_task(TaskRecord("r2", "r2", "x/run", request={"pods": 1})), True),
        (lambda t: t.upsert_job(_priority_of("x/run", t)), True),
        (lambda t: t.remove_job("x/run"), True),
        (lambda t: t.upsert_queue(QueueRecord("leaf", parent="top", priority=1)), True),
        (lambda t: t.upsert_node(NodeRecord("a", ROOM, is_unschedulable=True)), True),
        (lambda t: t.remove_node("a"), True),
        (lambda t: t.upsert_topology(TopologyRecord("racks", ("rack",))), True),
        (lambda t: t.set_cluster_objects(ClusterObjects(config_maps=frozenset())), True),
        (lambda t: t.upsert_task(TaskRecord("f", "f", "", request={"pods": 1})), False),
        (lambda t: t.upsert_task(TaskRecord("w3", "w3", "x/wait", request={"new": 1})), True),
    ],
)
def test_the_non_pending_version_holds_while_only_pending_jobs_change(
    change: Callable[[ClusterTables], object], is_noticed: bool
) -> None:
    tables = ClusterTables()
    tables.extend(_world())
    before = tables.snapshot()
    change(tables)
    after = tables.snapshot()
    assert after is not before
    assert (after.non_pending_version is not before.non_pending_version) == is_noticed


def test_a_job_has_the_generation_of_the_last_change_of_it_or_its_tasks() -> None:
    tables = ClusterTables()
    tables.extend(_world())
    before = tables.snapshot()
    tables.remove_task("w0")
    after = tables.snapshot()
    waits, runs = (after.jobs.row[key] for key in ("x/wait", "x/run"))
    assert after.jobs.changed[waits] > before.generation
    assert after.jobs.changed[runs] <= before.generation


def test_pods_that_each_bring_a_new_selector_key_do_not_reshape_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shaped: list[str] = []
    original = ClusterTables._shape_row

    def counted(tables: ClusterTables, record: TaskRecord) -> int:
        shaped.append(record.uid)
        return original(tables, record)

    monkeypatch.setattr(ClusterTables, "_shape_row", counted)
    tables = ClusterTables()
    for at in range(200):
        tables.upsert_task(TaskRecord(f"t{at}", f"t{at}", "ns/a", labels={"app": "x"}))
    for at in range(50):
        selector = LabelSelector((Requirement(f"key-{at}", Operator.EXISTS),))
        term = AffinityTerm("zone", selector, ("ns",))
        wish = Constraints(pod_affinity=PodAffinity(anti_required=(term,)))
        tables.upsert_task(TaskRecord(f"s{at}", f"s{at}", "ns/a", constraints=wish))
    tables.snapshot()
    assert len(shaped) == 200 + 50 + 250, "each as it came, and all once when a selector came"
    shaped.clear()
    reads_app = LabelSelector((Requirement("app", Operator.EXISTS),))
    wish = Constraints(pod_affinity=PodAffinity(required=(AffinityTerm("zone", reads_app),)))
    tables.upsert_task(TaskRecord("last", "last", "ns/a", constraints=wish))
    labels = {shape.constraints.labels for shape in tables.snapshot().shapes}
    assert (("app", "x"),) in labels
    assert len(shaped) == 1 + 200, "those that have the label"


def test_jobs_that_are_gone_leave_nothing_in_the_counts_of_what_they_hold() -> None:
    tables = ClusterTables()
    tables.extend(_world())
    for task in ("r0", "r1", "w0", "w1"):
        tables.remove_task(task)
    assert not tables._job_holds


def test_the_row_of_a_pod_that_has_gone_is_nobodys_and_on_no_node() -> None:
    """Its status stays until the row is used again; who looks by status alone must not find it."""
    tables = ClusterTables()
    tables.extend(_world())
    row = tables.snapshot().tasks.row["r0"]
    tables.remove_task("r0")
    tasks = tables.snapshot().tasks
    assert not tasks.live[row]
    assert (tasks.job[row], tasks.leaf[row], tasks.node[row]) == (-1, -1, -1)


def test_pods_of_nobody_here_are_not_put_in_order_when_one_of_them_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be a hundred thousand of them: the pods of other schedulers."""
    asked = list[int]()
    age = ClusterTables._age

    def counted(self: ClusterTables, row: int) -> tuple[float, str]:
        asked.append(row)
        return age(self, row)

    monkeypatch.setattr(ClusterTables, "_age", counted)
    tables = ClusterTables()
    for number in range(20):
        tables.upsert_task(TaskRecord(f"u{number}", f"p{number}", is_ours=False))
    tables.upsert_task(TaskRecord("a", "a", "x/job"))
    tables.upsert_task(TaskRecord("b", "b", "x/job"))
    tables.snapshot()
    assert len(asked) == 2
