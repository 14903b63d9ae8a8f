"""The scheduler and the binder as services: their start, their bind requests, their restarts."""

import asyncio
from collections import Counter

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    CONFIG_MAP,
    EVENT,
    JOB,
    POD,
    POD_GROUP,
    RESERVATIONS,
    InWorld,
    Lab,
    Setting,
    in_lab,
)

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.transport import Request, Response, Transport
from muster.client.write import Deletion, Propagation
from muster.lab.hosting import HostedService
from muster.lab.install import NotReady
from muster.model.records import ClusterRecords
from muster.services.scheduler.loop import SchedulingLoop
from muster.sim.kubelet.nodes import Gpus, NodeGroup

TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=8)),))
ALONE = ("podgrouper", "podgroups", "queues", "admission", "scaleadjuster", "reservation")


def _loop(lab: Lab) -> SchedulingLoop:
    assert lab.product.loop is not None
    return lab.product.loop


def _service(lab: Lab, name: str) -> HostedService:
    (found,) = [service for service in lab.product.services if service.name == name]
    return found


async def _gang(lab: Lab, name: str, pods: int, gpus: int) -> None:
    """A group and its pods, made by hand: nobody else needs to run."""
    spec = {"queue": "default-queue", "minMember": pods}
    await lab.create(POD_GROUP, {"metadata": {"name": name}, "spec": spec})
    for number in range(pods):
        await lab.pod(f"{name}-{number}", gpus=gpus, annotations={"pod-group-name": name})


# -- starting ----------------------------------------------------------------------------------


class HeldList:
    """Lets a service have no list of one kind until it is opened."""

    def __init__(self, plural: str) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self._plural = plural

    def wrap(self, who: str, transport: Transport, _: Clock) -> Transport:
        return _Holding(transport, self, self._plural) if who == "scheduler" else transport


class _Holding:
    def __init__(self, inner: Transport, held: HeldList, plural: str) -> None:
        self._inner = inner
        self._held = held
        self._plural = plural

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if request.method == "GET" and request.path.endswith(f"/{self._plural}"):
            await self._held.opened.wait()
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.row(7, 38, 96, 127)
def test_the_scheduler_runs_no_cycle_before_its_informers_have_synced() -> None:
    held = HeldList("podgroups")

    async def scenario(lab: Lab) -> None:
        await lab.cluster.kill("scheduler")
        await _gang(lab, "gang", pods=4, gpus=2)
        held.opened.clear()
        supervisor = await lab.cluster.start(_service(lab, "scheduler"))  # returns at once
        await lab.clock.sleep(5.0)
        assert [reason.partition(":")[0] for reason in supervisor.readiness()] == [
            "podgroups.scheduling.run.ai"
        ]
        assert _loop(lab).cycles == 0
        held.opened.set()
        await lab.until_running("gang", 4, within_s=10.0)
        assert supervisor.readiness() == []

    in_lab(scenario, Setting(without=ALONE, wrap=held.wrap))


def test_an_installation_that_does_not_get_ready_says_what_is_missing() -> None:
    """Not for ever: a watch that does not work must not look like a slow one."""
    held = HeldList("podgroups")
    held.opened.clear()
    told = r"not ready after 400 s: scheduler: podgroups\.scheduling\.run\.ai"
    with pytest.raises(NotReady, match=told):
        in_lab(_nothing, Setting(without=ALONE, wrap=held.wrap))


async def _nothing(lab: Lab) -> None:
    raise AssertionError("nothing is ready")


@pytest.mark.row(38)
def test_a_scheduler_stopped_before_its_informers_synced_decides_nothing() -> None:
    held = HeldList("podgroups")

    async def scenario(lab: Lab) -> None:
        await lab.cluster.stop("scheduler")
        await _gang(lab, "gang", pods=4, gpus=2)
        held.opened.clear()
        await lab.cluster.start(_service(lab, "scheduler"))
        await lab.clock.sleep(1.0)
        await lab.cluster.stop("scheduler")
        assert _loop(lab).cycles == 0
        assert await lab.all(BIND_REQUEST) == []

    in_lab(scenario, Setting(without=ALONE, wrap=held.wrap))


