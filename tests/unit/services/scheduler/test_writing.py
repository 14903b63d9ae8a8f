"""What the scheduler writes, in which order, and what it does when a write fails."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.lab import BY_REQUEST
from tests.support.scheduler_world import (
    FakeServer,
    SchedulerWorld,
    group,
    node,
    pod,
    queue,
    request,
    told,
)
from tests.support.scripted import Answer, refused
from tests.support.virtual_time import virtually

from muster.api.bindrequest import NUMAZone
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.quantity import Quantity
from muster.client.errors import Unreachable
from muster.client.transport import Request
from muster.engine.plan import Bind, Evict
from muster.model.charges import Charge
from muster.model.records import GpuRequest
from muster.model.status import TaskStatus
from muster.services.scheduler.evictor import Evicted
from muster.services.scheduler.options import BindRequests, Options

POOL = "kai.scheduler/node-pool"
REQUESTS = "/apis/scheduling.run.ai/v1alpha2/namespaces/team/bindrequests"
PODS = "/api/v1/namespaces/team/pods"


def failing(method: str, part: str, answer: Answer | Exception, times: int = 1) -> Any:
    """A reaction that refuses the first so many requests of a kind."""
    left = times

    def react(asked: Request) -> Answer | Exception | None:
        nonlocal left
        if left and asked.method == method and part in asked.path:
            left -= 1
            return answer
        return None

    return react


def waiting(world: SchedulerWorld, **more: Any) -> None:
    """One pod of two GPUs, with room for it."""
    world.show(node("n1"), queue(), group("p"), pod("p", gpus=2, **more))


# -- binding -----------------------------------------------------------------------------------


@pytest.mark.row(23, 94)
def test_a_decision_is_one_bind_request_and_an_event() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", labels={POOL: "a"}), queue(labels={POOL: "a"}))
        world.show(group("p", metadata={"labels": {POOL: "a"}}), pod("p", gpus=2))
        await world.loop.cycle()

    world = told(scenario, replace(BY_REQUEST, shard="a"))
    ((method, path, body),) = world.server.written("/bindrequests")
    assert (method, path) == ("POST", REQUESTS)
    assert body["metadata"]["name"] == "p"
    assert body["metadata"]["labels"] == {"selected-node": "n1", POOL: "a"}
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "p", "p")
    spec = body["spec"]
    assert (spec["podName"], spec["selectedNode"]) == ("p", "n1")
    assert spec["receivedResourceType"] == "Regular"
    assert spec["receivedGPU"] == {"count": 2, "portion": "1.00"}
    ((_, _, label),) = world.server.written(f"{PODS}/p")
    assert label == {"metadata": {"labels": {POOL: "a"}, "uid": "p"}}
    (event,) = world.server.events("Scheduled")
    assert event["message"] == "Successfully assigned pod team/p to node n1 at node-pool a"


@pytest.mark.row(23)
def test_the_bind_request_of_a_gpu_share_names_its_gpu_group_and_portion() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.show(pod("p", gpus=0, annotations={"gpu-fraction": "0.5"}))
        await world.loop.cycle()

    spec = told(scenario).server.written("/bindrequests")[0][2]["spec"]
    assert spec["receivedResourceType"] == "Fraction"
    assert spec["receivedGPU"] == {"count": 1, "portion": "0.50"}
    assert len(spec["selectedGPUGroups"]) == 1


@pytest.mark.row(23)
def test_pending_status_updates_of_a_pod_are_cancelled_when_it_is_bound() -> None:
    async def scenario() -> None:
        world = SchedulerWorld()
        world.show(queue(), group("p"), pod("p", gpus=2))
        await world.loop.cycle()  # no node: the pod is to be told
        world.show(node("n1"))
        await world.loop.cycle()
        async with world.writing():
            await world.settle()
        assert len(world.server.written("/bindrequests")) == 1
        assert world.server.written(PODS) == []

    virtually(scenario())


@pytest.mark.row(23)
def test_a_refused_bind_request_is_an_event_and_a_condition() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.server.react = failing("POST", "/bindrequests", refused(403, "Forbidden", "no"))
        await world.loop.cycle()

    world = told(scenario)
    event, about_group = world.server.events("FailedBinding")
    assert about_group["involvedObject"]["kind"] == "PodGroup"
    assert about_group["message"].startswith("Binding was refused and is tried again in ")
    assert event["type"] == "Warning"
    assert event["message"].startswith("Failed to bind pod team/p to node n1. ")
    ((_, _, body),) = world.server.written(f"{PODS}/p/status")
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (condition["reason"], condition["message"]) == ("BindingError", event["message"])


def test_bind_requests_of_a_gang_are_all_created_or_all_withdrawn() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=3))
        for name in ("a", "b", "c"):
            world.show(pod(name, group="g"))
            world.server.stored[f"{PODS}/{name}"] = pod(name, group="g")
        world.server.react = failing("POST", "/bindrequests", refused(403, "Forbidden", "no"))
        await world.loop.cycle()
        await world.binder_has_heard()
        assert set(world.statuses().values()) == {TaskStatus.PENDING}

    world = told(scenario)
    removed = {path for method, path, _ in world.server.written() if method == "DELETE"}
    # That of the first was never made.
    assert removed == {f"{REQUESTS}/{name}" for name in ("b", "c")}


def test_a_withdrawn_bind_stays_assumed_for_the_binder_lag() -> None:
    """It may be late, and bind one pod of a gang that is about to be decided anew."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2))
        for name in ("a", "b"):
            world.show(pod(name, gpus=4, group="g"))
            world.server.stored[f"{PODS}/{name}"] = pod(name, gpus=4, group="g")

        def refuse_one(asked: Request) -> Answer | None:
            is_second = asked.method == "POST" and b'"podName":"b"' in asked.body
            return refused(403, "Forbidden", "no") if is_second else None

        world.server.react = refuse_one
        await world.loop.cycle()
        world.show(request("a", "n1"))
        await world.settle()
        world.hide(request("a", "n1"))
        assert world.task("a").status is TaskStatus.BINDING
        world.server.stored[f"{PODS}/a"] = pod("a", gpus=4, group="g", node="n1")
        await world.binder_has_heard()
        assert world.task("a").status is TaskStatus.BINDING
        assert world.task("b").status is TaskStatus.PENDING
        assert world.idle_gpus() == {"n1": 4000}

    told(scenario)


