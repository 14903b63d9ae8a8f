"""Allocate, one behaviour at a time, on clusters small enough to follow by hand."""

import pytest

from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.plan import NOTHING
from muster.engine.registry import build_policy
from muster.model.constraint_terms import Taint
from muster.model.reasons import Reason
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables, snapshot_of
from muster.testing import make

POLICY = build_policy(parse_conf("actions: allocate\nplacement: binpack\n"))
ACTIONS = (("allocate", allocate.execute),)


def _run(*parts: object) -> CycleResult:
    world = make.cluster(*parts)  # type: ignore[arg-type]
    return run_cycle(snapshot_of(world), POLICY, ACTIONS, make.NOW_S)


def _binds(result: CycleResult) -> dict[str, str]:
    return {bind.task: bind.node for bind in result.plan.binds}


def test_bin_packing_chooses_the_fullest_feasible_node_and_breaks_ties_by_name() -> None:
    running = make.gang("runs", 1, gpu=2, queue="q", nodes=("n2",))
    one = make.gang("one", 1, gpu=1, queue="q")
    nodes = [make.node(name, gpu=4) for name in ("n1", "n2", "n3")]
    assert _binds(_run(*nodes, make.queue("q"), running, one)) == {"one-0": "n2"}
    assert _binds(_run(*nodes, make.queue("q"), one)) == {"one-0": "n1"}


def test_idle_resources_are_allocated_before_releasing_ones_are_pipelined() -> None:
    leaving = make.gang("leaves", 1, gpu=4, queue="q", nodes=("n1",))
    leaving = make.Workload(
        leaving.job,
        tuple(make.with_fields(task, status=TaskStatus.RELEASING) for task in leaving.tasks),
    )
    result = _run(
        make.node("n1", gpu=4), make.node("n2", gpu=4), make.queue("q"), leaving,
        make.gang("new", 2, gpu=4, minimum=1, queue="q"),
    )  # fmt: skip
    assert _binds(result) == {"new-0": "n2"}
    assert [(n.task, n.node) for n in result.plan.nominations] == [("new-1", "n1")]


def test_a_gang_that_cannot_start_entirely_is_pipelined_entirely() -> None:
    leaving = make.gang("leaves", 1, gpu=1, queue="q", nodes=("n",))
    leaving = make.Workload(
        leaving.job,
        tuple(make.with_fields(task, status=TaskStatus.RELEASING) for task in leaving.tasks),
    )
    world = (make.node("n", gpu=2), make.queue("q"), leaving)
    result = _run(*world, make.gang("pair", 2, gpu=1, queue="q"))
    assert result.plan.binds == ()
    assert len(result.plan.nominations) == 2
    growing = _run(*world, make.gang("grows", 2, gpu=1, minimum=1, queue="q"))
    assert len(growing.plan.binds) == 1
    assert len(growing.plan.nominations) == 1


def test_queues_are_served_by_fair_share_and_non_preemptible_jobs_stay_within_quota() -> None:
    """Four GPUs; qa has quota 2, qb none. qa gets three, qb one; its inference jobs none."""
    trains = [
        make.gang(f"{queue}{at}", 1, gpu=1, queue=queue, created_s=float(at))
        for queue in ("qa", "qb")
        for at in range(4)
    ]
    inference = [
        make.gang(f"inf{at}", 1, gpu=1, queue="qb", priority=125, is_preemptible=False)
        for at in range(4)
    ]
    result = _run(
        make.node("n", gpu=4), make.queue("qa", quota_gpu=2), make.queue("qb"), *trains, *inference
    )
    jobs = sorted(bind.job for bind in result.plan.binds)
    assert jobs == ["default/qa0", "default/qa1", "default/qa2", "default/qb0"]
    (refusal,) = result.explanation.refusals["default/inf0"]
    assert refusal.reason is Reason.OVER_QUOTA


def test_a_refusal_counts_nodes_and_gives_the_numbers() -> None:
    result = _run(
        make.node("n1", gpu=2), make.node("n2", gpu=4),
        make.node("n3", gpu=8, taints=(Taint("x"),)),
        make.queue("q"), make.gang("big", 2, gpu=4, queue="q"),
    )  # fmt: skip
    (refusal,) = result.explanation.refusals["default/big"]
    assert (refusal.reason, refusal.found, refusal.minimum) == (Reason.NO_NODE, 1, 2)
    counts = {(count.reason, count.subject): count.nodes for count in refusal.nodes}
    assert counts == {(Reason.RESOURCES, "gpu"): 2, (Reason.TAINT, "x:NoSchedule"): 1}
    (numbers,) = refusal.evidence
    assert (numbers.need, numbers.free, numbers.where) == (4000, 2000, "n1")
    assert result.explanation.sentences("default/big") == (
        "The nodes that it could use have places for 1 of its 2 pods of 4 GPUs each, even if they "
        "were empty.",
    )


