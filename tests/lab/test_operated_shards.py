"""Services run by the operator's own Deployments: flags, files, accounts and rights as rendered."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.lab.test_operator import CONFIG, HERE, SHARD
from tests.support.lab import CONFIG_MAP, DEFINITION, POD, POD_GROUP, QUEUE, RESERVATIONS
from tests.support.operated import AnyOperated, Operated, operated

from muster.api import kinds
from muster.api.meta import Key
from muster.client.errors import ApiError
from muster.client.kinds import plainly
from muster.lab.volcano_kinds import definitions
from muster.sim.kubelet.nodes import Gpus, NodeGroup

POOL = "kai.scheduler/node-pool"
POOL_B = "H100_80GB"
"""As people label nodes, and as no object can be called."""
_EACH = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
NODES = (
    NodeGroup("plain", count=2, gpus=Gpus(count=8)),
    NodeGroup("pool", count=2, gpus=Gpus(count=8), labels={POOL: POOL_B}),
)


async def _second_shard(world: AnyOperated) -> None:
    spec = {"partitionLabelValue": POOL_B, "placementStrategy": {"gpu": "spread", "cpu": "spread"}}
    await world.lab.create(SHARD, {"metadata": {"name": "b"}, "spec": spec})
    resources = {"cpu": _EACH, "memory": _EACH, "gpu": _EACH}
    for name, above in (("root-b", {}), ("queue-b", {"parentQueue": "root-b"})):
        metadata = {"name": name, "labels": {POOL: POOL_B}}
        body = {"metadata": metadata, "spec": {"resources": resources, **above}}
        await world.lab.create(QUEUE, body)
    await world.until_ready(SHARD, "b")


def _in_pool(**more: Any) -> dict[str, Any]:
    labels: Mapping[str, str] = {POOL: POOL_B}
    return {"queue": "queue-b", "labels": labels, **more}


def _nodes(running: Mapping[str, str]) -> set[str]:
    return set(running.values())


@pytest.mark.row(114)
def test_two_shards_follow_their_own_strategies_and_keep_to_their_own_nodes(tmp_path: Path) -> None:
    async def story(world: Operated) -> None:
        lab = world.lab
        await _second_shard(world)
        for number in range(4):
            await lab.pod(f"packed-{number}", gpus=1)
            await lab.pod(f"spread-{number}", gpus=1, **_in_pool())
        assert len(_nodes(await world.until_running("packed", 4))) == 1, "filled one by one"
        assert _nodes(await world.until_running("spread", 4)) == {"pool-0", "pool-1"}
        assert _nodes(await lab.running("packed")) < {"plain-0", "plain-1"}
        groups = {one["metadata"]["name"]: one for one in await lab.all(POD_GROUP)}
        pools = {
            one["metadata"].get("labels", {}).get(POOL, "")
            for name, one in groups.items()
            if "packed" in name
        }
        assert pools == {""}

    operated(story, NODES, tmp_path)


def test_a_shard_that_goes_and_comes_back_loses_no_work(tmp_path: Path) -> None:
    async def story(world: Operated) -> None:
        lab = world.lab
        await _second_shard(world)
        await lab.job("before", pods=2, gpus=4, **_in_pool())
        held = await world.until_running("before", 2)
        await lab.cluster.writer.delete(SHARD, Key("", "b"))

        async def ended() -> bool:
            return "kai-scheduler-b" not in world.kubelet.running

        await world.until(ended, "its scheduler has ended")
        await lab.job("meanwhile", pods=2, gpus=1, **_in_pool())
        await lab.pod("other", gpus=1)
        await world.until_running("other", 1)
        assert await lab.running("before") == held, "what runs, runs on"
        assert not await lab.running("meanwhile")
        spec = {"partitionLabelValue": POOL_B}
        await lab.create(SHARD, {"metadata": {"name": "b"}, "spec": spec})
        await world.until_running("meanwhile", 2)
        assert await lab.running("before") == held

    operated(story, NODES, tmp_path)


def test_every_flow_works_with_the_rights_that_the_operator_gives(tmp_path: Path) -> None:
    async def story(world: Operated) -> None:
        lab = world.lab
        await world.until_ready(SHARD, "default")
        await lab.queue("a", gpus=8, parent="default-parent-queue")
        await lab.queue("b", gpus=8, parent="default-parent-queue")
        for name in ("left", "right"):
            await lab.pod(name, annotations={"gpu-fraction": "0.5"}, queue="b")
        await world.until_running("left", 1)
        await world.until_running("right", 1)
        assert len(await lab.all(POD, RESERVATIONS)) == 1
        for number in range(15):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await world.until_running("greedy", 15)
        await lab.job("owed", pods=1, gpus=4, queue="b")
        await world.until_running("owed", 1)
        refused = [
            f"{line.who} {line.method} {line.path}"
            for line in lab.laptop.write_log
            if line.status == 403
        ]
        assert refused == []

    operated(story, (NODES[0],), tmp_path)


@pytest.mark.row(114)
def test_a_shard_of_volcanos_profile_runs_volcanos_jobs_with_its_controllers(
    tmp_path: Path,
) -> None:
    async def story(world: Operated) -> None:
        await world.until_ready(SHARD, "default")
        await world.until_ready(CONFIG, "kai-config")
        running = {*world.kubelet.running}
        assert {"volcano-controllers", "admission", "kai-scheduler-default"} <= running
        job = plainly(kinds.VOLCANO_JOB)
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
        spec = {"minAvailable": 2, "schedulerName": "volcano", "tasks": [task]}
        await world.lab.create(job, {"metadata": {"name": "gang"}, "spec": spec})
        await world.until_running("gang", 2)
        assert (await world.lab.get(job, "gang"))["spec"]["queue"] == "default", "by its webhook"
        refused = [
            f"{line.who} {line.method} {line.path}"
            for line in world.lab.laptop.write_log
            if line.status == 403
        ]
        assert refused == []
        broken = {"metadata": {"name": "none"}, "spec": {**spec, "tasks": []}}
        with pytest.raises(ApiError, match="task"):
            await world.lab.create(job, broken)

    # By bind requests, as pods with volumes and devices always are.
    args = {"profile": "volcano", "bind-requests": "always"}
    operated(story, (NODES[0],), tmp_path, kinds_of="volcano", args=args)


@pytest.mark.row(114)
def test_volcanos_jobs_name_no_pool_and_run_on_the_nodes_that_are_its_shards(
    tmp_path: Path,
) -> None:
    """Beside a shard of ours; and a second one of Volcano's leaves them alone."""

    async def story(world: Operated) -> None:
        for name, pool in (("b", POOL_B), ("c", "c")):
            shard = {"partitionLabelValue": pool, "args": {"profile": "volcano"}}
            await world.lab.create(SHARD, {"metadata": {"name": name}, "spec": shard})
            await world.until_ready(SHARD, name)
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        task = {"name": "w", "replicas": 4, "template": {"spec": {"containers": [container]}}}
        job = {"minAvailable": 4, "schedulerName": "volcano", "tasks": [task]}
        await world.lab.create(
            plainly(kinds.VOLCANO_JOB), {"metadata": {"name": "gang"}, "spec": job}
        )
        await world.lab.pod("ours", gpus=1)
        assert _nodes(await world.until_running("gang", 4)) <= {"pool-0", "pool-1"}
        assert _nodes(await world.until_running("ours", 1)) <= {"plain-0", "plain-1"}

    third = NodeGroup("third", labels={POOL: "c"})
    operated(story, (*NODES, third), tmp_path, kinds_of="volcano")


