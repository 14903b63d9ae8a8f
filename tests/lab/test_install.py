"""All services, end to end, under virtual time."""

from dataclasses import replace
from functools import partial

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    BUDGET,
    CONFIG_MAP,
    JOB,
    NODE,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    RESERVATIONS,
    InWorld,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.meta import Key
from muster.client.kinds import Plain
from muster.client.write import Deletion, Propagation
from muster.runtime.supervisor import Supervisor
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=8)),))
ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))


@pytest.mark.row(84)
@pytest.mark.row(88)
@pytest.mark.row(94)
@pytest.mark.row(96)
def test_a_plain_pod_gets_a_pod_group_a_bind_request_and_a_node(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("plain", gpus=1)
        await lab.until_running("plain", 1)
        (request,) = await lab.all(BIND_REQUEST)
        assert request["metadata"]["ownerReferences"][0]["name"] == "plain"

        async def is_finished() -> bool:
            (request,) = await lab.all(BIND_REQUEST)
            return bool(request.get("status", {}).get("phase") == "Succeeded")

        async def told() -> bool:
            (group,) = await lab.all(POD_GROUP)
            return bool(group.get("status", {}).get("phase") == "Running")

        await lab.until(is_finished, why="the bind request says so")
        await lab.until(told, why="the group says so")

    in_world(scenario)


@pytest.mark.row(111)
def test_a_gang_starts_together_or_stays_pending_with_a_reason(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.job("first", pods=2, gpus=8)
        await lab.until_running("first", 2)
        await lab.job("second", pods=2, gpus=8)

        async def explained() -> bool:
            groups = [
                one for one in await lab.all(POD_GROUP) if "second" in one["metadata"]["name"]
            ]
            return bool(groups and groups[0].get("status", {}).get("schedulingConditions"))

        await lab.until(explained)
        assert not await lab.running("second")
        for pod in await lab.all(POD):
            if pod["metadata"]["name"].startswith("second"):
                conditions = {one["type"]: one for one in pod["status"]["conditions"]}
                assert conditions["PodScheduled"]["reason"] == "Unschedulable"
                assert "GPU" in conditions["PodScheduled"]["message"].upper()

    in_world(scenario, TWO_NODES)


def test_a_recreated_job_of_the_same_name_is_grouped_at_once(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        for _ in range(2):
            await lab.job("again", pods=1, gpus=8)
            await lab.until_running("again", 1, within_s=5.0)
            await _delete_job(lab, "again")
            await lab.until_running("again", 0)

    in_world(scenario, TWO_NODES)


def test_a_recreated_pod_of_the_same_name_is_bound_at_once(in_world: InWorld) -> None:
    """The bind request of the one before may still be there: it is about that one."""

    async def scenario(lab: Lab) -> None:
        for _ in range(3):
            await lab.pod("again", gpus=8)
            await lab.until_running("again", 1, within_s=5.0)
            await lab.cluster.writer.delete(POD, Key("default", "again"), Deletion(grace_s=0))
            await lab.until_running("again", 0)

    in_world(scenario, ONE_NODE)


def test_an_elastic_job_runs_as_many_pods_above_its_minimum_as_fit(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.job("elastic", pods=6, gpus=4, minimum=2)
        await lab.until_running("elastic", 4)

    in_world(scenario, TWO_NODES)


@pytest.mark.row(108)
def test_two_pods_share_a_gpu_and_each_config_map_names_its_device(
    in_world: InWorld,
) -> None:
    async def scenario(lab: Lab) -> None:
        for name in ("left", "right"):
            await lab.pod(name, annotations={"gpu-fraction": "0.5"})
        await lab.until_running("left", 1)
        await lab.until_running("right", 1)
        groups = {
            pod["metadata"]["labels"]["runai-gpu-group"] for pod in await lab.all(POD, "default")
        }
        assert len(groups) == 1
        devices = [
            one["data"]["NVIDIA_VISIBLE_DEVICES"]
            for one in await lab.all(CONFIG_MAP, "default")
            if "NVIDIA_VISIBLE_DEVICES" in (one.get("data") or {})
        ]
        assert devices == [devices[0]] * 2
        assert len(await lab.all(POD, RESERVATIONS)) == 1

    in_world(scenario, ONE_NODE)


def test_hami_gets_the_memory_limit_of_each_pod_that_shares_a_gpu(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("half", annotations={"gpu-fraction": "0.5"})
        await lab.pod("some", annotations={"gpu-memory": "20000"})
        await lab.until_running("half", 1)
        await lab.until_running("some", 1)
        counted_mib = Gpus().memory_mib // 100 * 100
        assert await _memory_limit(lab, "half") == f"{counted_mib // 2}m"
        assert await _memory_limit(lab, "some") == "20000m"

    in_world(scenario, replace(ONE_NODE, hami_core=True))


async def _memory_limit(lab: Lab, pod: str) -> str:
    """What the variable of the pod's container reads from its config map."""
    env = (await lab.get(POD, pod))["spec"]["containers"][0]["env"]
    (limit,) = [one for one in env if one["name"] == "CUDA_DEVICE_MEMORY_LIMIT"]
    source = limit["valueFrom"]["configMapKeyRef"]
    data: dict[str, str] = (await lab.get(CONFIG_MAP, source["name"]))["data"]
    return data[source["key"]]


def test_a_gpu_is_free_again_after_its_last_share_ends(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-memory": "20000"})
        await lab.until_running("share", 1)
        await lab.cluster.writer.delete(POD, Key("default", "share"))

        async def swept() -> bool:
            return not await lab.all(POD, RESERVATIONS)

        await lab.until(swept)
        await lab.pod("whole", gpus=8)
        await lab.until_running("whole", 1)

    in_world(scenario, ONE_NODE)


@pytest.mark.row(99)
@pytest.mark.row(112)
def test_a_queue_reclaims_its_quota_by_evictions(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await lab.queue("b", gpus=8)
        for number in range(16):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 16)
        await lab.job("owed", pods=1, gpus=8, queue="b")
        await lab.until_running("owed", 1)
        assert len(await lab.running("greedy")) == 8

        async def is_told() -> bool:
            return any("owed" in text for text in await lab.messages("Evict"))

        await lab.until(is_told)  # events are written behind what they tell of

    in_world(scenario, TWO_NODES)


@pytest.mark.row(48)
def test_pods_that_a_disruption_budget_protects_are_not_victims(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await lab.queue("b", gpus=8)
        for name in ("loose", "kept"):  # The newest would be chosen first.
            for number in range(8):
                await lab.pod(f"{name}-{number}", gpus=1, queue="a", labels={"app": name})
            await lab.until_running(name, 8)
        budget = {"minAvailable": 8, "selector": {"matchLabels": {"app": "kept"}}}
        await lab.create(BUDGET, {"metadata": {"name": "kept"}, "spec": budget})

        async def counted() -> bool:
            status = (await lab.get(BUDGET, "kept")).get("status", {})
            return bool(status.get("currentHealthy") == 8)

        await lab.until(counted)
        await lab.job("owed", pods=1, gpus=8, queue="b")
        await lab.until_running("owed", 1)
        assert len(await lab.running("kept")) == 8
        assert not await lab.running("loose")
        asked = [pod["metadata"]["name"] for pod in await lab.all(POD) if _was_to_leave(pod)]
        assert not asked, "the API server had to refuse what our copy of the budget forbids"

    in_world(scenario, TWO_NODES)


def _was_to_leave(pod: Plain) -> bool:
    """Whether it was told so before its eviction was refused."""
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ()))


@pytest.mark.row(100)
def test_a_higher_priority_gang_preempts_inside_its_queue(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=16)
        for number in range(2):
            await lab.job(f"train-{number}", pods=1, gpus=8, queue="a", priority="train")
        await lab.until_running("train", 2)
        await lab.job("urgent", pods=1, gpus=8, queue="a", priority="build")
        await lab.until_running("urgent", 1)
        assert len(await lab.running("train")) == 1

    in_world(scenario, TWO_NODES)


@pytest.mark.row(98)
def test_running_jobs_are_consolidated_to_free_a_node(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=16)
        for number in range(16):
            await lab.job(f"small-{number:02}", pods=1, gpus=1, queue="a")
        await lab.until_running("small", 16)
        # Four jobs end on each node: eight GPUs are free, but not together.
        ended = 0
        for node in ("gpu-0", "gpu-1"):
            here = [pod for pod, on in sorted((await lab.running("small")).items()) if on == node]
            for pod in here[:4]:
                name = pod.rsplit("-", 1)[0]
                await _delete_job(lab, name)
                ended += 1
        await lab.until_running("small", 16 - ended)
        await lab.job("large", pods=1, gpus=8, queue="a")
        await lab.until_running("large", 1)
        await lab.until_running("small", 16 - ended)

    in_world(scenario, TWO_NODES)


def test_a_job_of_a_failed_node_restarts_on_another() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.job("work", pods=1, gpus=8)
        await lab.until_running("work", 1)
        (node,) = (await lab.running("work")).values()
        lab.laptop.fleet.fail(node)

        async def elsewhere() -> bool:
            nodes = set((await lab.running("work")).values())
            return bool(nodes) and node not in nodes

        await lab.until(elsewhere, within_s=1200)

    in_lab(scenario, TWO_NODES)


def test_pods_of_a_node_with_the_out_of_service_taint_restart_on_another(in_world: InWorld) -> None:
    """As administrators say it of a machine that is lost: pods on it are let go at once."""

    async def scenario(lab: Lab) -> None:
        template = pod_body("", gpus=8, labels={"app": "work"})
        selector = {"matchLabels": {"app": "work"}}
        spec = {"replicas": 1, "selector": selector, "template": template}
        await lab.create(REPLICA_SET, {"metadata": {"name": "work"}, "spec": spec})
        await lab.until_running("work", 1)
        (node,) = (await lab.running("work")).values()
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await lab.cluster.writer.patch(NODE, Key("", node), {"spec": {"taints": [taint]}})

        async def elsewhere() -> bool:
            nodes = set((await lab.running("work")).values())
            return bool(nodes) and node not in nodes

        await lab.until(elsewhere)
        await lab.cluster.writer.delete(REPLICA_SET, Key("default", "work"))

    in_world(scenario, TWO_NODES)


def test_every_service_resumes_after_a_kill(in_world: InWorld) -> None:
    async def scenario(lab: Lab) -> None:
        for number, service in enumerate(lab.product.services, 1):
            await lab.cluster.kill(service.name)
            started = await lab.cluster.start(service)
            await lab.until(partial(_is_ready, started), why=f"{service.name} is ready")
            await lab.job(f"after-{service.name}", pods=2, gpus=1)
            await lab.until_running("after", 2 * number)

        async def counted() -> bool:
            queue = await lab.get(QUEUE, "default-queue")
            pods = 2 * len(lab.product.services)
            return bool(queue["status"]["allocated"].get("nvidia.com/gpu") == str(pods))

        await lab.until(counted)

    in_world(scenario, replace(TWO_NODES, habits=Habits(run=Chance(mean_s=1e6))))


async def _is_ready(started: Supervisor) -> bool:
    return not started.readiness()


@pytest.mark.row(1)
def test_an_idle_cluster_runs_no_cycle_and_writes_nothing() -> None:
    async def scenario(lab: Lab) -> None:
        for number in range(20):
            await lab.pod(f"p-{number}", gpus=1)
        await lab.until_running("p-", 20)
        await lab.laptop.settled()
        assert lab.product.loop is not None
        cycles, written = lab.product.loop.cycles, _writes_of_ours(lab)
        await lab.clock.sleep(600.0)
        assert lab.product.loop.cycles == cycles
        assert _writes_of_ours(lab) == written

    in_lab(scenario)


def _writes_of_ours(lab: Lab) -> int:
    ours = {service.name for service in lab.product.services}
    return sum(line.who in ours for line in lab.laptop.write_log)


async def _delete_job(lab: Lab, name: str) -> None:
    deletion = Deletion(propagation=Propagation.BACKGROUND)
    await lab.cluster.writer.delete(JOB, Key("default", name), deletion)