@pytest.mark.parametrize(
    ("queue", "size", "minimum", "reason"),
    [
        ("nowhere", 1, 1, Reason.QUEUE_MISSING),
        ("top", 1, 1, Reason.QUEUE_NOT_LEAF),
        ("leaf", 1, 2, Reason.TOO_FEW_TASKS),
    ],
)
def test_a_job_without_a_leaf_queue_or_enough_tasks_is_refused_with_the_reason(
    queue: str, size: int, minimum: int, reason: Reason
) -> None:
    result = _run(
        make.node("n", gpu=1), make.queue("top"), make.queue("leaf", parent="top"),
        make.gang("job", size, gpu=1, queue=queue, minimum=minimum),
    )  # fmt: skip
    assert result.plan == NOTHING
    (refusal,) = result.explanation.refusals["default/job"]
    assert refusal.reason is reason


def test_queue_depth_limits_each_queue_to_its_first_jobs() -> None:
    shallow = build_policy(parse_conf("actions: allocate\nqueueDepthPerAction: {allocate: 2}\n"))
    jobs = [
        make.gang(f"j{at}", 1, gpu=1, queue="q", priority=priority)
        for at, priority in enumerate((50, 75, 50, 75))
    ]
    world = make.cluster(make.node("n", gpu=8), make.queue("q"), *jobs)
    result = run_cycle(snapshot_of(world), shallow, ACTIONS, make.NOW_S)
    assert {bind.job for bind in result.plan.binds} == {"default/j1", "default/j3"}
    assert result.explanation.refusals["default/j0"][0].reason is Reason.QUEUE_DEPTH


def _full() -> ClusterRecords:
    return make.cluster(
        make.node("n", gpu=1), make.queue("q"),
        make.gang("runs", 1, gpu=1, queue="q", nodes=("n",)),
        make.gang("waits", 1, gpu=1, queue="q"),
    )  # fmt: skip


def test_an_action_that_did_nothing_is_not_run_until_something_changes() -> None:
    tables = ClusterTables()
    tables.extend(_full())
    first = run_cycle(tables.snapshot(), POLICY, ACTIONS, make.NOW_S)
    assert first.memory.no_op_actions
    again = run_cycle(tables.snapshot(), POLICY, ACTIONS, make.NOW_S + 60, first.memory)
    assert again.memory.no_op_actions[0] is first.memory.no_op_actions[0]
    assert again.explanation.refusals == first.explanation.refusals
    tables.upsert_node(make.node("m", gpu=1))
    moved_on = run_cycle(tables.snapshot(), POLICY, ACTIONS, make.NOW_S + 120, again.memory)
    assert _binds(moved_on) == {"waits-0": "m"}
    assert not moved_on.memory.no_op_actions


def test_a_job_that_starts_is_stamped_with_its_last_start() -> None:
    result = _run(make.node("n", gpu=1), make.queue("q"), make.gang("job", 1, gpu=1, queue="q"))
    assert [(s.job, s.what, s.at_s) for s in result.plan.stamps] == [
        ("default/job", "last start", make.NOW_S)
    ]


@pytest.mark.parametrize("gpu", [1, 0.5])
def test_a_cluster_without_nodes_refuses_jobs_with_a_sentence(gpu: float) -> None:
    result = _run(make.queue("q"), make.gang("job", 2, gpu=gpu, queue="q"))
    assert result.plan == NOTHING
    assert result.explanation.sentences("default/job")


def test_an_empty_cluster_has_an_empty_plan() -> None:
    assert _run().plan == NOTHING
    lonely = _run(make.gang("job", 1, gpu=1, queue="gone"))
    assert lonely.explanation.refusals["default/job"][0].reason is Reason.QUEUE_MISSING


def test_a_task_of_an_unknown_sub_group_is_refused_by_name() -> None:
    job = make.gang("job", 1, gpu=1, queue="q")
    astray = tuple(make.with_fields(task, sub_group="nope") for task in job.tasks)
    result = _run(make.node("n", gpu=1), make.queue("q"), make.Workload(job.job, astray))
    (refusal,) = result.explanation.refusals["default/job"]
    assert (refusal.reason, refusal.subject, refusal.task) == (
        Reason.UNKNOWN_SUB_GROUP,
        "nope",
        "job-0",
    )


@pytest.mark.parametrize(
    ("need", "sentence"),
    [
        (
            make.Need(gpu=0.5),
            "No node has 0.5 GPUs free for a pod. Of 2 nodes 2 lack room on shared GPUs (most "
            "free: 0.3 GPUs on n1).",
        ),
        (
            make.Need(gpu=0.2, devices=3),
            "A pod asks for 0.2 GPUs on each of 3 GPUs, and no node that it could use has so many.",
        ),
        (
            make.Need(gpu_memory_mib=40_000),
            "No node has 40000 MiB of GPU memory free for a pod. Of 2 nodes 2 lack room on shared "
            "GPUs (most free: 24000 MiB of GPU memory on n1).",
        ),
    ],
)
def test_the_refusal_of_a_gpu_share_shows_the_largest_free_share(
    need: make.Need, sentence: str
) -> None:
    job = make.gang("waits", 1, queue="q").job
    world = make.cluster(
        make.node("n0", gpu=1),
        make.node("n1", gpu=2),
        make.queue("q", quota_gpu=-1),
        make.gang("a", 1, queue="q", gpu=0.9, nodes=("n0",)),
        make.gang("b", 2, queue="q", gpu=0.7, nodes=("n1", "n1")),
        make.Workload(job, (make.task(job, 0, need),)),
    )
    (told,) = run_cycle(snapshot_of(world), POLICY, ACTIONS, make.NOW_S).explanation.sentences(
        "default/waits"
    )
    assert told == sentence


