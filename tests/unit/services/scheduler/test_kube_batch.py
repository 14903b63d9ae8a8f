"""What kube-batch makes of pods, groups, budgets and namespaces, in both of its dialects."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.scheduler_world import Body, SchedulerWorld, node
from tests.support.virtual_time import virtually

from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.model.ledger import Ledger
from muster.model.records import JobRecord
from muster.model.status import TaskStatus
from muster.services.scheduler.batch_reporter import BatchReporter
from muster.services.scheduler.cache import NotCached
from muster.services.scheduler.options import Options

OLD, LATER = ProfileName.KUBE_BATCH_02, ProfileName.KUBE_BATCH
GROUP = "scheduling.k8s.io/group-name"


def world(profile: ProfileName, *bodies: Body, **more: Any) -> SchedulerWorld:
    known = Names(scheduler="kube-batch")
    made = SchedulerWorld(Options(names=known, profile=profile, watches_claims=False, **more))
    made.show(node("n1"), *bodies)
    return made


def pod(name: str, notes: Mapping[str, str] | None = None, owner: str = "", **more: Any) -> Body:
    """A pod of kube-batch's that wants one CPU."""
    metadata: Body = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "annotations": dict(notes or {}),
        **more.pop("metadata", {}),
    }
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner}
            | {"controller": True}
        ]
    spec = {
        "schedulerName": "kube-batch",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        **more.pop("spec", {}),
    }
    if on := more.pop("on", ""):
        spec["nodeName"] = on
    status = {"phase": more.pop("phase", "Running" if on else "Pending")}
    assert not more, f"unknown wishes: {more}"
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def member(name: str, group: str = "g", **more: Any) -> Body:
    return pod(name, {GROUP: group}, **more)


def group(name: str = "g", **spec: Any) -> Body:
    metadata = {"name": name, "namespace": "team", "uid": f"group-{name}"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": spec, "status": {}}


def budget(owner: str, least: int | str, name: str = "pdb") -> Body:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner}]
    metadata: Body = {"name": name, "namespace": "team", "uid": f"budget-{name}"}
    if owner:
        metadata["ownerReferences"] = [owners[0] | {"controller": True}]
    spec = {"minAvailable": least}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": {}}


def queue(name: str, weight: int = 1) -> Body:
    metadata = {"name": name, "uid": f"queue-{name}"}
    return {"kind": "Queue", "metadata": metadata, "spec": {"weight": weight}, "status": {}}


def namespace(name: str) -> Body:
    return {"kind": "Namespace", "metadata": {"name": name, "uid": f"namespace-{name}"}}


def jobs(made: SchedulerWorld) -> dict[str, JobRecord]:
    return {record.key: record for record in made.snapshot().to_records().jobs}


def minimum(record: JobRecord) -> int:
    assert record.terms is not None
    return int(record.terms.minimum)


# -- queues --------------------------------------------------------------------------------------


@pytest.mark.row(49, 56)
def test_namespaces_are_queues_of_weight_one_in_the_oldest_dialect() -> None:
    made = world(OLD, namespace("team"), namespace("other"))
    queues = {record.name: record for record in made.snapshot().to_records().queues}
    assert set(queues) == {"team", "other"}
    assert {record.terms.weight for record in queues.values() if record.terms} == {1}
    assert "Queue" not in made.supervisor.made, "queue objects are ignored"
    made.hide(namespace("other"))
    assert {record.name for record in made.snapshot().to_records().queues} == {"team"}


@pytest.mark.row(51, 56)
@pytest.mark.parametrize(
    ("profile", "said", "expected"),
    [
        (OLD, None, "team"),
        (OLD, False, "q"),
        (LATER, None, "q"),
        (LATER, True, "team"),
    ],
)
def test_an_option_says_whether_namespaces_or_queue_objects_are_the_queues(
    profile: ProfileName, said: bool | None, expected: str
) -> None:
    made = world(profile, namespaces_are_queues=said)
    made.show(queue("q", weight=3) if expected == "q" else namespace("team"))
    assert [record.name for record in made.snapshot().to_records().queues] == [expected]


def test_a_namespace_is_a_queue_of_every_pool() -> None:
    known = Names(scheduler="kube-batch")
    made = SchedulerWorld(Options(names=known, profile=OLD, shard="a", watches_claims=False))
    made.show(namespace("team"))
    assert [record.name for record in made.snapshot().to_records().queues] == ["team"]


# -- jobs ----------------------------------------------------------------------------------------


@pytest.mark.row(71)
@pytest.mark.parametrize(
    ("profile", "said", "expected"),
    [
        (OLD, {}, "team"),
        (OLD, {"queue": "q"}, "q"),
        (LATER, {}, "default"),
        (LATER, {"queue": "q"}, "q"),
    ],
)
def test_a_job_takes_its_name_minimum_and_queue_from_its_group(
    profile: ProfileName, said: Body, expected: str
) -> None:
    made = world(profile, group(minMember=3, **said))
    (found,) = jobs(made).values()
    assert (found.key, found.queue, minimum(found)) == ("team/g", expected, 3)