def test_a_conf_of_the_users_own_is_what_such_a_scheduler_reads(tmp_path: Path) -> None:
    async def story(world: Operated) -> None:
        text = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
        data = {"volcano-scheduler.conf": text}
        await world.lab.cluster.writer.create(
            CONFIG_MAP, {"metadata": {"name": "own"}, "data": data}, HERE
        )
        await world.until_ready(SHARD, "default")
        supervisor = world.kubelet.running["kai-scheduler-default"].supervisor
        shown = supervisor.debug["conf"]()
        assert "gang" in str(shown)
        assert "proportion" not in str(shown)

    args = {"profile": "volcano", "conf-config-map": "own/volcano-scheduler.conf"}
    operated(story, (NODES[0],), tmp_path, kinds_of="volcano", args=args)


def test_a_shard_whose_profile_has_no_kinds_here_says_what_to_apply(tmp_path: Path) -> None:
    async def story(world: Operated) -> None:
        async def told() -> bool:
            shard = await world.lab.get(SHARD, "default")
            return "deploy/volcano-crds" in str(shard.get("status"))

        await world.until(told, "the shard says what it lacks")
        for body in definitions("volcano"):
            await world.lab.create(DEFINITION, body)
        await world.until_ready(SHARD, "default")

    operated(story, (NODES[0],), tmp_path, args={"profile": "volcano"})
