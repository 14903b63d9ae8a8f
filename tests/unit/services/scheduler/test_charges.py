"""Who pays for placed pods when they, and what they belong to, are edited while they run."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.scheduler_world import Body, SchedulerWorld, group, node, pod, queue, request

from muster.base.clock import VirtualClock
from muster.base.timefmt import rfc3339
from muster.engine.cycle import run_cycle
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU
from muster.services.scheduler.assumptions import Assumption

PLACED = {
    "pod-group-name": "g",
    "kai.scheduler/subgroup-name": "default",
    "kai.scheduler/queue": "q",
    "kai.scheduler/preemptibility": "preemptible",
}


def placed(name: str, on: str = "n1", **notes: str) -> Body:
    """The bind request of a pod, as this scheduler makes it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name}
    meta = {"annotations": {**PLACED, **notes}, "ownerReferences": [owner]}
    return request(name, on, metadata=meta, status={"phase": "Succeeded"})


def world(*bodies: Body) -> SchedulerWorld:
    made = SchedulerWorld()
    queues = (queue(), queue("other"), queue("default-queue"))
    made.show(node("n1"), *queues, *bodies)
    return made


def charged(made: SchedulerWorld) -> dict[str, float]:
    """GPUs that count for each queue."""
    queues = made.snapshot().queues
    column = queues.allocated[:, QUEUE_GPU] / GPU_UNIT
    return {name: gpus for name, gpus in zip(queues.names, column.tolist(), strict=True) if gpus}


def is_victim(made: SchedulerWorld, name: str) -> bool:
    """Whether searches find the pod: in a leaf of a job that may be taken back."""
    snapshot = made.snapshot()
    row = snapshot.tasks.row[name]
    job = snapshot.tasks.job[row]
    return bool(job >= 0 and snapshot.tasks.leaf[row] >= 0 and snapshot.jobs.is_preemptible[job])


def running(**more: Any) -> Body:
    return pod("p", gpus=2, group=more.pop("group", "g"), node="n1", **more)


def _renamed(made: SchedulerWorld) -> None:
    made.show(running(group="nosuch"))


def _unnamed(made: SchedulerWorld) -> None:
    body = running()
    body["metadata"]["annotations"] = {}
    made.show(body)


def _joined_a_group_of_another_queue(made: SchedulerWorld) -> None:
    made.show(group("theirs", queue="other"), running(group="theirs"))


def _sub_group_renamed(made: SchedulerWorld) -> None:
    made.show(running(labels={"kai.scheduler/subgroup-name": "nosuch"}))


def _sub_groups_replaced(made: SchedulerWorld) -> None:
    body = group("g")
    del body["spec"]["minMember"]
    body["spec"]["subGroups"] = [{"name": "fresh", "minMember": 1}]
    made.show(body)


def _group_deleted(made: SchedulerWorld) -> None:
    made.hide(group("g"))


def _group_moved_to_another_pool(made: SchedulerWorld) -> None:
    made.show(group("g", metadata={"labels": {"kai.scheduler/node-pool": "far"}}))


def _group_moved(made: SchedulerWorld) -> None:
    made.show(group("g", queue="other"))


def _group_moved_nowhere(made: SchedulerWorld) -> None:
    made.show(group("g", queue="nosuch"))


def _group_hardened(made: SchedulerWorld) -> None:
    made.show(group("g", preemptibility="non-preemptible"))


EDITS = (
    _renamed,
    _unnamed,
    _joined_a_group_of_another_queue,
    _sub_group_renamed,
    _sub_groups_replaced,
    _group_deleted,
    _group_moved_to_another_pool,
    _group_moved,
    _group_moved_nowhere,
    _group_hardened,
)


@pytest.mark.parametrize("edit", EDITS)
def test_a_running_pod_that_we_did_not_place_is_always_charged_to_some_queue(
    edit: Callable[[SchedulerWorld], None],
) -> None:
    """Bound directly, or by another scheduler of our name: no bind request says who pays."""
    made = world(group("g"), running())
    assert charged(made) == {"q": 2}
    edit(made)
    assert sum(charged(made).values()) == 2
    made.hide(queue())
    assert sum(charged(made).values()) == 2


@pytest.mark.parametrize("edit", EDITS)
def test_a_running_pod_stays_in_the_accounts_whatever_is_edited(
    edit: Callable[[SchedulerWorld], None],
) -> None:
    made = world(group("g"), running(), placed("p"))
    assert charged(made) == {"q": 2}
    assert is_victim(made, "p")
    edit(made)
    assert charged(made) == {"q": 2}
    assert is_victim(made, "p")
    made.hide(running())
    assert charged(made) == {}
    assert not any(record.key.endswith("/orphaned") for record in made.snapshot().to_records().jobs)