def test_the_default_queue_can_be_named() -> None:
    made = world(LATER, group(), default_queue="common")
    assert jobs(made)["team/g"].queue == "common"


@pytest.mark.row(63, 70)
@pytest.mark.parametrize(
    ("profile", "body", "job"),
    [
        (OLD, member("p", owner="job"), "team/g"),
        (OLD, pod("p", owner="job"), "team/job"),
        (OLD, pod("p"), ""),
        (LATER, member("p", owner="job"), "team/g"),
        (LATER, pod("p", owner="job"), "team/job"),
        (LATER, pod("p"), "team/p"),
        (LATER, pod("p", {"pod-group-name": "of-another-scheduler"}), "team/p"),
    ],
)
def test_a_pods_job_is_the_group_that_it_names_else_its_controller(
    profile: ProfileName, body: Body, job: str
) -> None:
    assert world(profile, body).task("p").job == job


@pytest.mark.row(78)
def test_a_pod_without_a_group_is_scheduled_by_later_dialects_only() -> None:
    bodies = pod("alone"), pod("a", owner="job"), pod("b", owner="job")
    assert jobs(world(OLD, *bodies)) == {}
    made = jobs(world(LATER, *bodies))
    assert set(made) == {"team/alone", "team/job"}
    assert {(minimum(one), one.queue) for one in made.values()} == {(1, "default")}


def test_a_pod_without_a_group_may_say_how_many_of_its_controller_start_together() -> None:
    notes = {"scheduling.k8s.io/group-min-member": "2"}
    made = world(LATER, pod("a", notes, owner="job"), pod("b", notes, owner="job"))
    assert minimum(jobs(made)["team/job"]) == 2
    odd = {"scheduling.k8s.io/group-min-member": "many"}
    assert minimum(jobs(world(LATER, pod("a", odd)))["team/a"]) == 1


def test_the_group_that_stands_for_pods_goes_with_the_last_of_them() -> None:
    made = world(LATER, pod("a", owner="job"), pod("b", owner="job"))
    made.hide(pod("a", owner="job"))
    assert set(jobs(made)) == {"team/job"}
    made.hide(pod("b", owner="job"))
    assert jobs(made) == {}


@pytest.mark.row(72)
@pytest.mark.parametrize("profile", [OLD, LATER])
@pytest.mark.parametrize(("least", "expected"), [(2, 2), ("50%", 0)])
def test_a_disruption_budget_makes_a_job_of_its_controllers_pods(
    profile: ProfileName, least: int | str, expected: int
) -> None:
    made = world(profile, pod("a", owner="job"), pod("b", owner="job"))
    made.show(budget("job", least))
    (found,) = jobs(made).values()
    assert (found.key, minimum(found)) == ("team/job", expected)
    assert found.queue == ("team" if profile is OLD else "default")
    snapshot = made.snapshot()
    assert {record.job for record in snapshot.tasks.records} == {"team/job"}
    made.hide(budget("job", least))
    assert set(jobs(made)) == (set() if profile is OLD else {"team/job"})


def test_a_budget_without_a_controller_makes_no_job() -> None:
    assert jobs(world(OLD, budget("", 2))) == {}


def test_a_group_that_somebody_made_takes_the_place_of_what_stood_for_it() -> None:
    made = world(LATER, pod("a", owner="job"), budget("job", 2))
    made.show(group("job", minMember=5))
    assert minimum(jobs(made)["team/job"]) == 5
    made.hide(group("job"))
    assert minimum(jobs(made)["team/job"]) == 2


@pytest.mark.row(66, 69)
def test_a_new_job_is_empty_and_has_a_minimum_of_zero() -> None:
    made = world(OLD, group())
    snapshot = made.snapshot()
    row = snapshot.jobs.row["team/g"]
    assert minimum(snapshot.jobs.records[row]) == 0
    assert len(snapshot.tasks_of_leaf(int(snapshot.jobs.leaves[snapshot.jobs.start[row]]))) == 0


@pytest.mark.row(65)
@pytest.mark.parametrize(
    ("phase", "charged"), [("Running", 1), ("Pending", 1), ("Succeeded", 0), ("Failed", 0)]
)
def test_a_task_that_came_before_its_group_and_its_node_is_charged_to_both_until_it_ends(
    phase: str, charged: int
) -> None:
    made = world(OLD, namespace("team"), member("p", on="n2", phase=phase))
    assert jobs(made) == {}
    made.show(node("n2"), group())
    snapshot = made.snapshot()
    row, cpu = snapshot.nodes.row["n2"], snapshot.axis.column["cpu"]
    assert snapshot.nodes.idle[row, cpu] == 64_000 - charged * 1000
    assert snapshot.tasks.job[snapshot.tasks.row["p"]] == snapshot.jobs.row["team/g"]


