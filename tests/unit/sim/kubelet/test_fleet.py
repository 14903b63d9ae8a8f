"""Kubelets at work on an API server in this process, under virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from muster.api.meta import Key
from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import NotFound
from muster.client.kinds import plain_kind
from muster.client.read import Reader, Selection
from muster.client.write import Deletion, Writer
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.apiserver.app import ApiServer, Parts
from muster.sim.kubelet.fleet import LEASE_NAMESPACE, Fleet
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import CRASHES, PULL, RUN_TIME, STOP_DELAY

POD = plain_kind("", "v1", "Pod", "pods")
NODE = plain_kind("", "v1", "Node", "nodes", namespaced=False)
LEASE = plain_kind("coordination.k8s.io", "v1", "Lease", "leases")
EVENT = plain_kind("", "v1", "Event", "events")
CONFIG_MAP = plain_kind("", "v1", "ConfigMap", "configmaps")
GROUP = NodeGroup("n", count=2, cpu="4", gpus=Gpus(count=2))


class FleetHarness:
    """A server, a fleet on it, and hands to work with."""

    def __init__(self, clock: LoopClock) -> None:
        log = Log("test", MemorySink(), Level.ERROR)
        self.clock = clock
        self.server = ApiServer(Parts(clock=clock, log=log))
        connection = Connection(self.server, clock, Rand(1))
        self.reader, self.writer = Reader(connection), Writer(connection)
        self.fleet = Fleet(self.reader, self.writer, [GROUP], clock=clock, log=log, tells=True)
        self._task = asyncio.create_task(self.fleet.run())

    async def pod(self, name: str, node: str = "n-0", **changed: Any) -> Key:
        notes = changed.pop("notes", {})
        resources = {"requests": changed.pop("requests", {})}
        container = {"name": "main", "image": "x", "resources": resources}
        container |= changed.pop("container", {})
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]} | changed
        await self.writer.create(
            POD, {"metadata": {"name": name, "annotations": notes}, "spec": spec}, "default"
        )
        return Key("default", name)

    async def status(self, key: Key) -> dict[str, Any]:
        found: dict[str, Any] = (await self.reader.get(POD, key)).get("status") or {}
        return found

    async def phase_after(self, key: Key, delay_s: float) -> str:
        await self.clock.sleep(delay_s)
        return str((await self.status(key)).get("phase", "Pending"))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def in_world(test: Callable[[FleetHarness], Awaitable[None]]) -> None:
    async def main(clock: LoopClock) -> None:
        world = FleetHarness(clock)
        await world.fleet.ready()
        try:
            await test(world)
        finally:
            await world.close()

    run_virtually(main)


def test_nodes_are_registered_ready_and_send_heartbeats() -> None:
    async def test(world: FleetHarness) -> None:
        nodes = (await world.reader.list(NODE)).objects
        assert [node["metadata"]["name"] for node in nodes] == ["n-0", "n-1"]
        assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        ready = [c for c in nodes[0]["status"]["conditions"] if c["type"] == "Ready"]
        assert ready[0]["status"] == "True"
        key = Key(LEASE_NAMESPACE, "n-0")
        first = (await world.reader.get(LEASE, key))["spec"]["renewTime"]
        await world.clock.sleep(60)
        assert (await world.reader.get(LEASE, key))["spec"]["renewTime"] > first

    in_world(test)


def test_a_pod_starts_runs_and_succeeds() -> None:
    async def test(world: FleetHarness) -> None:
        key = await world.pod("p", notes={RUN_TIME: "60s"})
        assert await world.phase_after(key, 0.5) == "Pending"
        assert await world.phase_after(key, 1.0) == "Running"
        assert (await world.status(key))["podIP"].startswith("10.0.0.")
        assert await world.phase_after(key, 58.0) == "Running"
        assert await world.phase_after(key, 3.0) == "Succeeded"

    in_world(test)


def test_a_pod_that_crashes_is_restarted_with_crash_loop_backoff() -> None:
    async def test(world: FleetHarness) -> None:
        notes = {RUN_TIME: "5s", CRASHES: "2"}
        key = await world.pod("p", restartPolicy="OnFailure", notes=notes)
        await world.clock.sleep(7)
        container = (await world.status(key))["containerStatuses"][0]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 1
        # 1 start, 5 run, 10 pause, 5 run, 20 pause, 5 run
        assert await world.phase_after(key, 45) == "Succeeded"
        assert (await world.status(key))["containerStatuses"][0]["restartCount"] == 2

    in_world(test)


def test_an_image_that_cannot_be_pulled_leaves_the_pod_pending() -> None:
    async def test(world: FleetHarness) -> None:
        key = await world.pod("p", notes={PULL: "fail"})
        assert await world.phase_after(key, 100) == "Pending"
        waiting = (await world.status(key))["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"

    in_world(test)


def test_a_pod_that_does_not_fit_is_rejected_by_the_kubelet() -> None:
    async def test(world: FleetHarness) -> None:
        gpus = {"nvidia.com/gpu": "2"}
        first = await world.pod("a", requests=gpus, notes={RUN_TIME: "100s"})
        assert await world.phase_after(first, 2) == "Running"
        second = await world.pod("b", requests=gpus)
        assert await world.phase_after(second, 2) == "Failed"
        status = await world.status(second)
        assert status["reason"] == "OutOfnvidia.com/gpu"
        assert await world.phase_after(first, 200) == "Succeeded"
        third = await world.pod("c", requests=gpus)
        assert await world.phase_after(third, 2) == "Running"

    in_world(test)


def test_kubelets_record_events_about_a_pod() -> None:
    async def test(world: FleetHarness) -> None:
        key = await world.pod("p", notes={RUN_TIME: "forever"})
        await world.pod("q", notes={PULL: "fail"})
        await world.pod("r", requests={"nvidia.com/gpu": "9"})
        await world.clock.sleep(5)
        await world.writer.delete(POD, key)
        await world.clock.sleep(5)
        told = {
            (event["involvedObject"]["name"], event["reason"])
            for event in (await world.reader.list(EVENT)).objects
        }
        turned_away = ("r", "OutOfnvidia.com/gpu")
        assert told == {("p", "Started"), ("p", "Killing"), ("q", "Failed"), turned_away}

    in_world(test)


def test_a_deleted_pod_with_a_finalizer_ends_and_its_object_stays_until_it_may_go() -> None:
    async def test(world: FleetHarness) -> None:
        key = await world.pod(
            "kept", notes={STOP_DELAY: "5s", RUN_TIME: "forever"}, requests={"nvidia.com/gpu": "2"}
        )
        held = {"metadata": {"finalizers": ["example.com/keep"]}}
        await world.writer.patch(POD, key, held)
        await world.clock.sleep(2)
        await world.writer.delete(POD, key, Deletion(grace_s=30))
        assert await world.phase_after(key, 1) == "Running"
        assert await world.phase_after(key, 10) == "Failed"
        (container,) = (await world.status(key))["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == 143
        # What it held is free for the next.
        other = await world.pod("next", requests={"nvidia.com/gpu": "2"})
        assert await world.phase_after(other, 5) == "Running"
        await world.writer.patch(POD, key, {"metadata": {"finalizers": None}})
        await world.clock.sleep(1)
        with pytest.raises(NotFound):
            await world.reader.get(POD, key)

    in_world(test)


def test_deletion_waits_for_the_container_but_not_beyond_the_grace_period() -> None:
    async def test(world: FleetHarness) -> None:
        quick = await world.pod("quick", notes={STOP_DELAY: "5s", RUN_TIME: "forever"})
        slow = await world.pod("slow", notes={STOP_DELAY: "1h", RUN_TIME: "forever"})
        await world.clock.sleep(2)
        for key in (quick, slow):
            await world.writer.delete(POD, key, Deletion(grace_s=30))
        await world.clock.sleep(6)
        with pytest.raises(NotFound):
            await world.reader.get(POD, quick)
        assert (await world.reader.get(POD, slow))["metadata"]["deletionTimestamp"]
        await world.clock.sleep(25)
        with pytest.raises(NotFound):
            await world.reader.get(POD, slow)

    in_world(test)


def test_a_pod_waits_for_its_config_map() -> None:
    async def test(world: FleetHarness) -> None:
        source = [{"configMapRef": {"name": "later"}}]
        key = await world.pod("p", container={"envFrom": source}, notes={RUN_TIME: "forever"})
        assert await world.phase_after(key, 30) == "Pending"
        events = (await world.reader.list(EVENT)).objects
        (why,) = [one for one in events if one["reason"] == "FailedMount"]
        assert why["message"] == 'MountVolume.SetUp failed: configmap "later" not found'
        await world.writer.create(CONFIG_MAP, {"metadata": {"name": "later"}}, "default")
        assert await world.phase_after(key, 3) == "Running"

    in_world(test)


def test_a_pod_waits_for_no_volume_that_none_of_its_containers_mounts() -> None:
    async def test(world: FleetHarness) -> None:
        volumes = [{"name": "unused", "configMap": {"name": "is-not-there"}}]
        key = await world.pod("p", volumes=volumes, notes={RUN_TIME: "forever"})
        assert await world.phase_after(key, 3) == "Running"
        container = {"volumeMounts": [{"name": "unused", "mountPath": "/there"}]}
        user = await world.pod("user", volumes=volumes, container=container)
        assert await world.phase_after(user, 3) == "Pending"

    in_world(test)


def test_a_failed_node_sends_nothing_and_catches_up_after_recovery() -> None:
    async def test(world: FleetHarness) -> None:
        key = await world.pod("p", notes={RUN_TIME: "60s"})
        gone = await world.pod("gone", notes={RUN_TIME: "forever"})
        await world.clock.sleep(5)
        world.fleet.fail("n-0")
        renewed = (await world.reader.get(LEASE, Key(LEASE_NAMESPACE, "n-0")))["spec"]["renewTime"]
        await world.writer.delete(POD, gone)
        assert await world.phase_after(key, 300) == "Running"
        lease = await world.reader.get(LEASE, Key(LEASE_NAMESPACE, "n-0"))
        assert lease["spec"]["renewTime"] == renewed
        world.fleet.recover("n-0")
        assert await world.phase_after(key, 3) == "Succeeded"
        assert [
            pod["metadata"]["name"]
            for pod in (await world.reader.list(POD, Selection(namespace="default"))).objects
        ] == ["p"]

    in_world(test)


def test_a_node_that_was_taken_for_lost_while_its_kubelet_slept_is_soon_ready_again() -> None:
    async def test(world: FleetHarness) -> None:
        await world.clock.sleep(60)
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        patch = {"status": {"conditions": [lost]}}
        await world.writer.patch(NODE, Key("", "n-0"), patch, subresource="status")
        slept = world.fleet._hosts["n-0"]
        assert slept.renewed_s is not None
        slept.renewed_s -= 120  # a laptop that was closed for two minutes
        await world.clock.sleep(25)
        node = await world.reader.get(NODE, Key("", "n-0"))
        (ready,) = (c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"

    in_world(test)
