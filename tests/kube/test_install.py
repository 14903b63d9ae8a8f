"""Installing on a real API server with its role-based access control, and taking it away again."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.lab.test_operator import CONFIG, HERE, SHARD
from tests.support.helm import helm_program
from tests.support.kube import ROOT, StartControlPlane
from tests.support.lab import DEPLOYMENT, POD
from typer.testing import CliRunner

from muster.api.meta import Key
from muster.api.roles import Rights
from muster.cli.main import app
from muster.client.errors import ApiError, NotFound
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.hosting import HostedService
from muster.lab.kube_cluster import KubeCluster
from muster.lab.programs import ProgramFailed
from muster.runtime.supervisor import Supervisor
from muster.services.operator import wiring
from muster.services.operator.objects import POLICY, VALIDATING
from muster.sim.kubelet.nodes import NodeGroup

pytestmark = [pytest.mark.kube, pytest.mark.slow]

OPERATOR = "muster-operator"
USER = f"system:serviceaccount:{HERE}:{OPERATOR}"
_WRITES = {"create", "update", "patch", "delete", "deletecollection"}
_QUIET_S = 6.0


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    return start_control_plane(Setup(controller_manager=True, kwok=True, audit=True))


async def _place_pods(cluster: KubeCluster) -> None:
    """What kube-scheduler would do."""
    for pod in (await cluster.reader.list(POD)).objects:
        if not pod["spec"].get("nodeName"):
            meta = pod["metadata"]
            try:
                await cluster.writer.bind(Key(meta["namespace"], meta["name"]), "node-0")
            except ApiError:
                continue  # It went while we looked.


async def _until(cluster: KubeCluster, so: Callable[[], Awaitable[bool]], why: str) -> None:
    for _ in range(600):
        await _place_pods(cluster)
        if await so():
            return
        await cluster.clock.sleep(0.5)
    said = [one.get("status") for one in (await cluster.reader.list(CONFIG)).objects]
    refused = _refused(cluster.plane)
    raise AssertionError(f"not so within five minutes: {why}; {said}; refused: {refused}")


async def _is_ready(cluster: KubeCluster, kind: Any, name: str) -> bool:
    try:
        found = await cluster.reader.get(kind, Key("", name))
    except NotFound:
        return False
    listed = (found.get("status") or {}).get("conditions", ())
    generation = found["metadata"]["generation"]
    return ("Ready", "True", generation) in [
        (one["type"], one["status"], one["observedGeneration"]) for one in listed
    ]


def _build(makes_defaults: bool) -> Callable[[Supervisor], None]:
    def build(supervisor: Supervisor) -> None:
        wiring.build(supervisor, wiring.OperatorServiceConfig(makes_defaults=makes_defaults))

    return build


async def _operate(
    plane: ControlPlane, story: Callable[[KubeCluster], Awaitable[None]], makes_defaults: bool
) -> None:
    """Run the operator with the account that was installed, until everything is ready."""
    async with KubeCluster(plane, (NodeGroup("node", count=2),)) as cluster:
        await cluster.start(HostedService(OPERATOR, _build(makes_defaults), Rights()))
        for kind, name in ((CONFIG, "kai-config"), (SHARD, "default")):
            await _until(cluster, lambda k=kind, n=name: _is_ready(cluster, k, n), f"{name} ready")  # type: ignore[misc]
        await story(cluster)


def _writes(plane: ControlPlane) -> list[str]:
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in plane.audit_events()
        if event["user"]["username"] == USER
        and event["verb"] in _WRITES
        and event["stage"] == "ResponseComplete"
    ]


def _refused(plane: ControlPlane) -> list[str]:
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in plane.audit_events()
        if event["user"]["username"] == USER
        and event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


async def _is_quiet_and_complete(cluster: KubeCluster) -> None:
    await _is_quiet(cluster)
    assert _refused(cluster.plane) == []
    names = {one["metadata"]["name"] for one in (await cluster.reader.list(DEPLOYMENT)).objects}
    assert {"binder", "admission", "kai-scheduler-default"} <= names
    binder = await cluster.reader.get(DEPLOYMENT, Key(HERE, "binder"))
    operator = await cluster.reader.get(DEPLOYMENT, Key(HERE, OPERATOR))
    assert _image(binder) == _image(operator), "all services run from the operator's image"
    await cluster.reader.get(VALIDATING, Key("", "validating-kai-admission"))
    await cluster.reader.get(POLICY, Key("", "muster-resource-reservation-own-pod"))


async def _is_quiet(cluster: KubeCluster) -> None:
    """What is under way is written; then nothing is, for a while: soon, or never."""
    for _ in range(20):
        before = _writes(cluster.plane)
        await cluster.clock.sleep(_QUIET_S)
        if (now := _writes(cluster.plane)) == before:
            return
    raise AssertionError(f"it writes on: {now[-10:]}")


def _image(deployment: dict[str, Any]) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def _shards_come_and_go(cluster: KubeCluster) -> None:
    body = {"metadata": {"name": "a100"}, "spec": {"partitionLabelValue": "a100"}}
    await cluster.writer.create(SHARD, body)
    await _until(cluster, lambda: _is_ready(cluster, SHARD, "a100"), "shard a100 ready")
    await cluster.writer.delete(SHARD, Key("", "a100"))

    async def gone() -> bool:
        names = {one["metadata"]["name"] for one in (await cluster.reader.list(DEPLOYMENT)).objects}
        return "kai-scheduler-a100" not in names and "kai-scheduler-default" in names

    await _until(cluster, gone, "the scheduler of a100 is gone")


def _run(plane: ControlPlane, *arguments: str) -> str:
    kubeconfig = ["--kubeconfig", str(plane.kubeconfig())]
    result = CliRunner().invoke(app, [arguments[0], *kubeconfig, *arguments[1:]])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.row(80)
def test_one_line_of_kubectl_installs_everything(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "-k", str(ROOT / "deploy"))

    async def story(cluster: KubeCluster) -> None:
        await _is_quiet_and_complete(cluster)
        await _shards_come_and_go(cluster)

    asyncio.run(_operate(plane, story, makes_defaults=True))


@pytest.mark.helm
def test_the_chart_installs_upgrades_goes_back_and_leaves_what_others_need(
    plane: ControlPlane,
) -> None:
    # Whoever installed before left it, and not Helm.
    plane.kubectl("create", "namespace", "kai-resource-reservation")
    chart = ["muster", str(ROOT / "deploy" / "chart"), "--namespace", HERE]
    values = ["--set", "global.registry=registry.example", "--set", "global.tag=1"]
    _helm(plane, "install", *chart, "--create-namespace", *values)
    # Before anybody is asked about queues: there is nobody in this test who would answer.
    plane.kubectl("patch", "queue", "default-queue", "--type=merge", "-p", _QUOTA)
    asyncio.run(_operate(plane, _is_quiet_and_complete, makes_defaults=False))
    _helm(plane, "upgrade", *chart, *values, "--set", "global.gpuSharing=true")
    shared = plane.kubectl("get", "config", "kai-config", "-o", "jsonpath={.spec.admission}")
    assert json.loads(shared)["gpuSharing"] is True
    _helm(plane, "rollback", "muster", "1", "--namespace", HERE)
    shared = plane.kubectl("get", "config", "kai-config", "-o", "jsonpath={.spec.admission}")
    assert json.loads(shared)["gpuSharing"] is False
    quota = ("get", "queue", "default-queue", "-o", "jsonpath={.spec.resources.gpu.quota}")
    assert plane.kubectl(*quota) == "5", "queues are the user's"
    _helm(plane, "uninstall", "muster", "--namespace", HERE)
    assert "default-queue" in plane.kubectl("get", "queues", "-o", "name")
    assert "queues.scheduling.run.ai" in plane.kubectl("get", "crds", "-o", "name")
    left = plane.kubectl("get", "namespaces", "-o", "name")
    assert "kai-resource-reservation" in left, "running pods may be in it"
    assert "kai-scale-adjust" in left


_QUOTA = '{"spec": {"resources": {"gpu": {"quota": 5}}}}'


def _helm(plane: ControlPlane, *arguments: str) -> None:
    program = helm_program(ROOT)
    command = [str(program), *arguments, "--kubeconfig", str(plane.kubeconfig())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr


def test_muster_install_says_does_and_undoes(plane: ControlPlane) -> None:
    said = _run(plane, "install", "--dry-run")
    assert f"would create Deployment {HERE}/{OPERATOR}" in said
    assert "muster" not in plane.kubectl("get", "clusterroles", "-o", "name")
    _run(plane, "install", "--image-repository", "registry.example", "--image-tag", "1")
    again = _run(plane, "install", "--image-repository", "registry.example", "--image-tag", "1")
    assert "changed" not in again
    assert "created" not in again
    asyncio.run(_operate(plane, _is_quiet_and_complete, makes_defaults=False))
    _run(plane, "uninstall")
    left = plane.kubectl("get", "deployments,services,secrets", "-n", HERE, "-o", "name")
    assert left.strip() == ""
    assert "default-queue" in plane.kubectl("get", "queues", "-o", "name")


@pytest.mark.helm
def test_who_goes_on_in_another_way_than_the_product_was_installed_is_told(
    start_control_plane: StartControlPlane,
) -> None:
    plane = start_control_plane(Setup())
    release = ["--namespace", HERE]
    chart = ["install", "muster", str(ROOT / "deploy" / "chart"), *release, "--create-namespace"]
    _helm(plane, *chart)
    held = _operator(plane)
    assert "go on with helm upgrade muster" in _fails(lambda: _run(plane, "install"))
    assert "conflict with" in _fails(lambda: _apply_files(plane))
    assert _operator(plane) == held
    _run(plane, "uninstall")
    _helm(plane, "uninstall", "muster", *release)
    _run(plane, "install", "--image-repository", "registry.example")
    held = _operator(plane)
    assert "invalid ownership metadata" in _fails(lambda: _helm(plane, *chart))
    assert 'conflicts with "muster-install"' in _fails(lambda: _apply_files(plane))
    assert _operator(plane) == held
    _apply_files(plane, "--force-conflicts")
    assert _operator(plane) != held
    _run(plane, "install", "--image-repository", "registry.example")
    assert _operator(plane) == held, "the same again"
    _run(plane, "uninstall")
    _helm(plane, *chart)


def _apply_files(plane: ControlPlane, *arguments: str) -> None:
    plane.kubectl("apply", "--server-side", *arguments, "-k", str(ROOT / "deploy"))


def _operator(plane: ControlPlane) -> tuple[str, str]:
    """What runs as the operator, and what it may do."""
    spec = plane.kubectl("get", "deployment", OPERATOR, "-n", HERE, "-o", "jsonpath={.spec}")
    return spec, plane.kubectl("get", "clusterrole", OPERATOR, "-o", "jsonpath={.rules}")


def _fails(what: Callable[[], object]) -> str:
    with pytest.raises((AssertionError, ProgramFailed)) as failed:
        what()
    return str(failed.value)
