"""SchedulerCache: from watch events to the snapshot of a cycle."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.support.lab import BY_REQUEST
from tests.support.scheduler_world import (
    Body,
    SchedulerWorld,
    group,
    node,
    pod,
    queue,
    request,
)

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from muster.api.podgroup import PodGroup
from muster.base.clock import VirtualClock
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.plan import Plan
from muster.model.status import TaskStatus
from muster.services.scheduler.assumptions import Assumption
from muster.services.scheduler.cache import NotCached
from muster.services.scheduler.options import Options
from muster.services.scheduler.pending_patches import GroupPatch

POOL = "kai.scheduler/node-pool"
OLD = "2020-01-01T00:00:00Z"


def world(*bodies: Body, options: Options | None = None) -> SchedulerWorld:
    made = SchedulerWorld(options)
    made.show(*bodies)
    return made


def jobs_of(made: SchedulerWorld) -> set[str]:
    return {record.key for record in made.snapshot().to_records().jobs}


# -- pods --------------------------------------------------------------------------------------


@pytest.mark.row(9, 46, 58, 159)
@pytest.mark.parametrize(
    ("scheduler", "phase", "on", "waits", "charged"),
    [
        ("kai-scheduler", "Pending", "", True, 0),
        ("kai-scheduler", "Pending", "n1", False, 2),
        ("kai-scheduler", "Running", "n1", False, 2),
        ("kai-scheduler", "Succeeded", "n1", False, 0),
        ("kai-scheduler", "Failed", "n1", False, 0),
        ("other", "Pending", "", False, 0),
        ("other", "Pending", "n1", False, 2),
        ("other", "Running", "n1", False, 2),
        ("other", "Succeeded", "n1", False, 0),
    ],
)
def test_own_pending_pods_are_schedulable_and_all_pods_on_nodes_are_charged(
    scheduler: str, phase: str, on: str, waits: bool, charged: int
) -> None:
    made = world(node("n1"), queue(), group("p"))
    made.show(pod("p", gpus=2, scheduler=scheduler, phase=phase, node=on))
    assert "p" in made.statuses()
    snapshot = made.snapshot()
    row = snapshot.tasks.row["p"]
    is_work = snapshot.tasks.status[row] == TaskStatus.PENDING and snapshot.tasks.job[row] >= 0
    assert bool(is_work) is waits
    assert made.idle_gpus() == {"n1": 8000 - charged * 1000}


def test_a_resource_claim_that_appears_after_its_pod_is_charged_from_then_on() -> None:
    made = world(node("n1"), queue(), group("p"))
    body = pod("p", gpus=0)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    body["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c"}]
    made.show(body)
    assert "gpu" not in made.task("p").request
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": body["metadata"]["namespace"], "uid": "c"},
        "spec": {"devices": {"requests": requests}},
    }
    made.show(claim)
    assert made.task("p").request["gpu"] == 2000


def test_assumed_devices_count_until_the_claim_shows_them() -> None:
    """Also when the API server, asked about the pod, said that it is bound."""
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=0))
    device = DeviceRequestAllocationResult(request="r", driver="d", pool="n1", device="0")
    devices = {"gpu": AllocationResult(devices=DeviceAllocationResult(results=(device,)))}
    decided = Assumption(TaskStatus.BINDING, "n1", devices=devices, is_withdrawn=True)
    made.cache.assume("p", decided)
    made.cache.reconcile_with_server(
        "p", from_builtins(Pod, pod("p", gpus=0, node="n1", phase="Pending"))
    )
    assert made.task("p").claim_allocations == devices


@pytest.mark.row(59)
@pytest.mark.parametrize("scheduler", ["kai-scheduler", "other"])
@pytest.mark.parametrize("end", ["Succeeded", "Failed", "gone"])
def test_a_pod_holds_its_room_from_its_arrival_on_a_node_until_its_end(
    scheduler: str, end: str
) -> None:
    """What fills nodes is followed whoever scheduled it, and its end is a reason to decide."""
    made = world(node("n1"), queue(), group("p"))
    made.show(pod("p", gpus=2, scheduler=scheduler))
    assert made.idle_gpus() == {"n1": 8000}
    made.show(pod("p", gpus=2, scheduler=scheduler, node="n1"))
    assert made.idle_gpus() == {"n1": 6000}
    assert not made.cache.changed.is_set()
    last = pod(
        "p", gpus=2, scheduler=scheduler, node="n1", phase="Failed" if end == "gone" else end
    )
    if end == "gone":
        made.hide(last)
    else:
        made.show(last)
    assert made.cache.changed.is_set()
    assert made.idle_gpus() == {"n1": 8000}
    assert decide(made).plan.binds == ()


@pytest.mark.row(59, 61)
def test_the_charge_of_a_pod_follows_its_phase() -> None:
    made = world(node("n1"), queue(), group("p"))
    seen = []
    for phase, on in (("Pending", ""), ("Pending", "n1"), ("Running", "n1"), ("Succeeded", "n1")):
        made.show(pod("p", gpus=2, phase=phase, node=on))
        seen.append((made.task("p").status, made.idle_gpus()["n1"]))
    assert seen == [
        (TaskStatus.PENDING, 8000),
        (TaskStatus.BOUND, 6000),
        (TaskStatus.RUNNING, 6000),
        (TaskStatus.SUCCEEDED, 8000),
    ]
    assert made.task("p").job == "team/p"


@pytest.mark.row(60)
def test_pod_events_add_replace_and_remove_tasks() -> None:
    made = world(node("n1"), node("n2"), queue(), group("p"))
    made.show(pod("p", gpus=2, node="n1"))
    made.show(pod("p", gpus=4, node="n2"))  # not what one sees, but what one may be told
    assert made.idle_gpus() == {"n1": 8000, "n2": 4000}
    made.hide(pod("p"))
    assert made.idle_gpus() == {"n1": 8000, "n2": 8000}
    assert made.statuses() == {}


@pytest.mark.row(60)
def test_a_pod_deleted_unseen_is_removed_by_the_next_relist() -> None:
    made = world(node("n1"), queue(), pod("gone", gpus=2, node="n1"), pod("stays", node="n1"))
    made.relist("Pod", pod("stays", node="n1"))
    assert set(made.statuses()) == {"stays"}
    assert made.idle_gpus() == {"n1": 7000}


@pytest.mark.row(60)
def test_a_recreated_pod_of_the_same_name_is_another_pod() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", node="n1"))
    made.show(pod("p", metadata={"uid": "second"}))
    assert made.statuses() == {"second": TaskStatus.PENDING}
    assert made.idle_gpus() == {"n1": 8000}


@pytest.mark.row(77)
def test_running_pods_without_a_job_use_node_and_fair_share_capacity() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", node="n1"))
    made.show(pod("foreign", gpus=3, scheduler="other", node="n1"))
    snapshot = made.snapshot()
    assert snapshot.tasks.job[snapshot.tasks.row["foreign"]] == -1
    assert made.idle_gpus() == {"n1": 4000}
    assert snapshot.foreign.tolist()[2] == 3000


@pytest.mark.row(12)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_shared_gpus_are_the_same_whether_reservation_or_users_arrive_first(
    order: tuple[int, ...],
) -> None:
    held, home = {"runai-gpu-group": "g1"}, "kai-resource-reservation"
    share = {"gpu-fraction": "0.25"}
    bodies = [
        pod("holds", gpus=1, node="n1", labels={**held, "app": home}, metadata={"namespace": home}),
        pod("left", gpus=0, node="n1", labels=held, annotations=share),
        pod("right", gpus=0, node="n1", labels=held, annotations=share),
    ]
    made = world(node("n1", gpus=2, labels={"nvidia.com/gpu.memory": "40000"}), queue())
    made.show(*(bodies[at] for at in order))
    snapshot = made.snapshot()
    (use,) = snapshot.nodes.gpu_shares[0].values()
    assert use.used == 20000
    assert made.idle_gpus() == {"n1": 1000}


def test_a_gpu_is_given_anew_when_its_reservation_has_gone_not_when_the_last_share_has() -> None:
    """The kubelet has given it to the reservation pod, and refuses others until that is away."""
    held, home = {"runai-gpu-group": "g1"}, "kai-resource-reservation"
    user = pod("user", gpus=0, node="n1", labels=held, annotations={"gpu-fraction": "0.5"})
    labels = {**held, "app": home}
    holder = pod("holds", gpus=1, node="n1", labels=labels, metadata={"namespace": home})
    memory = {"nvidia.com/gpu.memory": "40000"}
    made = world(node("n1", gpus=1, labels=memory), queue(), group("p"), holder, user)
    made.show(pod("p", gpus=1))
    assert made.idle_gpus() == {"n1": 0}
    user["status"]["phase"] = "Succeeded"
    made.show(user)
    plan = run(made)
    assert not plan.binds
    assert [one.task for one in plan.nominations] == ["p"]
    made.hide(holder)
    assert [one.node for one in run(made).binds] == ["n1"]


# -- nodes -------------------------------------------------------------------------------------


@pytest.mark.row(10)
def test_only_nodes_of_the_shards_pool_are_cached_with_their_releasing_resources() -> None:
    made = world(options=Options(shard="a"))
    made.show(node("mine", labels={POOL: "a"}), node("other", labels={POOL: "b"}), node("none"))
    leaving = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
    made.show(
        pod("runs", gpus=2, node="mine"),
        pod("leaves", gpus=1, node="mine", metadata=leaving),
        pod("holds", gpus=1, node="mine", labels={"app": "kai-resource-reservation"}),
    )
    snapshot = made.snapshot()
    gpu = snapshot.axis.column["gpu"]
    assert snapshot.nodes.names == ("mine",)
    assert snapshot.nodes.allocatable[0, gpu] == 8000
    assert snapshot.nodes.releasing[0, gpu] == 1000
    made.show(node("mine", labels={POOL: "b"}), node("other", labels={POOL: "a"}))
    assert made.snapshot().nodes.names == ()
    pass_time(made, 10.0)
    assert made.snapshot().nodes.names == ("other",)


@pytest.mark.row(114)
@pytest.mark.parametrize("foreign", ["node", "queue", "group"])
def test_nothing_is_decided_with_a_node_a_queue_or_a_group_of_another_shard(foreign: str) -> None:
    """Else two schedulers would count the same room, or the same quota, each for itself."""
    pools = {name: {POOL: "b" if name == foreign else "a"} for name in ("node", "queue", "group")}

    def bound(shard: str) -> list[str]:
        made = world(node("n1", labels=pools["node"]), options=Options(shard=shard))
        made.show(queue(labels=pools["queue"]))
        made.show(group("p", metadata={"labels": pools["group"]}), pod("p", gpus=2))
        return [bind.node for bind in run(made).binds]

    assert bound("a") == bound("b") == []
    pools[foreign] = {POOL: "a"}
    assert bound("a") == ["n1"]
    assert bound("b") == []


@pytest.mark.row(10)
def test_the_default_shard_has_the_nodes_without_a_pool() -> None:
    made = world(node("mine"), node("other", labels={POOL: "b"}))
    assert made.snapshot().nodes.names == ("mine",)


@pytest.mark.row(10)
def test_nodes_may_be_restricted_to_labelled_workers() -> None:
    made = world(options=Options(restrict_node_scheduling=True))
    made.show(
        node("cpu", labels={"node-role.kubernetes.io/cpu-worker": ""}),
        node("gpu", labels={"node-role.kubernetes.io/gpu-worker": ""}),
        node("plain"),
    )
    assert made.snapshot().nodes.names == ("cpu", "gpu")


@pytest.mark.row(10)
def test_anti_affinity_of_cached_pods_is_obeyed() -> None:
    selector = {"matchLabels": {"app": "db"}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made = world(
        node("n1", labels={"kubernetes.io/hostname": "n1"}),
        node("n2", labels={"kubernetes.io/hostname": "n2"}),
        queue(),
        group("new"),
        pod("alone", node="n1", spec={"affinity": {"podAntiAffinity": rule}}),
        pod("new", labels={"app": "db"}),
    )
    plan = run(made)
    assert [(bind.task, bind.node) for bind in plan.binds] == [("new", "n2")]


@pytest.mark.row(47, 154)
def test_node_events_reach_the_next_snapshot_and_heartbeats_change_nothing() -> None:
    made = world(node("n1"))
    first = made.snapshot()
    beat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": OLD}]
    made.show(node("n1", conditions=beat))
    assert not made.cache.changed.is_set()
    assert made.snapshot() is first
    for change in (
        node("n1", gpus=4),
        node("n1", gpus=4, labels={"zone": "a"}),
        node("n1", gpus=4, labels={"zone": "a"}, unschedulable=True),
    ):
        made.show(change)
        assert made.cache.changed.is_set()
        made.snapshot()
    assert made.idle_gpus() == {"n1": 4000}
    assert made.node_record("n1").is_unschedulable
    made.hide(node("n1"))
    assert made.snapshot().nodes.names == ()


@pytest.mark.row(154)
def test_a_pod_is_charged_to_a_node_that_appears_later() -> None:
    made = world(queue(), pod("early", gpus=2, node="late"))
    assert made.idle_gpus() == {}
    made.show(node("late"))
    assert made.idle_gpus() == {"late": 6000}
    made.hide(node("late"))
    made.show(node("late"))
    assert made.idle_gpus() == {"late": 6000}


@pytest.mark.row(166)
def test_a_node_that_is_not_ready_gets_no_pods() -> None:
    down = [{"type": "Ready", "status": "False"}]
    made = world(node("n1", conditions=down), queue(), group("p"), pod("p"))
    assert run(made).binds == ()
    made.show(node("n1"))
    assert [bind.node for bind in run(made).binds] == ["n1"]


# -- bind requests -----------------------------------------------------------------------------


@pytest.mark.row(11)
def test_a_pod_with_a_bind_request_counts_as_placed_until_the_request_failed() -> None:
    made = world(node("n1"), node("n2"), queue(), group("p"), pod("p", gpus=2))
    made.show(request("p", "n2"))
    assert (made.task("p").status, made.task("p").node) == (TaskStatus.BINDING, "n2")
    assert made.idle_gpus() == {"n1": 8000, "n2": 6000}
    made.show(request("p", "n2", status={"phase": "Failed", "failedAttempts": 3}))
    assert made.task("p").status is TaskStatus.PENDING
    assert made.idle_gpus()["n2"] == 8000


@pytest.mark.row(11)
def test_failed_bind_requests_and_those_of_missing_nodes_are_stale_in_their_pool() -> None:
    made = world(node("n1"), queue())
    made.show(
        request("fine", "n1"),
        request("failed", "n1", status={"phase": "Failed", "failedAttempts": 3}),
        request("lost", "gone"),
        request("lost-of-others", "gone", metadata={"labels": {POOL: "b"}}),
        request("done", "gone", status={"phase": "Succeeded"}),
    )
    spent = {found.metadata.name for found in made.cache.stale_bind_requests()}
    assert spent == {"failed", "lost"}


# -- groups and queues -------------------------------------------------------------------------


@pytest.mark.row(53)
def test_jobs_nodes_and_queues_are_found_under_stable_keys() -> None:
    made = world(node("n1"), queue("q"), group("g"), pod("p", group="g"))
    for _ in range(2):
        snapshot = made.snapshot()
        assert set(snapshot.jobs.row) == {"team/g"}
        assert set(snapshot.nodes.row) == {"n1"}
        assert set(snapshot.queues.row) == {"q"}
        made.show(group("g", minimum=2), node("n1", gpus=1), queue("q"))


@pytest.mark.row(13)
def test_an_orphan_queue_is_left_out_with_all_its_descendants() -> None:
    made = world(node("n1"), queue("top"), queue("left", "top"), queue("leaf", "left"))
    made.show(queue("orphan", "missing"), queue("below", "orphan"))
    for name, of in (("good", "leaf"), ("bad", "below")):
        made.show(group(name, queue=of), pod(name))
    queues = made.snapshot().queues
    linked = {
        name: queues.names[parent] if parent >= 0 else ""
        for name, parent in zip(queues.names, queues.parent.tolist(), strict=True)
    }
    assert linked == {"top": "", "left": "top", "leaf": "left"}
    assert [bind.job for bind in run(made).binds] == ["team/good"]
    made.show(queue("missing"))
    assert set(made.snapshot().queues.names) == {
        "top",
        "left",
        "leaf",
        "missing",
        "orphan",
        "below",
    }


@pytest.mark.row(14, 36)
def test_a_job_is_a_pod_group_with_its_pods_and_is_refused_without_a_queue() -> None:
    made = world(node("n1"), queue(), pod("early"), group("lost", queue="nowhere"), pod("lost"))
    bare = pod("bare")
    del bare["metadata"]["annotations"]["pod-group-name"]
    made.show(bare)
    made.show(group("good", minimum=2), pod("a", group="good"), pod("b", group="good"))
    made.show(pod("else", group="good", metadata={"namespace": "others"}))
    snapshot = made.snapshot()
    assert set(snapshot.jobs.row) == {"team/good", "team/lost"}
    mine = {
        snapshot.tasks.records[row].uid
        for leaf in snapshot.leaves_of_job(snapshot.jobs.row["team/good"])
        for row in snapshot.tasks_of_leaf(int(leaf))
    }
    assert mine == {"a", "b"}
    assert {one.metadata.uid for one in made.cache.pods_of("team/good")} == {"a", "b"}
    result = decide(made)
    assert {bind.task for bind in result.plan.binds} == {"a", "b"}
    assert "nowhere" in result.explanation.sentences("team/lost")[0]


@pytest.mark.row(36)
def test_nothing_is_decided_for_a_job_whose_queue_is_deleted() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p"))
    assert len(run(made).binds) == 1
    made.hide(queue())
    assert run(made).binds == ()


@pytest.mark.row(15)
def test_a_parked_group_is_tried_again_when_it_is_of_another_pool_or_no_longer_backs_off() -> None:
    refused = {"transitionID": "1", "status": "True"}
    parked = {"schedulingConditions": [{**refused, "nodePool": "default"}]}
    made = world(node("n1"), queue(), group("p", schedulingBackoff=1), pod("p"))
    assert len(run(made).binds) == 1, "nothing has been said about it yet"
    made.show(group("p", schedulingBackoff=1, status=parked))
    assert run(made).binds == ()
    made.show(group("p", schedulingBackoff=-1, status=parked))
    assert len(run(made).binds) == 1
    made.show(group("p", schedulingBackoff=1, status=parked))
    assert run(made).binds == ()
    elsewhere = {"schedulingConditions": [{**refused, "nodePool": "elsewhere"}]}
    made.show(group("p", schedulingBackoff=1, status=elsewhere))
    assert len(run(made).binds) == 1


@pytest.mark.row(55, 74, 76, 164)
def test_a_deleted_job_is_removed_at_once_and_its_pods_hold_resources_until_they_end() -> None:
    made = world(node("n1"), queue(), group("g"), pod("p", group="g", gpus=2, node="n1"))
    made.hide(group("g"))
    assert jobs_of(made) == {"team/g/orphaned"}
    assert made.idle_gpus() == {"n1": 6000}
    made.show(group("other"))  # which has the place of the first in the tables
    snapshot = made.snapshot()
    assert snapshot.tasks.job[snapshot.tasks.row["p"]] == snapshot.jobs.row["team/g/orphaned"]
    made.show(group("g"))
    assert jobs_of(made) == {"team/g", "team/other"}
    snapshot = made.snapshot()
    assert snapshot.tasks.job[snapshot.tasks.row["p"]] == snapshot.jobs.row["team/g"]
    made.hide(group("g"))
    made.hide(pod("p", group="g"))
    assert made.idle_gpus() == {"n1": 8000}
    assert jobs_of(made) == {"team/other"}


@pytest.mark.row(55, 76, 164)
@pytest.mark.parametrize("first", ["pod", "group"])
def test_deleted_jobs_leave_nothing_in_the_cache(first: str) -> None:
    made, kept = world(node("n1"), queue()), []
    for number in range(50):
        job, task = group(f"g{number}"), pod(f"p{number}", group=f"g{number}", gpus=1)
        made.show(job, task)
        made.snapshot()
        made.cache.assume(f"p{number}", Assumption(TaskStatus.BINDING, "n1"))
        stale = GroupPatch(annotations={"kai.scheduler/stale-podgroup-timestamp": OLD})
        made.cache.assume_patch(from_builtins(PodGroup, job), stale)
        leaves = {"deletionTimestamp": OLD}
        made.show(pod(f"p{number}", group=f"g{number}", node="n1", metadata=leaves))
        for body in (task, job) if first == "pod" else (job, task):
            made.hide(body)
            made.snapshot()
        kept.append(_held(made))
    assert kept[0] == kept[-1]


def _held(made: SchedulerWorld) -> dict[str, int]:
    """How much there is in each collection of the cache and its tables."""
    cache = made.cache
    of_pods: tuple[Any, ...] = (cache.assumptions, cache.transitions, cache._own_times)
    holders: tuple[Any, ...] = (cache, cache._tables, cache._pending_patches, cache._charges)
    return {
        f"{type(holder).__name__}.{name}": len(value)
        for holder in (*holders, *of_pods)
        for name, value in vars(holder).items()
        if isinstance(value, dict | set)
    } | {"_job_ages": len(made.cache._tables._job_ages)}


@pytest.mark.row(55)
def test_a_recreated_group_of_the_same_name_has_nothing_of_what_was_written_on_the_first() -> None:
    made = world(node("n1"), queue(), group("g"))
    stale = GroupPatch(annotations={"kai.scheduler/stale-podgroup-timestamp": OLD})
    made.cache.assume_patch(from_builtins(PodGroup, group("g")), stale)
    assert made.snapshot().to_records().jobs[0].stale_since_s is not None
    made.hide(group("g"))
    made.show(group("g", metadata={"uid": "second"}))
    assert made.snapshot().to_records().jobs[0].stale_since_s is None


def test_names_of_queues_that_no_group_has_any_more_are_forgotten() -> None:
    """Anybody may write any name there."""
    made = world(node("n1"), queue("q"), group("stays", queue="q"), pod("p", group="stays"))
    for number in range(3000):
        made.show(group("g", queue=f"made-up-{number}"))
        if number % 100 == 0:
            made.snapshot()
    assert len(made.cache._tables._queue_codes) < 1200
    assert [bind.job for bind in run(made).binds] == ["team/stays"]


@pytest.mark.row(167)
def test_a_changed_priority_class_reaches_all_its_jobs_in_one_snapshot() -> None:
    made = world(node("n1"), queue())
    for number in range(20):
        made.show(group(f"g{number}", priorityClassName="mine"))
    before = made.snapshot()
    made.show({"kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 70})
    after = made.snapshot()
    assert set(before.jobs.priority[before.jobs.live].tolist()) == {50}
    assert set(after.jobs.priority[after.jobs.live].tolist()) == {70}


# -- snapshots ---------------------------------------------------------------------------------


@pytest.mark.row(18, 79, 139)
def test_a_snapshot_is_immutable_whatever_happens_later() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=2))
    snapshot = made.snapshot()
    records, idle = snapshot.to_records(), snapshot.nodes.idle.copy()
    decide(made)  # its session binds the pod, in its own copy
    made.show(pod("p", gpus=2, node="n1"), node("n1", gpus=1), group("p", minimum=3))
    made.hide(queue())
    assert snapshot.to_records() == records
    assert np.array_equal(snapshot.nodes.idle, idle)
    later = made.snapshot()
    assert later is not snapshot
    assert later.to_records() != records


@pytest.mark.row(79)
def test_a_new_snapshot_shares_what_did_not_change() -> None:
    made = world(queue(), *(node(f"n{number:02}") for number in range(40)))
    for number in range(40):
        made.show(group(f"g{number}"), pod(f"p{number}", group=f"g{number}", node=f"n{number:02}"))
    first = made.snapshot()
    assert made.snapshot() is first
    made.show(pod("p7", group="g7", gpus=2, node="n07"))
    second = made.snapshot()
    assert second.jobs.records is first.jobs.records
    assert second.nodes.records is first.nodes.records
    changed = np.flatnonzero((second.nodes.idle != first.nodes.idle).any(axis=1))
    assert changed.tolist() == [7]


@pytest.mark.row(34)
def test_the_order_of_watch_events_changes_no_decision() -> None:
    bodies = [node("n1"), node("n2"), queue("a"), queue("b")]
    for number in range(6):
        created = {"creationTimestamp": f"2023-01-01T00:00:0{number}Z"}
        of = "a" if number % 2 else "b"
        name = f"g{number}"
        bodies.append(group(name, queue=of, metadata=created))
        bodies.append(pod(f"p{number}", group=name, gpus=3, metadata=created))
    plans = [run(world(*order)) for order in (bodies, bodies[::-1], bodies[::2] + bodies[1::2])]
    assert len(plans[0].binds) == 4
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.row(4, 166)
def test_a_snapshot_holds_everything_that_a_cycle_reads() -> None:
    made = world(
        node("n1", labels={"nvidia.com/gpu.memory": "40000"}),
        node("n2", labels={"nvidia.com/gpu.memory": "80000"}),
        queue(),
        group("g"),
        pod("p", group="g"),
        request("p", "n2"),
        request("lost", "no-such-node"),
    )
    level = [{"nodeLabel": "rack"}]
    budget = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    everywhere: list[tuple[str, str, Body]] = [
        ("Topology", "racks", {"spec": {"levels": level}}),
        ("PersistentVolume", "volume", {}),
        ("StorageClass", "fast", {"provisioner": "made.up"}),
        ("CSIDriver", "made.up", {}),
        ("CSINode", "n1", {}),
        ("DeviceClass", "gpu", {}),
        ("ResourceSlice", "n1-gpus", {"spec": {"nodeName": "n1", "driver": "gpu.example.com"}}),
        ("Namespace", "team", {}),
    ]
    for kind, name, parts in everywhere:
        made.show({"kind": kind, "metadata": {"name": name}, **parts})
    in_team: list[tuple[str, Body]] = [
        ("ConfigMap", {}),
        ("PersistentVolumeClaim", {}),
        ("CSIStorageCapacity", {"storageClassName": "fast"}),
        ("ResourceClaim", {}),
        ("PodDisruptionBudget", {"spec": budget}),
    ]
    for kind, parts in in_team:
        made.show({"kind": kind, "metadata": {"name": "one", "namespace": "team"}, **parts})
    snapshot = made.snapshot()
    around = snapshot.cluster_objects
    assert set(snapshot.nodes.row) == {"n1", "n2"}
    assert made.task("p").status is TaskStatus.BINDING
    assert [found.metadata.name for found in made.cache.stale_bind_requests()] == ["lost"]
    assert (set(snapshot.jobs.row), set(snapshot.queues.row)) == ({"team/g"}, {"q"})
    assert snapshot.queues.usage.shape == (1, 3)
    assert snapshot.gpu_memory_max_mib == 80000
    assert set(snapshot.topologies) == {"racks"}
    assert around.config_maps == frozenset({"team/one"})
    assert set(around.namespaces) == {"team"}
    held = (
        around.volumes,
        around.volume_claims,
        around.storage_classes,
        around.storage_capacities,
        around.storage_drivers,
        around.storage_nodes,
        around.device_classes,
        around.device_claims,
        around.device_slices,
        around.disruption_allowances,
    )
    assert [len(found) for found in held] == [1] * len(held)


_OTHERS: list[tuple[str, str, Body]] = [
    ("ConfigMap", "config_maps", {}),
    ("Namespace", "namespaces", {}),
    ("PersistentVolumeClaim", "volume_claims", {}),
    ("PersistentVolume", "volumes", {}),
    ("StorageClass", "storage_classes", {"provisioner": "made.up"}),
    ("CSIStorageCapacity", "storage_capacities", {"storageClassName": "fast"}),
    ("CSIDriver", "storage_drivers", {}),
    ("CSINode", "storage_nodes", {}),
    ("DeviceClass", "device_classes", {}),
    ("ResourceSlice", "device_slices", {}),
    ("ResourceClaim", "device_claims", {}),
    (
        "PodDisruptionBudget",
        "disruption_allowances",
        {"spec": {"selector": {"matchLabels": {"app": "x"}}}},
    ),
]


@pytest.mark.row(138, 140)
@pytest.mark.parametrize(("kind", "field", "parts"), _OTHERS, ids=[one[0] for one in _OTHERS])
def test_an_object_that_comes_or_goes_is_a_reason_to_decide_and_in_the_next_snapshot(
    kind: str, field: str, parts: Body
) -> None:
    made = world(node("n1"), queue())
    body = {"kind": kind, "metadata": {"name": "one", "namespace": "team"}, **parts}
    seen = []
    for changes in ((), (made.show,), (made.hide,)):
        made.snapshot()
        for change in changes:
            change(body)
        is_reason = made.cache.changed.is_set()
        seen.append((is_reason, len(getattr(made.snapshot().cluster_objects, field))))
    assert seen == [(False, 0), (True, 1), (True, 0)]


def test_pods_from_before_the_first_device_class_are_refreshed() -> None:
    """With classes it matters which container asks for what; without, nobody keeps it."""
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=1))
    assert made.task("p").constraints.containers == ()
    made.show({"kind": "DeviceClass", "metadata": {"name": "gpu"}})
    assert len(made.task("p").constraints.containers) == 1


# -- nodes that change hands -------------------------------------------------------------------


def pass_time(made: SchedulerWorld, by_s: float) -> None:
    assert isinstance(made.clock, VirtualClock)
    made.clock.advance(by_s)


def in_pools(pool: str) -> SchedulerWorld:
    return world(
        node("n1", labels={POOL: pool}),
        node("n2", labels={POOL: "a"}),
        options=replace(BY_REQUEST, shard="a"),
    )


def test_a_node_that_comes_from_another_pool_is_ours_when_it_has_stayed_for_a_while() -> None:
    """What its scheduler decided for it last may not have reached us yet."""
    made = in_pools("b")
    made.show(node("n1", labels={POOL: "a"}))
    assert set(made.idle_gpus()) == {"n2"}
    made.show(node("n1", gpus=4, labels={POOL: "a"}))
    due_s = made.cache.next_transition_s()
    assert due_s is not None
    assert made.clock.now_s() < due_s < made.clock.now_s() + 10.0
    pass_time(made, due_s - made.clock.now_s())
    assert made.idle_gpus() == {"n1": 4000, "n2": 8000}
    assert made.cache.next_transition_s() is None


def test_a_node_that_goes_to_and_fro_between_pools_is_nobodys_until_it_stays() -> None:
    made = in_pools("a")
    for _ in range(3):
        made.show(node("n1", labels={POOL: "b"}))
        made.show(node("n1", labels={POOL: "a"}))
        pass_time(made, 3.0)
        assert set(made.idle_gpus()) == {"n2"}
    pass_time(made, 3.0)
    assert set(made.idle_gpus()) == {"n1", "n2"}


def test_a_node_that_left_while_it_was_coming_is_none_of_ours() -> None:
    made = in_pools("b")
    made.show(node("n1", labels={POOL: "a"}))
    made.hide(node("n1", labels={POOL: "a"}))
    pass_time(made, 60.0)
    assert set(made.idle_gpus()) == {"n2"}
    made.show(node("n1", labels={POOL: "a"}))
    assert set(made.idle_gpus()) == {"n1", "n2"}


def test_what_happens_to_nodes_of_other_pools_wakes_nobody() -> None:
    made = in_pools("b")
    made.snapshot()
    made.show(node("n1", gpus=4, labels={POOL: "b"}))
    made.hide(node("n1", gpus=4, labels={POOL: "b"}))
    assert not made.cache.changed.is_set()
    made.hide(node("n2", labels={POOL: "a"}))
    assert made.cache.changed.is_set()


# -- decisions that the watch has not shown yet ------------------------------------------------


@pytest.mark.row(39, 150)
def test_assuming_a_bind_changes_the_cache_and_writes_nothing() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=2))
    made.cache.assume("p", Assumption(TaskStatus.BINDING, "n1"))
    assert (made.task("p").status, made.task("p").node) == (TaskStatus.BINDING, "n1")
    assert made.idle_gpus() == {"n1": 6000}
    assert made.server.requests == []


@pytest.mark.row(39, 163)
@pytest.mark.parametrize(("uid", "on"), [("unknown", "n1"), ("p", "unknown")])
def test_assuming_an_unknown_pod_or_node_is_an_error_and_changes_nothing(uid: str, on: str) -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=2))
    with pytest.raises(NotCached, match="unknown"):
        made.cache.assume(uid, Assumption(TaskStatus.BINDING, on))
    assert made.statuses() == {"p": TaskStatus.PENDING}
    assert made.idle_gpus() == {"n1": 8000}


@pytest.mark.row(40)
def test_an_assumed_eviction_is_releasing_before_the_watch_shows_it() -> None:
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=2, node="n1"))
    made.cache.assume("p", Assumption(TaskStatus.RELEASING, "n1"))
    snapshot = made.snapshot()
    assert made.task("p").status is TaskStatus.RELEASING
    assert snapshot.nodes.releasing[0, snapshot.axis.column["gpu"]] == 2000


@pytest.mark.row(44, 162)
@pytest.mark.parametrize("status", [TaskStatus.BINDING, TaskStatus.RELEASING])
@pytest.mark.parametrize("broken", ["upsert_task", "_shape_row"], ids=["at once", "half way"])
@pytest.mark.parametrize("was_assumed", [False, True])
def test_an_assumption_that_cannot_be_counted_leaves_everything_as_it_was(
    monkeypatch: pytest.MonkeyPatch, status: TaskStatus, broken: str, was_assumed: bool
) -> None:
    on = "n1" if status is TaskStatus.RELEASING else ""
    made = world(node("n1"), node("n2"), queue(), group("p"), pod("p", gpus=2, node=on))
    before = Assumption(status, "n1") if was_assumed else None
    if before is not None:
        made.cache.assume("p", before)
    said = made.snapshot().to_records()
    idle = made.idle_gpus()

    def fail(_: object) -> None:
        raise OverflowError("cannot be counted")

    with monkeypatch.context() as plant:
        plant.setattr(made.cache._tables, broken, fail)
        with pytest.raises(OverflowError):
            made.cache.assume("p", Assumption(status, "n2"))
    assert made.cache._charges.pods_of("team/p") == [], "who is in no table pays nothing"
    made.show(node("n1", labels={"touched": "yes"}), pod("p", gpus=2, node=on))
    assert made.cache.assumptions.get("p") is before
    assert made.snapshot().to_records().tasks == said.tasks
    assert made.idle_gpus() == idle
    made.cache.assume("p", Assumption(status, "n2"))
    assert (made.task("p").status, made.task("p").node) == (status, "n2")


@pytest.mark.row(44, 162)
def test_an_assumed_pod_stays_assumed_until_it_is_confirmed_or_forgotten() -> None:
    made = world(node("n1"), node("n2"), queue(), group("p"), pod("p", gpus=2))
    made.cache.assume("p", Assumption(TaskStatus.BINDING, "n1"))
    made.show(pod("p", gpus=2, labels={"touched": "yes"}), node("n1", labels={"x": "y"}))
    assert made.idle_gpus() == {"n1": 6000, "n2": 8000}
    made.cache.forget("p")
    assert made.idle_gpus() == {"n1": 8000, "n2": 8000}
    assert made.task("p").status is TaskStatus.PENDING
    made.cache.assume("p", Assumption(TaskStatus.BINDING, "n1"))
    made.show(pod("p", gpus=2, node="n2"))  # somebody else was faster
    assert made.idle_gpus() == {"n1": 8000, "n2": 6000}
    made.cache.forget("p")
    assert made.idle_gpus() == {"n1": 8000, "n2": 6000}


@pytest.mark.parametrize(
    "over",
    [
        {"status": {"phase": "Failed", "failedAttempts": 1}},
        {"metadata": {"deletionTimestamp": OLD}},
    ],
    ids=["failed", "leaving"],
)
def test_a_request_that_is_over_confirms_no_later_decision(over: dict[str, Any]) -> None:
    """Else the room of a request that is on its way would be given once more."""
    made = world(node("n1"), queue(), group("p"), pod("p", gpus=2), request("p", "n1", **over))
    made.cache.assume("p", Assumption(TaskStatus.BINDING, "n1"))
    made.show(pod("p", gpus=2, labels={"seen": "again"}))
    made.hide(request("p", "n1", **over))
    assert made.idle_gpus() == {"n1": 6000}
    made.show(request("p", "n1"))
    assert made.cache.assumptions.get("p") is None
    assert made.idle_gpus() == {"n1": 6000}


@pytest.mark.row(160)
def test_an_object_whose_handler_fails_does_not_stop_the_others() -> None:
    made = world(node("n1"), queue())
    broken: Any = made.cache._tables

    def fail(_: object) -> bool:
        raise ValueError("cannot be counted")

    upsert, broken.upsert_task = broken.upsert_task, fail
    made.show(pod("odd", node="n1"))
    broken.upsert_task = upsert
    made.show(pod("fine", node="n1"))
    assert set(made.statuses()) == {"fine"}
    assert "handler failed" in made.log.messages()


def decide(made: SchedulerWorld) -> CycleResult:
    rules = made.loop._active_policy()
    return run_cycle(made.snapshot(), rules.policy, rules.actions, made.clock.now_s())


def run(made: SchedulerWorld) -> Plan:
    return decide(made).plan
