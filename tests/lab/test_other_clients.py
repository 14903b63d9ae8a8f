"""Other people's clients against the embedded cluster: the official one, kr8s, kopf."""

import asyncio
import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.laptop import Laptop, laptop

pytestmark = [pytest.mark.slow, pytest.mark.processes]

# Its types ask for its own classes where it takes plain JSON as well.
kubernetes: Any = importlib.import_module("kubernetes")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with laptop(tmp_path_factory.mktemp("laptop")) as found:
        yield found


def test_the_official_client_works(running: Laptop) -> None:
    api_client = kubernetes.config.new_client_from_config(str(running.kubeconfig))
    core, apps = kubernetes.client.CoreV1Api(api_client), kubernetes.client.AppsV1Api(api_client)
    assert [node.metadata.name for node in core.list_node().items] == ["node-0", "node-1", "node-2"]
    core.create_namespaced_config_map(
        "default", {"metadata": {"name": "official"}, "data": {"a": "b"}}
    )
    core.patch_namespaced_config_map("official", "default", {"data": {"c": "d"}})
    assert core.read_namespaced_config_map("official", "default").data == {"a": "b", "c": "d"}
    seen = []
    watch = kubernetes.watch.Watch()
    for event in watch.stream(core.list_namespaced_config_map, "default", timeout_seconds=5):
        seen.append((event["type"], event["object"].metadata.name))
        if ("ADDED", "official") in seen:
            watch.stop()
    assert ("ADDED", "official") in seen
    body = {
        "metadata": {"name": "official"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "o"}},
            "template": {
                "metadata": {"labels": {"app": "o"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    }
    apps.create_namespaced_deployment("default", body)
    apps.patch_namespaced_deployment_scale("official", "default", {"spec": {"replicas": 1}})
    assert apps.read_namespaced_deployment_scale("official", "default").spec.replicas == 1
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_config_map("nothing", "default")
    assert refused.value.status == 404
    apps.delete_namespaced_deployment("official", "default")
    core.delete_namespaced_config_map("official", "default")


async def test_kr8s_works(running: Laptop) -> None:
    import kr8s
    from kr8s.asyncio.objects import Pod

    api = await kr8s.asyncio.api(kubeconfig=str(running.kubeconfig))
    pod = await Pod(
        {"metadata": {"name": "kr8s"}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        namespace="default",
        api=api,
    )
    await pod.create()
    await pod.wait("condition=Ready", timeout=120)
    pods = api.get("pods", namespace="default", field_selector="metadata.name=kr8s")
    found: list[Any] = [one async for one in pods]
    assert [one.name for one in found] == ["kr8s"]
    await pod.label(said="so")
    await pod.refresh()
    assert pod.labels["said"] == "so"
    await pod.delete()


def test_a_kopf_operator_works(running: Laptop, tmp_path: Path) -> None:
    """The operator runs as its own process, as operators do."""
    operator = tmp_path / "operator.py"
    operator.write_text(
        textwrap.dedent(
            """
            import kopf

            @kopf.on.create("configmaps", labels={"tended": "yes"})
            def tend(patch, **_):
                patch.metadata.annotations["tended"] = "true"
            """
        )
    )
    environment = {**os.environ, "KUBECONFIG": str(running.kubeconfig)}
    process = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--namespace", "default", str(operator)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        api_client = kubernetes.config.new_client_from_config(str(running.kubeconfig))
        core = kubernetes.client.CoreV1Api(api_client)
        meta = {"name": "tended", "labels": {"tended": "yes"}}
        core.create_namespaced_config_map("default", {"metadata": meta})
        annotations = asyncio.run(_annotated(core))
        assert annotations["tended"] == "true"
    finally:
        process.terminate()
        process.communicate(timeout=120)


async def _annotated(core: Any) -> dict[str, str]:
    """The annotations, once the operator has been there."""
    async with asyncio.timeout(120):
        while True:
            found = await asyncio.to_thread(core.read_namespaced_config_map, "tended", "default")
            if "tended" in (found.metadata.annotations or {}):
                return dict(found.metadata.annotations)
            await asyncio.sleep(0.1)