@pytest.mark.parametrize("edit", EDITS)
def test_a_scheduler_that_starts_after_the_edit_charges_the_same_queue(
    edit: Callable[[SchedulerWorld], None],
) -> None:
    """It knows nothing but what the API server holds."""
    made = SchedulerWorld()
    made.show(running(), placed("p"), group("g"))
    edit(made)
    made.show(node("n1"), queue(), queue("other"), queue("default-queue"))
    assert charged(made) == {"q": 2}
    assert is_victim(made, "p")


def test_a_pod_that_nobody_can_say_the_queue_of_is_charged_to_the_default_queue() -> None:
    made = world(running(group="nosuch"))
    assert charged(made) == {"default-queue": 2}
    assert is_victim(made, "p")
    made.show(group("nosuch"))
    assert charged(made) == {"q": 2}, "its group has come"


def test_a_pod_of_a_queue_that_is_gone_is_charged_to_the_default_queue() -> None:
    made = world(group("g"), running(), placed("p"))
    assert charged(made) == {"q": 2}
    made.hide(queue())
    assert charged(made) == {"default-queue": 2}
    made.show(queue())
    assert charged(made) == {"q": 2}


def test_a_group_that_holds_nothing_is_moved_to_the_queue_that_it_names() -> None:
    made = world(group("g"), running(), placed("p"))
    made.show(group("g", queue="other", preemptibility="non-preemptible"))
    assert charged(made) == {"q": 2}
    made.hide(running())
    made.hide(placed("p"))
    made.show(pod("again", gpus=2, group="g"))
    (job,) = made.snapshot().to_records().jobs
    assert (job.queue, job.is_preemptible) == ("other", False)


def test_work_that_was_placed_for_good_stays_so_without_its_group() -> None:
    hard = placed("p", **{"kai.scheduler/preemptibility": "non-preemptible"})
    made = world(group("g", preemptibility="non-preemptible"), running(), hard)
    made.hide(group("g"))
    assert charged(made) == {"q": 2}
    assert not is_victim(made, "p")


def test_pods_that_wait_without_their_group_are_not_scheduled_with_those_that_run() -> None:
    made = world(group("g"), running(), placed("p"), pod("waits", gpus=1, group="g"))
    made.hide(group("g"))
    snapshot = made.snapshot()
    row = snapshot.tasks.row["waits"]
    assert snapshot.tasks.status[row] == TaskStatus.PENDING
    assert snapshot.tasks.job[row] == -1


def test_a_pod_may_move_between_groups_of_its_queue() -> None:
    made = world(group("g"), group("h"), running(), placed("p"))
    made.show(running(group="h"))
    assert made.task("p").job == "team/h"
    assert charged(made) == {"q": 2}


def test_pods_of_another_pool_are_not_ours_to_charge() -> None:
    made = SchedulerWorld()
    far = {"kai.scheduler/node-pool": "far"}
    made.show(node("n1", labels=far), queue("default-queue"), running(), placed("p"))
    made.show(group("g", metadata={"labels": far}))
    assert charged(made) == {}
    made.show(node("n1"))
    assert isinstance(made.clock, VirtualClock)
    made.clock.advance(10.0)
    assert charged(made) == {"default-queue": 2}, "the node has come into our pool, and no queue q"


# -- how long it has run -------------------------------------------------------------------------

_EARLY, _LATE = "2026-01-05T10:00:00Z", "2026-01-05T14:00:00Z"


def _noted(at: str, minimum: int = 1) -> Body:
    notes = {"annotations": {"kai.scheduler/last-start-timestamp": at}}
    return group("g", minimum, metadata=notes)


def _started(name: str, at: str) -> Body:
    return pod(name, group="g", node="n1", status={"startTime": at})


def last_start(made: SchedulerWorld) -> str:
    (job,) = made.snapshot().to_records().jobs
    assert job.last_start_s is not None
    return rfc3339(job.last_start_s)