@pytest.mark.row(67)
def test_totals_and_the_index_by_state_follow_every_task() -> None:
    made = world(OLD, namespace("team"), group())

    def counted() -> tuple[dict[TaskStatus, int], int]:
        snapshot = made.snapshot()
        job = snapshot.jobs.row["team/g"]
        leaf = int(snapshot.jobs.leaves[snapshot.jobs.start[job]])
        by_status = Ledger(snapshot).counts[leaf]
        tasks = snapshot.tasks_of_leaf(leaf)
        cpu = snapshot.demand.request[snapshot.tasks.shape[tasks], snapshot.axis.column["cpu"]]
        return {TaskStatus(s): int(n) for s, n in enumerate(by_status) if n}, int(cpu.sum())

    made.show(member("a"), member("b"))
    assert counted() == ({TaskStatus.PENDING: 2}, 2000)
    made.show(member("a", on="n1"))
    assert counted() == ({TaskStatus.PENDING: 1, TaskStatus.RUNNING: 1}, 2000)
    made.hide(member("b"))
    assert counted() == ({TaskStatus.RUNNING: 1}, 1000)


@pytest.mark.row(68)
def test_group_events_set_replace_and_unset_the_group_of_a_job() -> None:
    made = world(OLD, group(minMember=2), member("p"))
    assert minimum(jobs(made)["team/g"]) == 2
    made.show(group(minMember=4, queue="other"))
    assert (minimum(jobs(made)["team/g"]), jobs(made)["team/g"].queue) == (4, "other")
    made.hide(group())
    assert jobs(made) == {}, "a job that nobody speaks of any more is cleaned up"
    assert made.task("p").job == "team/g", "its pods wait for it to come back"


# -- tasks ---------------------------------------------------------------------------------------


@pytest.mark.row(62)
def test_a_task_counts_its_ordinary_containers_and_its_priority_is_one() -> None:
    starts = [{"name": "load", "resources": {"requests": {"cpu": "4"}}}]
    made = world(LATER, group(), member("p", spec={"initContainers": starts}))
    task = made.task("p")
    assert task.terms is not None
    assert (task.terms.charged or {})["cpu"] == 1000, "its queue pays for what stays"
    assert task.request["cpu"] == 4000, "its node must have room for the start"
    assert task.terms.priority == 1
    made.show(member("p", spec={"priority": 7}))
    terms = made.task("p").terms
    assert terms is not None
    assert (terms.priority, terms.charged) == (7, None)


_DELETED = {"deletionTimestamp": "2099-01-01T00:00:00Z"}


@pytest.mark.row(64)
@pytest.mark.parametrize(
    ("phase", "on", "leaves", "expected"),
    [
        ("Pending", "", False, TaskStatus.PENDING),
        ("Pending", "n1", False, TaskStatus.BOUND),
        ("Pending", "", True, TaskStatus.RELEASING),
        ("Pending", "n1", True, TaskStatus.RELEASING),
        ("Running", "n1", False, TaskStatus.RUNNING),
        ("Running", "n1", True, TaskStatus.RELEASING),
        ("Succeeded", "n1", False, TaskStatus.SUCCEEDED),
        ("Succeeded", "n1", True, TaskStatus.SUCCEEDED),
        ("Failed", "n1", False, TaskStatus.FAILED),
        ("Unknown", "n1", False, TaskStatus.UNKNOWN),
    ],
)
def test_a_tasks_state_follows_from_phase_node_and_deletion(
    phase: str, on: str, leaves: bool, expected: TaskStatus
) -> None:
    body = member("p", on=on, phase=phase, metadata=_DELETED if leaves else {})
    assert world(OLD, group(), body).task("p").status is expected


# -- events --------------------------------------------------------------------------------------


@pytest.mark.row(41, 52)
def test_a_job_that_must_wait_gets_one_warning_and_nothing_else() -> None:
    async def run() -> None:
        made = world(OLD, namespace("team"), group(minMember=2), member("p"))
        async with made.writing():
            for _ in range(3):
                await made.loop.cycle()
                await asyncio.sleep(30.0)
        (event,) = made.server.events("Unschedulable")
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "g")
        assert event["source"] == {"component": "kube-batch"}
        again = [request.path for request in made.server.requests if "/events/" in request.path]
        assert again == [], "it was said once"
        assert made.server.written() == []

    virtually(run())


