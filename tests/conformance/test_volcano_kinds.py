"""Volcano's CRDs install on both servers, and both accept or refuse the same objects."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.conftest import connected

from muster.client.transport import Request, Transport
from muster.lab.control_plane import ControlPlane
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_TOKEN = "volcano"
_WITHIN_S = 120.0
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "volcano-crds"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
_FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
_TEMPLATES = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobtemplates"
_HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_EXACTLY_N = {"type": "Node", "selector": {"exactMatch": {"name": "n"}}}

OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a queue with nothing said": (_QUEUES, {"spec": {}}),
    "a queue of weight 0": (_QUEUES, {"spec": {"weight": 0}}),
    "a queue with amounts": (_QUEUES, {"spec": {"capability": {"cpu": 4, "memory": "8Gi"}}}),
    "a queue with an amount that is none": (_QUEUES, {"spec": {"deserved": {"cpu": "lots"}}}),
    "a queue with an unknown strategy": (_QUEUES, {"spec": {"dequeueStrategy": "random"}}),
    "a queue with an unknown field": (_QUEUES, {"spec": {"colour": "red"}}),
    "a group with nothing said": (_GROUPS, {"spec": {}}),
    "a group with a topology": (_GROUPS, {"spec": {"networkTopology": {"highestTierAllowed": 1}}}),
    "a group with two tiers": (
        _GROUPS,
        {"spec": {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}},
    ),
    "a group with text for a number": (_GROUPS, {"spec": {"minMember": "4"}}),
    "a job of two tasks": (
        _JOBS,
        {"spec": {"tasks": [{"name": "a", "replicas": 1}, {"name": "b", "template": {"x": 1}}]}},
    ),
    "a job with a partition too small": (
        _JOBS,
        {"spec": {"tasks": [{"partitionPolicy": {"totalPartitions": 0, "partitionSize": 1}}]}},
    ),
    "a job that needs no success": (_JOBS, {"spec": {"minSuccess": 0}}),
    "a hypernode": (
        _HYPERNODES,
        {
            "spec": {
                "tier": 1,
                "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}],
            }
        },
    ),
    "a hypernode that selects twice": (
        _HYPERNODES,
        {
            "spec": {
                "tier": 1,
                "members": [
                    {"type": "Node", "selector": {"exactMatch": {}, "regexMatch": {"pattern": "x"}}}
                ],
            }
        },
    ),
    "a flow": (_FLOWS, {"spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}}),
    "a flow with a step of no name": (_FLOWS, {"spec": {"flows": [{"name": ""}]}}),
    "a flow that keeps its jobs otherwise": (_FLOWS, {"spec": {"jobRetainPolicy": "keep"}}),
    "a template": (_TEMPLATES, {"spec": {"tasks": [{"name": "a", "template": {"x": 1}}]}}),
    "a hypernode without a tier": (_HYPERNODES, {"spec": {"members": []}}),
}


@pytest.fixture
async def embedded() -> AsyncIterator[Transport]:
    async with Embedded(EmbeddedSettings(admin_token=_TOKEN)) as cluster:
        yield cluster.transport(_TOKEN)


@pytest.mark.kube
async def test_both_servers_accept_or_refuse_the_same_volcano_objects(
    embedded: Transport, control_plane: ControlPlane
) -> None:
    real = connected(control_plane.kubeconfig())
    try:
        for transport in (embedded, real):
            await _install(transport)
        for name, (path, body) in OBJECTS.items():
            answers = [await _judged(transport, path, body) for transport in (embedded, real)]
            assert answers[0] == answers[1], name
            assert answers[0]["code"] in (201, 422, 400), name
    finally:
        names = [yaml.safe_load(one.read_text())["metadata"]["name"] for one in _FOLDER.glob("*")]
        for name in names:
            await _call(real, "DELETE", f"{_DEFINITIONS}/{name}")
        for name in names:
            await _until(real, f"{_DEFINITIONS}/{name}", 404)
        await real.close()


async def test_volcano_crds_install_with_defaults_and_validation(embedded: Transport) -> None:
    await _install(embedded)
    path, body = OBJECTS["a queue with nothing said"]
    queue = await _judged(embedded, path, body)
    assert queue["spec"] == {"weight": 1, "dequeueStrategy": "traverse"}
    assert (await _judged(embedded, *OBJECTS["a queue of weight 0"]))["code"] == 422


async def _install(transport: Transport) -> None:
    """Each definition, and a wait until its kind is served."""
    for path in sorted(_FOLDER.glob("*.yaml")):
        definition = yaml.safe_load(path.read_text())
        code, _ = await _call(transport, "POST", _DEFINITIONS, definition)
        assert code == 201, path.name
        spec = definition["spec"]
        where = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        await _until(transport, where, 200)


async def _until(transport: Transport, path: str, wanted: int) -> None:
    async with asyncio.timeout(_WITHIN_S):
        # Neither server has an event for it.
        while (await _call(transport, "GET", path))[0] != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _judged(transport: Transport, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a creation that is not carried out: code, stored spec, refused fields."""
    kind = {"queues": "Queue", "podgroups": "PodGroup", "jobs": "Job", "hypernodes": "HyperNode"}
    kind |= {"jobflows": "JobFlow", "jobtemplates": "JobTemplate"}
    group_version = path.split("/apis/")[1].split("/namespaces")[0].split("/")
    whole = {
        "apiVersion": "/".join(group_version[:2]),
        "kind": kind[path.rsplit("/", 1)[1]],
        "metadata": {"name": "one"},
        **body,
    }
    code, answer = await _call(transport, "POST", f"{path}", whole, dry_run=True)
    causes = ((answer.get("details") or {}).get("causes")) or []
    fields = sorted({cause.get("field", "") for cause in causes})
    return {"code": code, "spec": answer.get("spec"), "fields": fields}


async def _call(
    transport: Transport, method: str, path: str, body: Any = None, dry_run: bool = False
) -> tuple[int, dict[str, Any]]:
    sent = b"" if body is None else json.dumps(body).encode()
    query = (("dryRun", "All"),) if dry_run else ()
    headers = {"content-type": "application/json"}
    response = await transport.send(Request(method, path, query, headers, sent))
    try:
        read = await response.read()
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.status, json.loads(read) if is_json else {}
    finally:
        await response.close()