@pytest.mark.row(35, 155, 156, 157)
def test_every_informer_of_the_scheduler_synced_and_watches() -> None:
    async def scenario(lab: Lab) -> None:
        described = lab.cluster.supervisors["scheduler"].debug["informers"]()
        assert isinstance(described, list)
        assert len(described) >= 19
        for informer in described:
            assert informer["synced"], informer
            assert informer["watches"] >= 1, informer

    in_lab(scenario, Setting(without=ALONE))


def test_the_scheduler_exports_the_metrics_of_kai() -> None:
    async def scenario(lab: Lab) -> None:
        def value(name: str, **labels: str) -> float | None:
            registry = lab.cluster.supervisors["scheduler"].registry
            return registry.get_sample_value(f"kai_{name}", labels)

        await lab.queue("team", gpus=16)
        await lab.job("low", pods=2, gpus=8, minimum=1, queue="team")
        await lab.until_running("low", 2)
        await lab.job("high", pods=1, gpus=8, queue="team", priority="build")
        await lab.until_running("high", 1)
        assert (value("podgroups_scheduled_by_action_total", action="allocate") or 0) >= 2
        assert value("podgroups_scheduled_by_action_total", action="preempt") == 1
        assert value("podgroups_acted_on_by_action_total", action="preempt") == 1
        assert (value("scenarios_simulation_by_action_total", action="preempt") or 0) >= 1
        assert value("task_bind_latency_milliseconds_count") == 3
        assert value("task_scheduling_latency_milliseconds_count") == 3
        assert (value("task_scheduling_latency_milliseconds_sum") or 0) > 0

    in_lab(scenario, TWO_NODES)


# -- deciding and handing over -----------------------------------------------------------------


@pytest.mark.row(94)
def test_the_scheduler_creates_bind_requests_and_binds_no_pod_itself() -> None:
    async def scenario(lab: Lab) -> None:
        await _gang(lab, "gang", pods=3, gpus=4)
        await lab.clock.sleep(3.0)
        requests = {one["spec"]["podName"]: one["spec"] for one in await lab.all(BIND_REQUEST)}
        assert set(requests) == {"gang-0", "gang-1", "gang-2"}
        per_node = Counter(spec["selectedNode"] for spec in requests.values())
        assert max(per_node.values()) <= 2
        assert all("nodeName" not in pod["spec"] for pod in await lab.all(POD, "default"))

    in_lab(scenario, Setting(nodes=TWO_NODES.nodes, without=(*ALONE, "binder")))


@pytest.mark.row(104, 113)
def test_without_a_binder_the_scheduler_goes_on_and_assigns_nothing_twice() -> None:
    async def scenario(lab: Lab) -> None:
        for number in range(5):
            await _gang(lab, f"job-{number}", pods=1, gpus=4)
            await lab.clock.sleep(2.0)
        requests = await lab.all(BIND_REQUEST)
        assert len(requests) == 4  # all the room there is
        per_node = Counter(one["spec"]["selectedNode"] for one in requests)
        assert set(per_node.values()) == {2}
        conditions = (await lab.get(POD_GROUP, "job-4"))["status"]["schedulingConditions"]
        assert conditions[0]["reason"] == "Unschedulable"

    in_lab(scenario, Setting(nodes=TWO_NODES.nodes, without=(*ALONE, "binder")))


