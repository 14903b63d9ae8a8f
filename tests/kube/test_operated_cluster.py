"""The whole product on a real API server, run from the operator's own Deployments while work runs.

What a kubelet would start is started here: the command of each container with its flags, under the
account of its pod. kwok runs the pods, kube-controller-manager makes them. Nobody reaches Services
on this cluster, so the webhooks are off; `test_certificate_rotation` is about them.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kube.test_install import _helm
from tests.lab.test_operated_shards import _second_shard
from tests.lab.test_operator import CONFIG, SHARD, Site, _leave_as_kai
from tests.support.crds import install_crds
from tests.support.kube import ROOT, StartControlPlane
from tests.support.lab import DEPLOYMENT, NODE, POD, POD_GROUP, Lab
from tests.support.operated import HERE, Kubelet, Operated

import muster.services.scheduler.wiring  # noqa: F401 - kernels are there before leases run out
from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.base.log import Level, Log
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.hosting import ACCOUNT, NAMESPACE, HostedService, ensure
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster
from muster.lab.reservation_pods import build as build_reservations
from muster.sim.kubelet.nodes import Gpus, NodeGroup

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(900)]

NODES = (NodeGroup("system", count=2), NodeGroup("gpu", count=2, gpus=Gpus(count=8)))
NO_WEBHOOKS = {"admission": {"service": {"enabled": False}}}
CONFIG_BODY: dict[str, Any] = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "Config",
    "metadata": {"name": "kai-config"},
    "spec": {"namespace": HERE, **NO_WEBHOOKS},
}
POOL = "kai.scheduler/node-pool"
IMAGE = ("--image-repository", "registry.example")
Story = Callable[[Operated], Awaitable[None]]


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    return start_control_plane(Setup(controller_manager=True, kwok=True, audit=True))


def _told(plane: ControlPlane, folder: Path, story: Story) -> None:
    async def main() -> None:
        async with KubeCluster(plane, NODES) as cluster:
            log = Log("operated", level=Level.ERROR)
            lab = Lab(cluster, Installation(), cluster.clock, look_every_s=0.2)
            world = Operated(lab, Kubelet(cluster, folder, log))
            try:
                await story(world)
                await lab.check()
            finally:
                await world.kubelet.close()

    asyncio.run(main())


def _muster(plane: ControlPlane, *words: str) -> str:
    program = (sys.executable, "-c", "from muster.cli.main import main; main()")
    command = [*program, words[0], "--kubeconfig", str(plane.kubeconfig()), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stderr


async def _meanwhile(world: Operated, work: Callable[[], object]) -> None:
    """Something that a person waits for, while the cluster goes on."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    while not running.done():
        await world.turn()
        await asyncio.wait((running,), timeout=0.5)
    await running


async def _until_all_ready(world: Operated) -> None:
    await world.until_ready(CONFIG, "kai-config")
    await world.until_ready(SHARD, "default")


async def _identities(lab: Lab) -> dict[str, tuple[str, str, Any]]:
    """Of the pods of users, and of those that hold GPUs for them: who, where, and since when."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            pod["status"].get("startTime"),
        )
        for pod in await lab.all(POD)
        if pod["metadata"]["namespace"] != HERE and pod["spec"].get("nodeName")
    }


def _ended_by_us(plane: ControlPlane) -> list[str]:
    """Pods that any service of ours deleted or evicted."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in plane.audit_events()
        if event["user"]["username"].startswith(f"system:serviceaccount:{HERE}:")
        and (event["verb"] == "delete" or event["requestURI"].endswith("/eviction"))
        and event["objectRef"].get("resource") == "pods"
    ]