@pytest.mark.row(41)
def test_the_warning_of_a_budgets_job_is_on_the_budget() -> None:
    async def run() -> None:
        made = world(OLD, namespace("team"), budget("job", 2), pod("p", owner="job"))
        async with made.writing():
            await made.loop.cycle()
            await made.settle()
        (event,) = made.server.events("Unschedulable")
        about = event["involvedObject"]
        assert (about["kind"], about["name"]) == ("PodDisruptionBudget", "pdb")

    virtually(run())


@pytest.mark.row(41)
def test_to_warn_of_a_job_without_group_and_budget_is_an_error() -> None:
    made = world(LATER, pod("alone"))
    reporter = made.loop._reporter
    assert isinstance(reporter, BatchReporter)
    for job in ("team/alone", "team/none"):
        with pytest.raises(NotCached, match=f"{job} has neither a pod group nor"):
            reporter.back_off(job, "Unschedulable", "it waits")


def test_a_pod_that_stands_for_its_own_group_shows_itself_why_it_waits() -> None:
    async def run() -> None:
        large = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "99"}}}]}
        made = world(LATER, queue("default"), pod("alone", spec=large))
        async with made.writing():
            await made.loop.cycle()
            await made.settle()
        paths = [path for _, path, _ in made.server.written()]
        assert paths == ["/api/v1/namespaces/team/pods/alone/status"]

    virtually(run())


@pytest.mark.row(57)
def test_building_the_cache_starts_nothing() -> None:
    async def run() -> None:
        before = len(asyncio.all_tasks())
        made = world(LATER)
        assert made.server.requests == []
        assert len(asyncio.all_tasks()) == before
        assert made.loop.cycles == 0

    virtually(run())


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            member("p"),
            f"pod group team/g does not exist: create it, or take the annotation {GROUP}",
        ),
        (pod("p", owner="job"), f"names no pod group: name one by the annotation {GROUP}"),
    ],
)
def test_a_pod_whose_group_is_missing_is_told_in_the_words_of_the_dialect(
    body: Body, said: str
) -> None:
    async def run() -> None:
        made = world(OLD, namespace("team"), body)
        async with made.writing():
            await asyncio.sleep(60.0)
        (written,) = made.server.written("/pods/p/status")
        assert said in str(written[2])

    virtually(run())


# -- predicates ----------------------------------------------------------------------------------

_TAINT = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}
_PORT = {"name": "main", "ports": [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}]}


@pytest.mark.row(121)
@pytest.mark.parametrize(
    ("spec", "of_node"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {}),
        ({}, {"taints": [_TAINT]}),
        ({}, {"unschedulable": True}),
        ({"containers": [_PORT]}, {}),
    ],
    ids=["selector", "taint", "unschedulable", "port"],
)
def test_predicates_hold_in_the_dialect_and_have_no_switch(spec: Body, of_node: Body) -> None:
    async def run() -> None:
        made = world(OLD, namespace("team"), group(), node("n1", **of_node))
        made.show(member("there", on="n1", spec={"containers": [_PORT]}))
        made.show(member("waits", spec=spec), member("fits"))
        result = await made.loop.cycle()
        started = {bind.task for bind in result.plan.binds}
        assert started == (set() if of_node else {"fits"})

    virtually(run())


@pytest.mark.parametrize("profile", [OLD, LATER])
@pytest.mark.parametrize(
    "change",
    [{"unschedulable": True}, {"taints": [_TAINT]}, {"labels": {"disk": "hdd"}}],
    ids=["cordon", "taint", "label"],
)
def test_a_change_of_a_node_that_leaves_its_room_alone_counts_at_once(
    profile: ProfileName, change: Body
) -> None:
    """The first kube-batch heard of a node again when its allocatable amounts changed."""

    async def run() -> None:
        wants = {"nodeSelector": {"disk": "ssd"}}
        where = namespace("team") if profile is OLD else queue("team")
        made = world(profile, where, group(queue="team"))
        made.show(node("n1", labels={"disk": "ssd"}))
        made.show(node("n1", **{"labels": {"disk": "ssd"}, **change}), member("p", spec=wants))
        assert (await made.loop.cycle()).plan.binds == ()
        made.show(node("n1", labels={"disk": "ssd"}))
        assert [bind.task for bind in (await made.loop.cycle()).plan.binds] == ["p"]

    virtually(run())


def test_what_a_group_shows_already_is_not_written_again() -> None:
    """kube-batch wrote the status of every group in every cycle."""

    async def run() -> None:
        told = group(minMember=2, queue="q")
        made = world(LATER, queue("q"), told, member("p"))
        async with made.writing():
            await made.loop.cycle()
            await made.settle()
            ((_, _, patch),) = made.server.written("/podgroups/")
            made.show({**told, "status": patch["status"]}, node("n2"))
            await made.loop.cycle()
            await made.settle()
        assert len(made.server.written("/podgroups/")) == 1

    virtually(run())