@pytest.mark.row(85, 95)
def test_the_binder_executes_a_bind_request_of_any_client(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("plain")
        spec = {"podName": "plain", "selectedNode": "gpu-1", "receivedResourceType": "Regular"}
        await lab.create(BIND_REQUEST, {"metadata": {"name": "plain"}, "spec": spec})
        await lab.until_running("plain", 1)
        assert await lab.running("plain") == {"plain": "gpu-1"}
        request = await lab.get(BIND_REQUEST, "plain")
        assert request["status"]["phase"] == "Succeeded"
        pod = await lab.get(POD, "plain")
        assert pod["metadata"]["annotations"]["received-resource-type"] == "Regular"

    in_world(scenario, Setting(nodes=TWO_NODES.nodes, without=("scheduler",)))


@pytest.mark.row(85)
def test_a_failing_bind_request_is_retried_up_to_its_backoff_limit_and_reported() -> None:
    async def scenario(lab: Lab) -> None:
        for name, node in (("stuck", "no-such-node"), ("fine", "gpu-0")):
            await lab.pod(name)
            spec = {"podName": name, "selectedNode": node, "backoffLimit": 3}
            await lab.create(BIND_REQUEST, {"metadata": {"name": name}, "spec": spec})
        await lab.until_running("fine", 1, within_s=5.0)  # it does not wait for the other

        async def failed() -> bool:
            status = (await lab.get(BIND_REQUEST, "stuck")).get("status", {})
            return bool(status.get("phase") == "Failed")

        await lab.until(failed)
        status = (await lab.get(BIND_REQUEST, "stuck"))["status"]
        assert status["failedAttempts"] == 3
        assert "no-such-node" in status["reason"]
        conditions = (await lab.get(POD, "stuck"))["status"]["conditions"]
        assert ("PodBound", "BindingError") in {(one["type"], one["reason"]) for one in conditions}
        told = {one["message"]: one["count"] for one in await lab.all(EVENT)}
        why = "node no-such-node does not exist"
        text = f"Failed to bind pod default/stuck to node no-such-node: {why}"
        assert told[f"{text} (will be tried again)"] == 2
        assert told[text] == 1

    in_lab(scenario, Setting(nodes=TWO_NODES.nodes, without=(*ALONE, "scheduler")))


@pytest.mark.row(104)
def test_a_failed_bind_request_is_replaced_by_a_new_one() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.cluster.kill("binder")
        await _gang(lab, "job", pods=1, gpus=8)
        await lab.clock.sleep(2.0)
        (before,) = await lab.all(BIND_REQUEST)
        failed = {"status": {"phase": "Failed", "failedAttempts": 3, "reason": "as told"}}
        await lab.cluster.writer.patch(
            BIND_REQUEST, Key("default", "job-0"), failed, subresource="status"
        )
        unbound = {"type": "PodBound", "status": "False", "reason": "BindingError"}
        unbound["lastTransitionTime"] = "2020-01-01T00:00:00Z"
        await lab.cluster.writer.patch(
            POD,
            Key("default", "job-0"),
            {"status": {"conditions": [unbound]}},
            subresource="status",
        )
        await lab.clock.sleep(13.0)  # it is held back for ten
        (after,) = await lab.all(BIND_REQUEST)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        await lab.cluster.start(_service(lab, "binder"))
        await lab.until_running("job", 1)

        async def says_so() -> bool:
            """What was said of the attempt that failed does not stay."""
            conditions = (await lab.get(POD, "job-0"))["status"]["conditions"]
            return ("PodBound", "True", "Bound") in {
                (one["type"], one["status"], one.get("reason")) for one in conditions
            }

        await lab.until(says_so)

    in_lab(scenario, Setting(nodes=TWO_NODES.nodes, without=ALONE))


@pytest.mark.row(108)
def test_a_reservation_pod_holds_a_device_and_announces_its_uuid(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-fraction": "0.5"})
        await lab.until_running("share", 1)
        (reservation,) = await lab.all(POD, RESERVATIONS)
        (container,) = reservation["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        share = await lab.get(POD, "share")
        assert reservation["spec"]["nodeName"] == share["spec"]["nodeName"]
        group = share["metadata"]["labels"]["runai-gpu-group"]
        assert reservation["metadata"]["labels"]["runai-gpu-group"] == group
        device = reservation["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
        given = [
            one["data"]["NVIDIA_VISIBLE_DEVICES"]
            for one in await lab.all(CONFIG_MAP, "default")
            if "NVIDIA_VISIBLE_DEVICES" in (one.get("data") or {})
        ]
        assert given == [device]

    in_world(scenario, TWO_NODES)


# -- what is kept ------------------------------------------------------------------------------


@pytest.mark.row(1)
def test_a_restarted_scheduler_sees_the_same_cluster_and_decides_nothing_new() -> None:
    """Work that runs, waits, leaves and is on its way; nothing of it is in memory only."""

    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await lab.queue("b", gpus=8)
        for number in range(16):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 16)
        await lab.job("owed", pods=1, gpus=8, queue="b")
        await lab.until_running("owed", 1)
        await lab.job("waits", pods=2, gpus=8, queue="b")
        await lab.laptop.settled()
        before = _loop(lab)
        await lab.cluster.kill("scheduler")
        await lab.cluster.start(_service(lab, "scheduler"))
        await lab.clock.sleep(5.0)
        after = _loop(lab)
        assert after is not before
        assert _seen(after) == _seen(before)
        assert after.last is not None
        assert not after.last[1].plan.binds
        assert not after.last[1].plan.evictions

    in_lab(scenario, TWO_NODES)


def _seen(loop: SchedulingLoop) -> dict[str, object]:
    """The newest snapshot, whatever the order in which it was told."""
    assert loop.last is not None
    records: ClusterRecords = loop.last[0].to_records()
    return {
        "nodes": sorted(records.nodes, key=lambda one: one.name),
        "tasks": sorted(records.tasks, key=lambda one: one.uid),
        "jobs": sorted(records.jobs, key=lambda one: one.key),
        "queues": sorted(records.queues, key=lambda one: one.name),
    }


@pytest.mark.row(2)
def test_the_scheduler_writes_decisions_conditions_and_events_and_nothing_else() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await lab.queue("b", gpus=8)
        for number in range(16):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 16)
        await lab.job("owed", pods=1, gpus=8, queue="b")
        await lab.until_running("owed", 1)
        await lab.job("waits", pods=2, gpus=8, queue="b")
        await lab.laptop.settled()
        await lab.cluster.writer.delete(
            JOB, Key("default", "owed"), Deletion(propagation=Propagation.BACKGROUND)
        )
        await lab.laptop.settled()
        written = {
            (line.method, _place(line.path))
            for line in lab.laptop.write_log
            if line.who == "scheduler"
        }
        assert written == {
            ("POST", "bindrequests"),
            ("POST", "pods/eviction"),
            ("PATCH", "pods/status"),
            ("PATCH", "podgroups"),
            ("PATCH", "podgroups/status"),
            ("PATCH", "queues/status"),
            ("POST", "events"),
        }

    in_lab(scenario, TWO_NODES)


def _place(path: str) -> str:
    """The resource of a path, with its subresource."""
    _, is_in_namespace, rest = path.partition("/namespaces/")
    parts = rest.split("/")[1:] if is_in_namespace else path.split("/")[4:]
    return "/".join(part for at, part in enumerate(parts) if at != 1)


@pytest.mark.row(84)
def test_allocate_reclaim_and_preempt_work_one_after_another(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await lab.queue("b", gpus=8)
        for number in range(16):
            await lab.pod(f"low-{number:02}", gpus=1, queue="a", priority="train")
        await lab.until_running("low", 16)  # allocate
        await lab.job("owed", pods=1, gpus=8, queue="b", priority="train")
        await lab.until_running("owed", 1)  # reclaim
        await lab.job("urgent", pods=1, gpus=4, queue="a", priority="build")
        await lab.until_running("urgent", 1)  # preempt
        for words in ("preempted by workload", "preempted by higher priority workload"):

            async def is_told(words: str = words) -> bool:
                return any(words in text for text in await lab.messages("Evict"))

            await lab.until(is_told, why=words)  # events are written behind what they tell of

    in_world(scenario, TWO_NODES)