@pytest.mark.row(34)
def test_the_same_session_makes_the_same_writes() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), node("n2"), queue())
        for name in ("a", "b", "c", "d"):
            created = {"creationTimestamp": f"2023-01-01T00:00:0{ord(name) - 97}Z"}
            world.show(group(name, metadata=created), pod(name, gpus=5, metadata=created))
        await world.loop.cycle()

    writes = [sorted(map(str, told(scenario).server.written())) for _ in range(2)]
    assert writes[0] == writes[1]
    assert sum("bindrequests" in one for one in writes[0]) == 2


class NoteBinder:
    """Binds nothing and writes down what it was asked."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}

    async def bind(
        self, pod: Pod, bind: Bind, gpu: GpuRequest, charge: Charge | None = None
    ) -> None:
        self.bound[str(pod.key)] = bind.node

    async def delete(self, request: Key, uid: str) -> bool:
        raise AssertionError("nothing failed")

    async def withdraw(self, pod: Key, pod_uid: str, node: str) -> bool:
        raise AssertionError("nothing failed")


class NoteEvictor:
    """Evicts nothing and writes down what it was asked."""

    def __init__(self) -> None:
        self.evicted: list[str] = []

    async def evict_for(self, actor: str, victims: Any, plan: int, standings: Any) -> Evicted:
        self.evicted += [evict.task for evict in victims]
        return Evicted(list(victims))


@pytest.mark.row(42, 43, 147)
def test_binder_and_evictor_can_be_replaced_and_nothing_else_writes_decisions() -> None:
    binder, evictor = NoteBinder(), NoteEvictor()

    async def scenario(world: SchedulerWorld) -> None:
        committer: Any = world.loop._committer
        committer._binder, committer._evictor = binder, evictor
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=2))
        stale = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}
        world.show(group("old", minimum=2, metadata=stale), pod("o", group="old", node="n1"))
        await world.loop.cycle()

    world = told(scenario)
    assert binder.bound == {"team/p": "n1"}
    assert evictor.evicted == ["o"]
    assert {path for method, path, _ in world.server.written() if method != "PATCH"} == set()


@pytest.mark.row(39)
def test_a_pod_counts_as_binding_while_its_bind_request_is_being_written() -> None:
    """Room is given once, however long the API server thinks about it."""

    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        async with held(world, "POST", "/bindrequests") as asked:
            await asked.wait()
            assert (world.task("p").status, world.task("p").node) == (TaskStatus.BINDING, "n1")
            assert world.idle_gpus() == {"n1": 6000}
            world.show(group("q"), pod("q", gpus=7))  # intake goes on meanwhile
            assert world.task("q").status is TaskStatus.PENDING

    told(scenario)


@pytest.mark.row(40)
def test_a_victim_counts_as_releasing_while_its_eviction_is_being_written() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "o")
        async with held(world, "POST", "/eviction") as asked:
            await asked.wait()
            assert world.task("o").status is TaskStatus.RELEASING
            snapshot = world.snapshot()
            assert snapshot.nodes.releasing[0, snapshot.axis.column["gpu"]] == 1000

    ((_, _, body),) = told(scenario).server.written("/eviction")
    assert "gracePeriodSeconds" not in (body.get("deleteOptions") or {}), "the pod's own grace"


@asynccontextmanager
async def held(world: SchedulerWorld, method: str, part: str) -> AsyncIterator[asyncio.Event]:
    """A cycle one of whose writes gets no answer while the block lasts; set when it is asked."""
    asked, gate = asyncio.Event(), asyncio.Event()
    transport: Any = world.supervisor.connection._transport
    handle = transport._handle

    async def slow(request: Request) -> Any:
        if request.method == method and part in request.path:
            asked.set()
            await gate.wait()
        return await handle(request)

    transport._handle = slow
    cycle = asyncio.create_task(world.loop.cycle())
    yield asked
    gate.set()
    await cycle


# -- a write that failed -----------------------------------------------------------------------

LOST = Unreachable("connection reset")


@pytest.mark.row(39, 54, 73, 75, 163)
def test_a_pod_whose_write_failed_stays_assumed_until_it_is_reconciled_with_the_server() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.server.stored[f"{PODS}/p"] = pod("p", gpus=2)
        away = failing("POST", "/bindrequests", LOST), failing("GET", "/bindrequests", LOST)
        world.server.react = lambda asked: away[0](asked) or away[1](asked)
        await world.loop.cycle()
        await world.settle()
        assert world.task("p").status is TaskStatus.BINDING
        await world.binder_has_heard()
        assert world.task("p").status is TaskStatus.PENDING
        assert world.idle_gpus() == {"n1": 8000}

    told(scenario)


@pytest.mark.row(75, 163)
def test_a_bind_whose_response_was_lost_stays_assumed_until_confirmed() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.server.stored[f"{PODS}/p"] = pod("p", gpus=2, node="n1")
        world.server.react = failing("POST", "/binding", LOST)
        await world.loop.cycle()
        await world.settle()
        assert (world.task("p").status, world.task("p").node) == (TaskStatus.BINDING, "n1")
        world.show(pod("p", gpus=2, node="n1"))
        assert world.task("p").status is TaskStatus.RUNNING

    told(scenario, Options(bind_requests=BindRequests.NEEDED))


@pytest.mark.row(75)
def test_an_assumed_pod_that_the_server_no_longer_has_is_removed() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.server.react = failing("POST", "/bindrequests", LOST)
        await world.loop.cycle()
        await world.binder_has_heard()
        assert world.statuses() == {}
        assert world.idle_gpus() == {"n1": 8000}

    told(scenario)


@pytest.mark.row(54, 75, 165)
def test_reconciling_with_the_server_backs_off_and_runs_once_at_a_time() -> None:
    tries: list[float] = []

    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)

        def react(asked: Request) -> Exception | None:
            if asked.method == "GET":
                tries.append(world.clock.monotonic_s())
            return LOST

        world.server.react = react
        await world.loop.cycle()
        for _ in range(3):
            world.loop._committer._resync.withdraw("p", "n1")
        await world.clock.sleep(20.0)

    told(scenario)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert len(pauses) >= 5
    assert all(later > 1.5 * earlier for earlier, later in itertools.pairwise(pauses))


@pytest.mark.row(104, 113)
def test_a_failed_bind_request_is_deleted_and_its_pod_scheduled_again() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        failed = request("p", "n1", status={"phase": "Failed", "failedAttempts": 3})
        world.show(failed)
        await world.loop.cycle()

    writes = told(scenario).server.written("/bindrequests")
    assert [method for method, _, _ in writes].count("DELETE") == 1
    assert [method for method, _, _ in writes].count("POST") == 1


def left_there(world: SchedulerWorld, node: str, **more: Any) -> dict[str, Any]:
    """A bind request of the pod that the watch has not shown yet."""
    left = request("p", node, **more)
    metadata = {**left["metadata"], "uid": "left", "resourceVersion": "7"}
    world.server.stored[f"{REQUESTS}/p"] = {**left, "metadata": metadata}
    world.server.react = failing("POST", "/bindrequests", refused(409, "AlreadyExists"))
    return left


def owned_by(uid: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}]}


def test_a_bind_request_that_another_scheduler_made_is_left_alone() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        world.show(node("n2", gpus=1))
        world.server.stored[f"{PODS}/p"] = pod("p", gpus=2)
        left = left_there(world, "n2", metadata=owned_by("p"))
        await world.loop.cycle()
        world.show(left)
        await world.binder_has_heard()
        assert (world.task("p").status, world.task("p").node) == (TaskStatus.BINDING, "n2")

    world = told(scenario)
    assert [method for method, _, _ in world.server.written("/bindrequests")] == ["POST"]
    assert world.server.events("Scheduled") == []


def test_a_bind_request_that_says_what_we_decided_counts_as_made() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        left_there(world, "n1", metadata=owned_by("p"))
        await world.loop.cycle()
        await world.settle()
        assert (world.task("p").status, world.task("p").node) == (TaskStatus.BINDING, "n1")

    world = told(scenario)
    assert [method for method, _, _ in world.server.written("/bindrequests")] == ["POST"]
    assert len(world.server.events("Scheduled")) == 1


_ALLOCATED = {
    "name": "gpu",
    "allocation": {
        "devices": {"results": [{"driver": "d", "pool": "n1", "device": "x", "request": "gpu"}]}
    },
}


@pytest.mark.parametrize(
    "other",
    [
        {"selectedGPUGroups": ["another"]},
        {"resourceClaimAllocations": [_ALLOCATED]},
        {"extendedResourceClaimAllocation": {"allocation": _ALLOCATED["allocation"]}},
    ],
    ids=["of a shared GPU", "of a claim", "of a device class"],
)
def test_a_bind_request_for_the_same_node_with_other_devices_is_left_alone(
    other: dict[str, Any],
) -> None:
    """Another scheduler made it: what it gave is given, and not what we decided."""

    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        left_there(world, "n1", metadata=owned_by("p"), **other)
        await world.loop.cycle()

    world = told(scenario)
    assert [method for method, _, _ in world.server.written("/bindrequests")] == ["POST"]
    assert world.server.events("Scheduled") == []


@pytest.mark.parametrize(
    ("owner", "node_of_request", "is_withdrawn"),
    [("p", "n1", True), ("a later pod", "n1", False), ("p", "n2", False)],
    ids=["ours", "of a later pod of that name", "for another node"],
)
def test_only_the_request_for_that_very_pod_and_node_is_withdrawn(
    owner: str, node_of_request: str, is_withdrawn: bool
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        left_there(world, node_of_request, metadata=owned_by(owner))
        binder = world.loop._committer._binder
        assert await binder.withdraw(Key("team", "p"), "p", "n1") is is_withdrawn

    assert len(told(scenario).server.written("/bindrequests")) == int(is_withdrawn)


@pytest.mark.parametrize(
    "over",
    [
        {"metadata": owned_by("an earlier pod")},
        {"metadata": owned_by("p"), "status": {"phase": "Failed"}},
    ],
    ids=["of an earlier pod", "failed"],
)
def test_a_bind_request_that_is_over_is_replaced_by_its_uid(over: dict[str, Any]) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        left_there(world, "n1", **over)
        await world.loop.cycle()

    writes = told(scenario).server.written("/bindrequests")
    assert [method for method, _, _ in writes] == ["POST", "DELETE", "POST"]
    assert writes[1][2]["preconditions"] == {"uid": "left"}


@pytest.mark.row(11)
def test_stale_bind_requests_are_deleted_concurrently() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"))
        for number in range(5):
            world.show(request(f"p{number}", "n1", status={"phase": "Failed"}, backoffLimit=0))
        gate = asyncio.Event()
        handle = world.server.handle

        async def slow(asked: Request) -> Any:
            if asked.method == "DELETE":
                world.server.requests.append(asked)
                await gate.wait()
                world.server.requests.remove(asked)
            return await handle(asked)

        world.supervisor.connection._transport._handle = slow  # type: ignore[attr-defined]
        cycle = asyncio.create_task(world.loop.cycle())
        await world.settle()
        assert len(world.server.written("/bindrequests")) == 5
        gate.set()
        await cycle

    told(scenario)


# -- evicting ----------------------------------------------------------------------------------


def stale_gang(world: SchedulerWorld, *pods: str) -> None:
    """Below its minimum for longer than its grace: to be evicted."""
    stale = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}
    world.show(node("n1"), queue(), group("old", minimum=3, metadata=stale))
    for name in pods:
        world.show(pod(name, group="old", node="n1"))


@pytest.mark.row(6, 151)
@pytest.mark.parametrize(
    ("options", "writes"),
    [
        (Options(), [("PATCH", "/status"), ("POST", "/eviction")]),
        (Options(evicts_by_deletion=True), [("PATCH", "/status"), ("DELETE", "")]),
        (
            Options(evicts_by_deletion=True, marks_evicted_pods=False),
            [("DELETE", "")],
        ),
    ],
    ids=["eviction", "deletion", "deletion without a mark"],
)
@pytest.mark.parametrize("is_marked_before", [False, True])
def test_a_victim_gets_its_disruption_condition_before_it_is_evicted(
    options: Options, writes: list[tuple[str, str]], is_marked_before: bool
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "o")
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        if is_marked_before:
            world.show(pod("o", group="old", node="n1", status={"conditions": [mark]}))
        await world.loop.cycle()

    found = told(scenario, options).server.written(f"{PODS}/o")
    assert [(method, path.removeprefix(f"{PODS}/o")) for method, path, _ in found] == writes
    if options.marks_evicted_pods:
        (condition,) = found[0][2]["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
        assert condition["reason"] == "PreemptionByScheduler"
        assert "minimum required number of pods" in condition["message"]


@pytest.mark.row(151)
def test_a_victim_without_its_disruption_condition_is_not_evicted() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "o")
        world.server.react = failing("PATCH", "/pods/o/status", refused(500, "InternalError"))
        world.server.stored[f"{PODS}/o"] = pod("o", group="old", node="n1")
        await world.loop.cycle()
        await world.settle()
        assert world.task("o").status is TaskStatus.RUNNING

    found = told(scenario).server.written(f"{PODS}/o")
    assert [path for _, path, _ in found] == [f"{PODS}/o/status"]


@pytest.mark.row(25)
def test_a_pod_that_has_ended_or_gone_is_not_evicted() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "stays", "ends", "fails", "goes")
        evictor: Any = world.loop._committer._evictor
        victims = [
            Evict(name, "team/old", "n1", "reclaim", "team/actor")
            for name in ("ends", "fails", "goes", "stays")
        ]
        world.show(pod("ends", group="old", node="n1", phase="Succeeded"))
        world.show(pod("fails", group="old", node="n1", phase="Failed"))
        world.hide(pod("goes", group="old"))
        evicted = await evictor.evict_for("team/actor", victims, 0)
        assert ([evict.task for evict in evicted.gone], evicted.refused) == (["stays"], None)

    paths = {path for _, path, _ in told(scenario).server.written(PODS)}
    assert paths == {f"{PODS}/stays/status", f"{PODS}/stays/eviction"}


@pytest.mark.row(26, 40)
def test_each_eviction_is_told_to_pod_group_and_owner_with_rule_queue_and_job() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, *victims)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "mine", "uid": "mine-uid"}
        victim_group = group("old", minimum=len(victims) + 1)
        victim_group["metadata"]["ownerReferences"] = [owner]
        actor_group = group("actor", queue="owed")
        actor_group["metadata"]["ownerReferences"] = [{**owner, "name": "theirs"}]
        world.show(victim_group, actor_group)
        evictor: Any = world.loop._committer._evictor
        evicts = [Evict(name, "team/old", "n1", "reclaim", "team/actor") for name in victims]
        await evictor.evict_for("team/actor", evicts, 0)

    victims = [f"v{at:02}" for at in range(12)]
    world = told(scenario)
    events = world.server.events("Evict")
    messages = {
        f"Pod team/{name} was preempted by workload team/actor. Reclaim (its queue is owed what "
        "others borrow): the room is for Job team/theirs of queue owed."
        for name in victims
    }
    for kind, name in (("PodGroup", "old"), ("Job", "mine")):
        about = [e for e in events if e["involvedObject"]["kind"] == kind]
        assert {event["involvedObject"]["name"] for event in about} == {name}
        assert {event["message"] for event in about} == messages
        assert len(about) == len(messages)  # none is folded into another
    assert len([e for e in events if e["involvedObject"]["kind"] == "Pod"]) == len(victims)
    for event in events:
        assert event["type"] == "Normal"
        assert event["metadata"]["annotations"] == {
            "num-evicted-pods": "12",
            "evictor-action-type": "reclaim",
            "evictor-pod-group-name": "actor",
            "evictor-pod-group-namespace": "team",
        }


@pytest.mark.row(25)
def test_evicted_pods_are_counted_in_a_metric() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "a", "b")
        await world.loop.cycle()

    registry = told(scenario).supervisor.registry
    labels = {
        "podgroup": "old",
        "namespace": "team",
        "uid": "group-old",
        "nodepool": "default",
        "action": "stalegangeviction",
    }
    assert registry.get_sample_value("kai_pod_group_evicted_pods_total", labels) == 2


@pytest.mark.row(40, 163)
@pytest.mark.parametrize(
    ("deletion", "status"),
    [({}, TaskStatus.RUNNING), ({"deletionTimestamp": "2023-11-14T22:13:20Z"}, "leaves")],
    ids=["it was not done", "it was done"],
)
def test_after_an_eviction_without_a_response_the_pod_is_reconciled_with_the_server(
    deletion: dict[str, str], status: object
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "o")
        world.server.react = failing("POST", "/eviction", LOST)
        found = pod("o", group="old", node="n1", metadata=deletion)
        world.server.stored[f"{PODS}/o"] = found
        await world.loop.cycle()
        await world.settle()
        expected = TaskStatus.RELEASING if status == "leaves" else status
        assert world.task("o").status is expected

    told(scenario)


@pytest.mark.row(6)
def test_a_disruption_budget_that_refuses_ends_the_evictions_of_the_gang() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        stale_gang(world, "a", "b")
        cause = {"reason": "DisruptionBudget", "message": "the budget needs 2 healthy pods"}
        answer = refused(429, "TooManyRequests", "budget", causes=[cause])
        world.server.react = failing("POST", "/eviction", answer)
        await world.loop.cycle()
        assert set(world.statuses().values()) == {TaskStatus.RUNNING}

    evictions = told(scenario).server.written("/eviction")
    assert len(evictions) == 1


# -- cycles ------------------------------------------------------------------------------------


@pytest.mark.row(8)
def test_a_cycle_whose_snapshot_fails_is_skipped_and_the_next_one_runs() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        cache: Any = world.cache
        taken, cache.snapshot = cache.snapshot, _fails
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(2.5)
        assert world.server.written() == []
        assert world.log.messages().count("cycle failed") >= 2
        cache.snapshot = taken
        await world.clock.sleep(1.5)
        assert len(world.server.written("/bindrequests")) == 1
        world.loop.stop()
        await running

    told(scenario)


def _fails(_: float) -> None:
    raise RuntimeError("no snapshot")


@pytest.mark.row(130)
@pytest.mark.parametrize("period_s", [1.0, 0.25])
def test_cycles_start_at_most_once_per_period_and_only_after_a_change(
    period_s: float,
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        running = asyncio.create_task(world.loop.run())
        for number in range(40):  # something every 50 ms, for two seconds
            world.show(node(f"n{number}"))
            await world.clock.sleep(0.05)
        busy = world.loop.cycles
        await world.clock.sleep(60.0)
        idle = world.loop.cycles - busy
        assert 1.5 / period_s <= busy <= 2.0 / period_s + 1
        assert idle <= 1
        world.loop.stop()
        await running

    told(scenario, replace(BY_REQUEST, schedule_period_s=period_s))


@pytest.mark.row(130)
def test_a_cycle_begins_a_period_after_the_last_one_whatever_is_still_being_written() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        inside, most = 0, 0
        handle = world.server.handle
        begun_s: list[float] = []

        async def slow(asked: Request) -> Any:
            nonlocal inside, most
            if "/bindrequests" in asked.path:
                begun_s.append(world.clock.monotonic_s() - started_s)
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(3.0)
                inside -= 1
            return await handle(asked)

        world.supervisor.connection._transport._handle = slow  # type: ignore[attr-defined]
        world.show(queue(), node("n1"))
        started_s = world.clock.monotonic_s()
        running = asyncio.create_task(world.loop.run())
        for number in range(4):
            own = {"namespace": f"team-{number}"}  # where writes take long they wait for each other
            name, its = f"p{number}", f"g{number}"
            world.show(group(its, metadata=own), pod(name, group=its, metadata=own))
            await world.clock.sleep(1.5)
        await world.clock.sleep(10.0)
        assert len(world.server.written("/bindrequests")) == 4
        assert most == 2  # of two cycles: a write takes as long as two of them
        assert begun_s == pytest.approx([0.0, 2.0, 3.0, 5.0])
        world.loop.stop()
        await running

    told(scenario)


@pytest.mark.row(150)
def test_a_direct_binding_has_the_uid_the_annotations_and_the_node() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        waiting(world, annotations={"team": "vision", "received-resource-type": "old"})
        await world.loop.cycle()

    ((method, path, body),) = told(
        scenario, Options(bind_requests=BindRequests.NEEDED)
    ).server.written("/binding")
    assert (method, path) == ("POST", f"{PODS}/p/binding")
    assert body["metadata"] == {
        "name": "p",
        "namespace": "team",
        "uid": "p",
        "annotations": {
            "pod-group-name": "p",
            "team": "vision",
            "received-resource-type": "Regular",
        },
    }
    assert (body["target"]["kind"], body["target"]["name"]) == ("Node", "n1")


def test_a_pod_about_which_plugins_have_something_to_say_is_not_bound_directly() -> None:
    """The binder writes down NUMA zones, and claims the devices of resources asked for by name."""

    async def scenario(world: SchedulerWorld) -> None:
        waiting(world)
        binder: Any = world.loop._committer._binder
        pod = world.cache.pod("p")
        zones = (NUMAZone(zone="node-0", amount={"cpu": Quantity("2")}),)
        for details in ({}, {"predictedNUMAZones": zones}):
            await binder.bind(pod, Bind("p", "team/p", "n1", (), details), GpuRequest())

    written = told(scenario, Options(bind_requests=BindRequests.NEEDED)).server.written()
    assert [path for _, path, _ in written] == [f"{PODS}/p/binding", REQUESTS]


@pytest.mark.row(19)
def test_slow_status_writes_do_not_block_a_cycle() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), group("p"), pod("p", gpus=2))  # and no node
        never = asyncio.Event()

        async def stuck(asked: Request) -> Any:
            world.server.requests.append(asked)
            await never.wait()

        world.supervisor.connection._transport._handle = stuck  # type: ignore[attr-defined]
        before_s = world.clock.monotonic_s()
        for _ in range(3):
            await world.loop.cycle()
        assert world.clock.monotonic_s() == before_s
        await world.settle()
        assert world.server.requests != []

    told(scenario)


# -- the service as a whole --------------------------------------------------------------------


@pytest.mark.row(5)
def test_the_service_is_built_without_any_request() -> None:
    world = SchedulerWorld()
    assert isinstance(world.server, FakeServer)
    assert world.server.requests == []
    kinds = set(world.supervisor.made)
    assert {"Pod", "Node", "PodGroup", "Queue", "BindRequest"} <= kinds


@pytest.mark.row(35, 138, 140, 155, 156, 157)
def test_every_kind_that_a_session_reads_has_an_informer() -> None:
    assert set(SchedulerWorld().supervisor.made) == {
        "Pod",
        "Node",
        "PodGroup",
        "Queue",
        "BindRequest",
        "PriorityClass",
        "Topology",
        "Namespace",
        "ConfigMap",
        "PodDisruptionBudget",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "ResourceClaim",
        "ResourceSlice",
        "DeviceClass",
    }