@pytest.mark.parametrize("way", ["muster", "kubectl", pytest.param("helm", marks=pytest.mark.helm)])
def test_each_way_of_installing_gives_a_product_that_runs_work(
    plane: ControlPlane, tmp_path: Path, way: str
) -> None:
    def install() -> None:
        if way == "muster":
            file = tmp_path / "config.yaml"
            file.write_text(yaml.safe_dump(CONFIG_BODY))
            told = _muster(plane, "install", *IMAGE, "--config", str(file), "--wait")
            assert "ready" in told
        elif way == "kubectl":
            plane.kubectl("apply", "--server-side", "-k", str(ROOT / "deploy"))
        else:
            chart = ["muster", str(ROOT / "deploy" / "chart"), "--namespace", HERE]
            _helm(plane, "install", *chart, "--create-namespace")

    async def story(world: Operated) -> None:
        await _meanwhile(world, install)
        await world.until(lambda: _is_there(world.lab), "there is a Config")
        await world.lab.cluster.writer.patch(CONFIG, Key("", "kai-config"), {"spec": NO_WEBHOOKS})
        await _until_all_ready(world)
        assert {"muster-operator", "binder", "pod-grouper"} <= {*world.kubelet.running}
        await world.lab.job("gang", pods=2, gpus=8)
        await world.until_running("gang", 2)

    _told(plane, tmp_path, story)


async def _is_there(lab: Lab) -> bool:
    return bool(await lab.all(CONFIG))


def test_work_runs_on_through_an_upgrade_and_back(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG_BODY))

    def install(tag: str) -> Callable[[], object]:
        words = (*IMAGE, "--image-tag", tag, "--config", str(file), "--wait")
        return lambda: _muster(plane, "install", *words)

    async def story(world: Operated) -> None:
        lab = world.lab
        await _meanwhile(world, install("1"))
        await lab.job("before", pods=2, gpus=4)
        await world.until_running("before", 2)
        held = await _identities(lab)
        for number, tag in enumerate(("2", "1")):
            # Comes while services are replaced.
            await lab.job(f"during-{number}", pods=2, gpus=1)
            await _meanwhile(world, install(tag))
            await world.until_running(f"during-{number}", 2)
            assert await _images(lab) == {f"registry.example/muster:{tag}"}
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held
        assert _ended_by_us(plane) == []

    _told(plane, tmp_path, story)


def test_work_runs_on_while_config_shards_and_leaders_change(
    plane: ControlPlane, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG_BODY))

    async def story(world: Operated) -> None:
        lab, writer = world.lab, world.lab.cluster.writer
        await _meanwhile(world, lambda: _muster(plane, "install", *IMAGE, "--config", str(file)))
        await _until_all_ready(world)
        await writer.patch(NODE, Key("", "gpu-1"), {"metadata": {"labels": {POOL: "b"}}})
        await _second_shard(world)
        await lab.job("first", pods=2, gpus=2)
        await lab.job("second", pods=2, gpus=2, queue="queue-b", labels={POOL: "b"})
        assert {*(await world.until_running("first", 2)).values()} == {"gpu-0"}
        assert {*(await world.until_running("second", 2)).values()} == {"gpu-1"}
        held = await _identities(lab)
        await writer.patch(CONFIG, Key("", "kai-config"), {"spec": {"global": {"jsonLog": True}}})
        await world.until(lambda: _all_say(lab, "--log-json"), "every Deployment has changed")
        await lab.job("third", pods=2, gpus=1)
        await world.until_running("third", 2)
        world.kubelet.running["kai-scheduler-default"].supervisor.kill()
        await lab.job("fourth", pods=2, gpus=1)
        await world.until_running("fourth", 2)
        await writer.delete(SHARD, Key("", "b"))
        await world.until(lambda: _has_ended(world, "kai-scheduler-b"), "the shard has gone")
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held
        assert _ended_by_us(plane) == []

    _told(plane, tmp_path, story)


async def _all_say(lab: Lab, flag: str) -> bool:
    return all(
        flag in one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in await lab.all(DEPLOYMENT, HERE)
        if one["metadata"]["name"] != "muster-operator"
    )


async def _has_ended(world: Operated, name: str) -> bool:
    return name not in world.kubelet.running


async def _images(lab: Lab) -> set[str]:
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]
        for one in await lab.all(DEPLOYMENT, HERE)
    }