@pytest.mark.parametrize(
    ("noted", "pods", "minimum", "counts"),
    [
        pytest.param(_LATE, [_EARLY, _EARLY], 2, _EARLY, id="rewritten to look young"),
        pytest.param("9999-12-31T00:00:00Z", [_EARLY], 1, _EARLY, id="rewritten for ever"),
        pytest.param(_LATE, [_EARLY, _LATE], 1, _EARLY, id="a new pod makes nobody young"),
        pytest.param(_LATE, [_EARLY, _LATE], 2, _LATE, id="the gang was not whole before"),
        pytest.param(_EARLY, [_LATE], 1, _EARLY, id="older than its pods"),
        pytest.param(
            "2026-01-05T10:05:00Z", [_EARLY], 1, "2026-01-05T10:05:00Z", id="clocks apart"
        ),
    ],
)
def test_a_job_is_as_young_as_its_pods_say_whatever_is_noted_on_its_group(
    noted: str, pods: list[str], minimum: int, counts: str
) -> None:
    running = [_started(f"p{number}", at) for number, at in enumerate(pods)]
    made = world(*running, _noted(noted, minimum))
    assert last_start(made) == counts
    again = world(_noted(noted, minimum), *running)
    assert last_start(again) == counts, "in whatever order a scheduler that starts sees them"


# -- shares of GPUs ------------------------------------------------------------------------------


def reservation(name: str, shared: str, on: str = "n1", namespace: str = "") -> Body:
    meta = {
        "namespace": namespace or "kai-resource-reservation",
        "labels": {"app": "kai-resource-reservation", "runai-gpu-group": shared},
        "annotations": {},
    }
    return pod(name, gpus=1, node=on, scheduler="", metadata=meta)


def share(name: str, shared: str, fraction: str = "0.5", **more: Any) -> Body:
    labels, notes = {"runai-gpu-group": shared}, {"gpu-fraction": fraction}
    return pod(name, gpus=0, node="n1", labels=labels, annotations=notes, **more)


def test_gpus_of_a_pod_that_a_tenant_labels_as_a_reservation_are_taken() -> None:
    made = world(group("p"), reservation("p", "x", namespace="team"))
    assert made.idle_gpus() == {"n1": 7000}


def test_a_share_that_only_labels_speak_of_counts_where_a_reservation_backs_it() -> None:
    made = world(group("p"), share("p", "g1"))
    assert made.idle_gpus() == {"n1": 8000}, "no device is reserved under that name"
    made.show(reservation("r", "g1", on="elsewhere"))
    assert made.task("p").gpu_shares == ()
    made.show(reservation("r", "g1"))
    assert made.task("p").gpu_shares == ("g1",)
    assert made.idle_gpus() == {"n1": 7000}
    made.hide(reservation("r", "g1"))
    assert made.task("p").gpu_shares == ()


def test_pods_of_other_schedulers_cannot_take_gpus_by_labels() -> None:
    made = world(group("p"), share("p", "g1"), reservation("r", "g1"))
    labels = {f"runai-gpu-group/{number}": f"x{number}" for number in range(300)}
    notes = {"gpu-memory": "4000000", "gpu-fraction-num-devices": "1024"}
    made.show(pod("many", 0, node="n1", labels=labels, annotations=notes, scheduler="nobody"))
    for number in range(20):
        made.show(share(f"leech-{number}", "g1", "0.9", scheduler="nobody"))
    assert made.idle_gpus() == {"n1": 7000}
    assert made.snapshot().foreign[QUEUE_GPU] == 0
    assert [len(shares) for shares in made.snapshot().nodes.gpu_shares] == [1]


def test_a_share_that_is_asked_to_leave_is_taken_until_it_has_left() -> None:
    made = world(group("p"), share("p", "g1"), reservation("r", "g1"))
    made.cache.assume("p", Assumption(TaskStatus.RELEASING, "n1"))
    assert made.task("p").status is TaskStatus.RELEASING
    assert made.task("p").gpu_shares == ("g1",)


# -- closed queues -------------------------------------------------------------------------------


def test_jobs_of_namespaces_that_a_queue_is_not_open_to_wait_and_say_why() -> None:
    top, leaf = queue("top"), queue("leaf", parent="top")
    made = SchedulerWorld()
    made.show(node("n1"), top, leaf, group("p", queue="leaf"), pod("p"))

    def decided() -> tuple[list[str], str]:
        rules = made.loop._active_policy()
        result = run_cycle(made.snapshot(), rules.policy, rules.actions, made.clock.now_s())
        said = " ".join(result.explanation.sentences("team/p"))
        return [bind.task for bind in result.plan.binds], said

    assert decided() == (["p"], "")
    top["metadata"]["annotations"] = {"kai.scheduler/namespaces": "others"}
    made.show(top)
    binds, why = decided()
    assert binds == []
    assert "Queue leaf is not open to its namespace." in why
    leaf["metadata"]["annotations"] = {"kai.scheduler/namespaces": "others, team"}
    made.show(leaf)
    assert decided() == (["p"], "")