def test_parts_of_several_gpus_are_told_how_many_gpus_of_a_node_have_room_for_theirs() -> None:
    job = make.gang("waits", 1, queue="q").job
    world = make.cluster(
        make.node("n0", gpu=1),
        make.node("n1", gpu=3),
        make.queue("q", quota_gpu=-1),
        make.gang("a", 1, queue="q", gpu=1, nodes=("n1",)),
        make.gang("b", 1, queue="q", gpu=0.7, nodes=("n1",)),
        make.Workload(job, (make.task(job, 0, make.Need(gpu=0.5, devices=2)),)),
    )
    result = run_cycle(snapshot_of(world), POLICY, ACTIONS, make.NOW_S)
    assert result.explanation.sentences("default/waits") == (
        "No node has 0.5 GPUs on each of 2 GPUs free for a pod. Of 2 nodes 2 lack room on shared "
        "GPUs (most free: 1 GPU on n0).",
    )


def test_a_gang_of_gpu_shares_that_is_larger_than_the_cluster_is_told_so() -> None:
    result = _run(
        make.node("n0", gpu=2), make.queue("q", quota_gpu=-1), make.gang("a", 5, gpu=0.5, queue="q")
    )
    assert result.explanation.sentences("default/a") == (
        "The nodes that it could use have places for 4 of its 5 pods of 0.5 GPUs each, even if "
        "they were empty.",
    )


def test_a_gpu_share_without_a_slot_for_its_reservation_pod_is_refused_for_pod_slots() -> None:
    world = make.cluster(
        make.node("n0", gpu=1, pods=1),
        make.queue("q", quota_gpu=-1),
        make.gang("waits", 1, queue="q", gpu=0.5),
    )
    result = run_cycle(snapshot_of(world), POLICY, ACTIONS, make.NOW_S)
    (told,) = result.explanation.refusals["default/waits"]
    assert told.dominant is Reason.POD_SLOTS


@pytest.mark.parametrize("is_preemptible", [True, False])
def test_gpu_memory_goes_to_no_node_where_its_price_is_over_the_bound_of_its_queue(
    is_preemptible: bool,
) -> None:
    """30,000 MiB are 0.38 of a GPU of the large node, which is full, and 0.75 of the small."""
    bound = {"limit_gpu": 0.5} if is_preemptible else {"quota_gpu": 0.5}
    job = make.gang("waits", 1, queue="q", is_preemptible=is_preemptible).job
    waits = make.Workload(job, (make.task(job, 0, make.Need(gpu_memory_mib=30_000)),))
    small = make.node("small", gpu=1, gpu_memory_mib=40_000)
    queues = (make.queue("q", **bound), make.queue("other"))  # type: ignore[arg-type]
    full = make.gang("full", 1, gpu=1, queue="other", nodes=("large",))
    large = make.node("large", gpu=1, gpu_memory_mib=80_000)
    assert _binds(_run(small, large, *queues, waits)) == {"waits-0": "large"}
    result = _run(small, large, *queues, full, waits)
    assert result.plan.binds == ()
    assert result.plan.nominations == ()


def test_a_gpu_that_a_share_waits_for_is_promised_to_nobody_else() -> None:
    leaving = make.gang("leaves", 1, gpu=1, queue="q", nodes=("n",))
    leaving = make.Workload(
        leaving.job,
        tuple(make.with_fields(task, status=TaskStatus.RELEASING) for task in leaving.tasks),
    )
    part = make.gang("part", 1, gpu=0.5, queue="q", created_s=1.0, priority=90)
    whole = make.gang("whole", 1, gpu=1, queue="q", created_s=2.0)
    world = (make.node("n", gpu=1), make.queue("q", quota_gpu=-1), leaving)
    assert [n.task for n in _run(*world, whole).plan.nominations] == ["whole-0"]
    result = _run(*world, part, whole)
    assert [n.task for n in result.plan.nominations] == ["part-0"]
    other = make.gang("other", 1, gpu=0.5, queue="q", created_s=2.0)
    assert {n.task for n in _run(*world, part, other).plan.nominations} == {"part-0", "other-0"}


def test_jobs_that_got_nodes_are_counted_once_however_many_pods_they_have() -> None:
    result = _run(
        make.node("n", gpu=4),
        make.queue("q"),
        make.gang("trio", 3, gpu=1, queue="q"),
        make.gang("one", 1, gpu=1, queue="q"),
        make.gang("large", 1, gpu=8, queue="q"),
    )
    assert len(result.plan.binds) == 4
    assert result.explanation.counters["allocate.scheduled"] == 2