def test_a_cluster_of_kai_is_taken_over_and_nothing_restarts(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def story(world: Operated) -> None:
        lab = world.lab
        install_crds(plane)
        await _kais_cluster(plane, lab)
        await world.until_running("train", 2)
        await world.until_running("half", 2)
        held, groups = await _identities(lab), await _group_names(lab)
        await _meanwhile(world, lambda: _muster(plane, "install", *IMAGE, "--wait"))
        reservations = HostedService(
            DEFAULT.reservation_service_account,
            lambda supervisor: build_reservations(supervisor, DEFAULT),
            None,
            DEFAULT.reservation_namespace,
        )
        await lab.cluster.start(reservations)
        # 4 GPUs are train's, one is shared: 11 of 16 are free.
        for number in range(12):
            await lab.pod(f"new-{number}", gpus=1)
        await world.until_running("new", 11)
        await world.until(lambda: _says_why(lab), "the twelfth says why it waits")
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held
        assert groups <= await _group_names(lab)
        assert await _images(lab) == {"registry.example/muster:0.1.0"}
        assert _ended_by_us(plane) == []

    _told(plane, tmp_path, story)


async def _says_why(lab: Lab) -> bool:
    waiting = [pod for pod in await lab.all(POD, "default") if not pod["spec"].get("nodeName")]
    return len(waiting) == 1 and "Unschedulable" in json.dumps(waiting[0].get("status"))


async def _group_names(lab: Lab) -> set[str]:
    return {one["metadata"]["name"] for one in await lab.all(POD_GROUP)}


async def _kais_cluster(plane: ControlPlane, lab: Lab) -> None:
    """Config, shard, queues, services, a gang, a GPU that two pods share: as KAI leaves them."""
    writer = lab.cluster.writer
    reservations = DEFAULT.reservation_namespace
    for name in (HERE, reservations):
        await ensure(writer, NAMESPACE, {"metadata": {"name": name}})
    account = {"metadata": {"name": DEFAULT.reservation_service_account}}
    await ensure(writer, ACCOUNT, account, reservations)
    image = {"repository": "elsewhere/kai", "name": "binder", "tag": "v0.17.0"}
    config = await lab.create(
        CONFIG,
        {**CONFIG_BODY, "spec": {**CONFIG_BODY["spec"], "binder": {"service": {"image": image}}}},
    )
    await lab.create(SHARD, {"metadata": {"name": "default"}, "spec": {}})
    await lab.queue("default-parent-queue", gpus=16)
    await lab.queue("default-queue", gpus=16, parent="default-parent-queue")
    await _leave_as_kai(Site(lab.cluster, lab.clock), config)  # type: ignore[arg-type]
    await _gang(lab)
    await _shared_gpu(lab)


async def _gang(lab: Lab) -> None:
    group = {"metadata": {"name": "pg-train"}, "spec": {"queue": "default-queue", "minMember": 2}}
    await lab.create(POD_GROUP, group)
    for number in range(2):
        where = {"nodeName": f"gpu-{number}"}
        notes = {"pod-group-name": "pg-train"}
        await lab.pod(f"train-{number}", gpus=2, spec=where, annotations=notes)


async def _shared_gpu(lab: Lab) -> None:
    device, where = "a1b2c3", {"nodeName": "gpu-0"}
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "gpu-reservation-gpu-0-x7k2p",
            "labels": {"app": DEFAULT.reservation_app, "runai-gpu-group": device},
            "annotations": {"run.ai/reserve_for_gpu_index": "GPU-gpu-0-0"},
        },
        "spec": {
            **where,
            "serviceAccountName": DEFAULT.reservation_service_account,
            "containers": [
                {"name": "resource-reservation", "image": "elsewhere", "resources": gpu}
            ],
        },
    }
    await lab.cluster.writer.create(POD, body, DEFAULT.reservation_namespace)
    for name in ("half-a", "half-b"):
        notes = {
            "gpu-fraction": "0.5",
            "received-resource-type": "Fraction",
            "pod-group-name": f"pg-{name}",
        }
        labels = {"runai-gpu-group": device}
        group = {"metadata": {"name": f"pg-{name}"}, "spec": {"queue": "default-queue"}}
        await lab.create(POD_GROUP, {**group, "spec": {**group["spec"], "minMember": 1}})
        await lab.pod(name, annotations=notes, labels=labels, spec=where)
