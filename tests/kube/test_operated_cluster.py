"""The whole product on a real API server, run from the operator's own Deployments while work runs.

kube-controller-manager makes the pods; what a kubelet would start for them is started here, each a
process: the command of its container with its flags, files and account. The webhooks are on. Pods
of users are kwok's.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession
from tests.kube.test_install import _helm
from tests.lab.test_operated_shards import POOL_B, _second_shard
from tests.lab.test_operator import CONFIG, SHARD
from tests.support.asking import Asking
from tests.support.crds import install_crds
from tests.support.flows import FLOWS, Flow
from tests.support.granted import check_granted
from tests.support.kais_cluster import leave_services, leave_webhooks, leave_work
from tests.support.kais_webhooks import PATHS as KAIS_WEBHOOKS
from tests.support.kube import ROOT, StartControlPlane
from tests.support.lab import DEPLOYMENT, NODE, POD, POD_GROUP, QUEUE, Lab
from tests.support.operated import HERE
from tests.support.page_readers import ELSEWHERE, account, post
from tests.support.pod_network import PodNetwork
from tests.support.pod_processes import OperatedByProcesses, PodProcesses

from muster.api import kinds
from muster.api.config import Config
from muster.api.meta import Key
from muster.api.names import DEFAULT, LEASE_VOLCANO_CONTROLLERS, SECRET_WEBHOOK_TLS
from muster.client.errors import ApiError
from muster.client.kinds import plainly
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster
from muster.services.operator.objects import SECRET
from muster.services.operator.settings import Release, Settings
from muster.sim.kubelet.nodes import Gpus, NodeGroup

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(900)]

NODES = (NodeGroup("system", count=2), NodeGroup("gpu", count=2, gpus=Gpus(count=8)))
SHARED_GPUS = {"admission": {"gpuSharing": True}}
CONFIG_BODY: dict[str, Any] = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "Config",
    "metadata": {"name": "kai-config"},
    "spec": {"namespace": HERE, **SHARED_GPUS},
}
POOL = "kai.scheduler/node-pool"
IMAGE = ("--image-repository", "registry.example")
_WAITS_S = 600.0
Story = Callable[[OperatedByProcesses], Awaitable[None]]


@pytest.fixture
def network() -> Iterator[PodNetwork]:
    with PodNetwork() as made:
        yield made


@pytest.fixture
def plane(start_control_plane: StartControlPlane, network: PodNetwork) -> ControlPlane:
    return start_control_plane(
        network.joined(Setup(controller_manager=True, kwok=True, audit=True))
    )


@dataclass(frozen=True, slots=True)
class Site:
    """Where a story is told."""

    plane: ControlPlane
    network: PodNetwork
    folder: Path
    unready: list[tuple[datetime, datetime]] = field(default_factory=list)
    """From when to when an API server was there that had not read the roles: it refuses anybody."""

    ended: dict[str, datetime] = field(default_factory=dict)
    """Leases of what was taken away, since when: their holders may no more lead, and may still want
    to say that they do not."""

    def will_end(self, *leases: str) -> None:
        self.ended.update(dict.fromkeys(leases, datetime.now(UTC)))

    async def restart_api_server(self) -> None:
        await asyncio.to_thread(self.plane.kill, "kube-apiserver")
        killed = datetime.now(UTC)
        await asyncio.to_thread(self.plane.start, "kube-apiserver")
        self.unready.append((killed, datetime.now(UTC)))

    def tell(self, story: Story, nodes: Sequence[NodeGroup] = NODES) -> None:
        """At its end the cluster is checked, and that nobody was refused anything."""

        async def main() -> None:
            async with KubeCluster(self.plane, nodes) as cluster:
                lab = Lab(cluster, Installation(), cluster.clock, look_every_s=0.2)
                kubelet = PodProcesses(cluster, self.folder, self.network)
                async with OperatedByProcesses(lab, kubelet) as world:
                    await story(world)
                    await lab.check()

        asyncio.run(main())
        assert self.refused() == []

    def refused(self) -> list[str]:
        """What our services asked for and may not."""
        never = datetime.max.replace(tzinfo=UTC)

        def is_excused(event: Mapping[str, Any]) -> bool:
            asked = datetime.fromisoformat(event["requestReceivedTimestamp"])
            about = event.get("objectRef", {})
            is_lease = about.get("resource") == "leases"
            has_ended = is_lease and asked >= self.ended.get(about.get("name", ""), never)
            return has_ended or any(began <= asked <= ended for began, ended in self.unready)

        return [
            f"{event['user']['username']} {event['verb']} {event['requestURI']}"
            for event in self.plane.audit_events()
            if event["user"]["username"].startswith("system:serviceaccount:kai-")
            and event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
            and not is_excused(event)
        ]


@pytest.fixture
def site(plane: ControlPlane, network: PodNetwork, tmp_path: Path) -> Site:
    return Site(plane, network, tmp_path)


def _muster(plane: ControlPlane, *words: str) -> str:
    program = (sys.executable, "-c", "from muster.cli.main import main; main()")
    patience = [f"--timeout={_WAITS_S:g}"] if "--wait" in words else []
    command = [*program, words[0], "--kubeconfig", str(plane.kubeconfig()), *words[1:], *patience]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAITS_S + 100)
    assert done.returncode == 0, done.stderr
    return done.stderr


async def _until_all_ready(world: OperatedByProcesses) -> None:
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


_MIG = NodeGroup("mig", gpus=Gpus(count=1, mig={"1g.10gb": 2}, mig_gpus=1))
_CLAIMED = NodeGroup("dra", count=2, gpus=Gpus(count=2, driver="gpu.example.com"))
_FLOWS: dict[str, tuple[tuple[NodeGroup, ...], tuple[str, ...]]] = {
    # What needs nodes of its own kind is told where these are.
    "muster": (
        (NodeGroup("gpu", count=2, gpus=Gpus(count=2)),),
        (
            *("plain", "accounting", "gang", "elastic", "volumes"),
            *("reclaim", "preemption", "consolidation"),
        ),
    ),
    "kubectl": (
        (NodeGroup("gpu", count=1, gpus=Gpus(count=2)), _MIG, _CLAIMED),
        ("fraction", "memory", "mig", "devices"),
    ),
    "helm": (
        (NodeGroup("gpu", count=4, gpus=Gpus(count=1), topology={"example.com/rack": 2}),),
        ("topology",),
    ),
}
"""By way of installing: what there is, and what is done there."""
_NAMED = {flow.name: flow for flow in FLOWS}


def test_every_flow_is_told_somewhere() -> None:
    told = {name for _, names in _FLOWS.values() for name in names}
    # The same as the gang's, for those who choose how pods are bound.
    assert {*_NAMED} - told == {"direct"}


@pytest.mark.parametrize("way", ["muster", "kubectl", pytest.param("helm", marks=pytest.mark.helm)])
def test_each_way_of_installing_gives_a_product_that_runs_work(site: Site, way: str) -> None:
    plane, folder = site.plane, site.folder
    nodes, flows = _FLOWS[way]

    def install() -> None:
        if way == "muster":
            file = folder / "config.yaml"
            file.write_text(yaml.safe_dump(CONFIG_BODY))
            told = _muster(plane, "install", *IMAGE, "--config", str(file), "--wait")
            assert "ready" in told
        elif way == "kubectl":
            plane.kubectl("apply", "--server-side", "-k", str(ROOT / "deploy"))
        else:
            chart = ["muster", str(ROOT / "deploy" / "chart"), "--namespace", HERE]
            shown = ("--set", "dashboard.enabled=true")
            _helm(plane, "install", *chart, "--create-namespace", *shown)

    async def story(world: OperatedByProcesses) -> None:
        await asyncio.to_thread(install)
        await world.until(lambda: _is_there(world.lab), "there is a Config")
        await world.lab.cluster.writer.patch(CONFIG, Key("", "kai-config"), {"spec": SHARED_GPUS})
        await _until_all_ready(world)
        services = [*_SERVICES, *(["dashboard"] if way == "helm" else [])]
        assert world.kubelet.apps() == {*map(_app, services), "muster-operator"}
        settings = Settings.of(Config(), Release())
        cluster, is_file = world.kubelet.cluster, way == "kubectl"
        await check_granted(cluster, settings, services, makes_defaults=is_file)
        with pytest.raises(ApiError, match="denied the request"):
            await world.lab.queue("own-parent", gpus=1, parent="own-parent")
        for name in flows:
            await _tell(world.lab, _NAMED[name])
        if way == "helm":
            await _dashboard_answers(world)

    site.tell(story, (NodeGroup("system", count=2), *nodes))


_SERVICES = (
    *("admission", "binder", "pod-grouper", "podgroup-controller", "queue-controller"),
    *("node-scale-adjuster", "scheduler"),
)
"""By their accounts."""


def _app(service: str) -> str:
    """Of shards there is one each."""
    shards = {"scheduler": "kai-scheduler-default", "dashboard": "dashboard-default"}
    return shards.get(service, service)


async def _dashboard_answers(world: OperatedByProcesses) -> None:
    """Whom the API server lets read the path, and nobody else who comes from elsewhere."""
    admin, path = world.lab.cluster.writer.connection, "/api/v1/status"
    rules = [{"nonResourceURLs": ["/dashboard/*"], "verbs": ["get"]}]
    role = {"metadata": {"name": "reader"}, "rules": rules}
    await post(admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    reader = await account(admin, "default", "reader", "reader")
    stranger = await account(admin, "default", "stranger")
    url = f"http://127.0.0.1:{world.kubelet.port_of('dashboard-default', 8765)}{path}"
    told: dict[str, int] = {}

    async def answers() -> bool:
        for token in (reader, stranger, ""):
            headers = {**ELSEWHERE, **({"authorization": f"Bearer {token}"} if token else {})}
            async with ClientSession() as session, session.get(url, headers=headers) as answer:
                told[token] = answer.status
        return [*told.values()] == [200, 403, 401]

    await world.until(answers, "the dashboard answers whom it may")


async def _tell(lab: Lab, flow: Flow) -> None:
    for step in (flow.once, flow.before, flow.work, flow.done, flow.end):
        await step(lab)
    for queue in await lab.all(QUEUE):
        # The next has its own of the same name.
        if not queue["metadata"]["name"].startswith("default-"):
            await lab.cluster.writer.delete(QUEUE, Key("", queue["metadata"]["name"]))


async def _is_there(lab: Lab) -> bool:
    return bool(await lab.all(CONFIG))


def test_work_runs_on_through_an_upgrade_and_back(site: Site) -> None:
    plane, tmp_path = site.plane, site.folder
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG_BODY))

    def install(tag: str) -> Callable[[], object]:
        words = (*IMAGE, "--image-tag", tag, "--config", str(file), "--wait")
        return lambda: _muster(plane, "install", *words)

    async def story(world: OperatedByProcesses) -> None:
        lab = world.lab
        await asyncio.to_thread(install("1"))
        await lab.job("before", pods=2, gpus=4)
        await world.until_running("before", 2)
        held = await _identities(lab)
        with Asking(plane) as asking:
            for number, tag in enumerate(("2", "1")):
                # Comes while services are replaced.
                await lab.job(f"during-{number}", pods=2, gpus=1)
                await asyncio.to_thread(install(tag))
                await world.until_running(f"during-{number}", 2)
                assert await _images(lab) == {f"registry.example/muster:{tag}"}
        assert asking.refused == []
        assert asking.rounds > 10
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held
        assert _ended_by_us(plane) == []

    site.tell(story)


def test_work_runs_on_while_config_shards_and_leaders_change(site: Site) -> None:
    plane, tmp_path = site.plane, site.folder
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG_BODY))

    async def story(world: OperatedByProcesses) -> None:
        lab, writer = world.lab, world.lab.cluster.writer
        await asyncio.to_thread(lambda: _muster(plane, "install", *IMAGE, "--config", str(file)))
        await _until_all_ready(world)
        await writer.patch(NODE, Key("", "gpu-1"), {"metadata": {"labels": {POOL: POOL_B}}})
        await _second_shard(world)
        await lab.job("first", pods=2, gpus=1)
        await lab.job("second", pods=2, gpus=2, queue="queue-b", labels={POOL: POOL_B})
        assert {*(await world.until_running("first", 2)).values()} == {"gpu-0"}
        assert {*(await world.until_running("second", 2)).values()} == {"gpu-1"}
        held = await _identities(lab)
        with Asking(plane) as asking:
            everywhere = {"spec": {"global": {"jsonLog": True}}}
            await writer.patch(CONFIG, Key("", "kai-config"), everywhere)
            await world.until(lambda: _all_say(lab, "--log-json"), "every Deployment has changed")
            await lab.job("third", pods=2, gpus=1)
            await world.until_running("third", 2)
            await _until_all_ready(world)
            shown = await asyncio.to_thread(world.kubelet.certificate_of, "admission", 9443)
            await writer.delete(SECRET, Key(HERE, SECRET_WEBHOOK_TLS))
            await world.until(
                lambda: _shows_another(world, shown), "admission shows another certificate"
            )
            await asyncio.to_thread(asking.until_more, 3)
        assert asking.refused == []
        world.kubelet.kill("kai-scheduler-default")
        await lab.job("fourth", pods=2, gpus=1)
        await world.until_running("fourth", 2)
        await site.restart_api_server()
        await lab.job("fifth", pods=2, gpus=1)
        await world.until_running("fifth", 2)
        site.will_end(DEFAULT.scheduler_lease(POOL_B))
        await writer.delete(SHARD, Key("", "b"))
        await world.until(lambda: _has_ended(world, "kai-scheduler-b"), "the shard has gone")
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held
        assert _ended_by_us(plane) == []

    site.tell(story)


def test_volcanos_jobs_run_by_a_shard_of_its_profile_beside_ours(site: Site) -> None:
    plane, file = site.plane, site.folder / "config.yaml"
    file.write_text(yaml.safe_dump(CONFIG_BODY))

    async def story(world: OperatedByProcesses) -> None:
        lab, writer = world.lab, world.lab.cluster.writer
        await asyncio.to_thread(lambda: _muster(plane, "install", *IMAGE, "--config", str(file)))
        await _until_all_ready(world)
        crds = ("apply", "--server-side", "-f", str(ROOT / "deploy" / "volcano-crds"))
        await asyncio.to_thread(lambda: plane.kubectl(*crds))
        await writer.patch(NODE, Key("", "gpu-1"), {"metadata": {"labels": {POOL: "b"}}})
        shard = {"partitionLabelValue": "b", "args": {"profile": "volcano"}}
        await lab.create(SHARD, {"metadata": {"name": "volcano"}, "spec": shard})
        await world.until_ready(SHARD, "volcano")
        await _until_all_ready(world)
        job = plainly(kinds.VOLCANO_JOB)
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
        spec = {"minAvailable": 2, "schedulerName": "volcano", "tasks": [task]}
        await lab.create(job, {"metadata": {"name": "gang"}, "spec": spec})
        await lab.job("ours", pods=2, gpus=1)
        assert {*(await world.until_running("gang", 2)).values()} == {"gpu-1"}
        assert {*(await world.until_running("ours", 2)).values()} == {"gpu-0"}
        assert (await lab.get(job, "gang"))["spec"]["queue"] == "default", "by its webhook"
        with pytest.raises(ApiError, match="task"):
            await lab.create(job, {"metadata": {"name": "none"}, "spec": {**spec, "tasks": []}})
        held = await _identities(lab)
        site.will_end("volcano-b", LEASE_VOLCANO_CONTROLLERS)
        await writer.delete(SHARD, Key("", "volcano"))
        await world.until(lambda: _has_ended(world, "kai-scheduler-volcano"), "its scheduler ends")
        await world.until(lambda: _has_ended(world, "volcano-controllers"), "and its controllers")
        await lab.job("later", pods=2, gpus=1)
        await world.until_running("later", 2)
        after = await _identities(lab)
        assert {name: after.get(name) for name in held} == held

    site.tell(story)


async def _shows_another(world: OperatedByProcesses, certificate: str) -> bool:
    now = await asyncio.to_thread(world.kubelet.certificate_of, "admission", 9443)
    return now != certificate


async def _all_say(lab: Lab, flag: str) -> bool:
    return all(
        flag in one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in await lab.all(DEPLOYMENT, HERE)
        if one["metadata"]["name"] != "muster-operator"
    )


async def _has_ended(world: OperatedByProcesses, name: str) -> bool:
    return name not in world.kubelet.apps()


async def _images(lab: Lab) -> set[str]:
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]
        for one in await lab.all(DEPLOYMENT, HERE)
    }


def test_a_cluster_of_kai_is_taken_over_and_nothing_restarts_or_is_refused(site: Site) -> None:
    """Its webhooks are asked all the while: by KAI's rules at first, and by ours at the end."""
    plane = site.plane

    async def story(world: OperatedByProcesses) -> None:
        lab = world.lab
        await asyncio.to_thread(install_crds, plane)
        await leave_services(lab, CONFIG_BODY["spec"])
        await world.until(lambda: _are_ready(world, *KAIS_WEBHOOKS), "KAI's webhooks are there")
        await leave_work(lab)
        await leave_webhooks(lab)
        await world.until_running("train", 2)
        await world.until_running("half", 2)
        held, groups = await _identities(lab), await _group_names(lab)
        with Asking(plane) as asking:
            await asyncio.to_thread(asking.until_more, 3)
            await asyncio.to_thread(lambda: _muster(plane, "install", *IMAGE, "--wait"))
            await asyncio.to_thread(asking.until_more, 3)
        assert asking.refused == []
        with pytest.raises(ApiError, match="denied the request"):
            await lab.queue("own-parent", gpus=1, parent="own-parent")
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

    site.tell(story)


async def _are_ready(world: OperatedByProcesses, *apps: str) -> bool:
    return {*apps} <= world.kubelet.apps() - {*world.kubelet.unready()}


async def _says_why(lab: Lab) -> bool:
    waiting = [pod for pod in await lab.all(POD, "default") if not pod["spec"].get("nodeName")]
    return len(waiting) == 1 and "Unschedulable" in json.dumps(waiting[0].get("status"))


async def _group_names(lab: Lab) -> set[str]:
    return {one["metadata"]["name"] for one in await lab.all(POD_GROUP)}
