"""Workloads come out alike under Kubernetes' own controllers and under ours."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.conformance.conftest import connected

from muster.base.clock import SystemClock
from muster.base.log import Level
from muster.client.transport import Request, Transport
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.control_plane import ControlPlane
from muster.sim.kubelet.nodes import NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

_NODE = "conformance-node"
_QUICK = Habits(start=Chance(mean_s=0.05), run=Chance(mean_s=0.2), stop=Chance(mean_s=0.05))
_POD = {"nodeName": _NODE, "containers": [{"name": "main", "image": "x"}]}
# The real kubelets here are kwok's, and end only pods that say so.
_ENDING = {"metadata": {"annotations": {"muster.lab/finishes": "true"}}}
_WEB = {"selector": {"matchLabels": {"app": "web"}}}
_WEB_POD = {"metadata": {"labels": {"app": "web"}}, "spec": _POD}

# What is compared of each object: everything but what no two runs have in common.
WORKLOADS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "deployment": (
        "/apis/apps/v1",
        "deployments",
        {"spec": {"replicas": 3, "template": _WEB_POD, **_WEB}},
    ),
    "stateful set": (
        "/apis/apps/v1",
        "statefulsets",
        {"spec": {"replicas": 2, "serviceName": "web", "template": _WEB_POD, **_WEB}},
    ),
    "job": (
        "/apis/batch/v1",
        "jobs",
        {
            "spec": {
                "completions": 3,
                "parallelism": 2,
                "template": {**_ENDING, "spec": {"restartPolicy": "Never", **_POD}},
            }
        },
    ),
    "indexed job": (
        "/apis/batch/v1",
        "jobs",
        {
            "spec": {
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "template": {**_ENDING, "spec": {"restartPolicy": "Never", **_POD}},
            }
        },
    ),
    "suspended job": (
        "/apis/batch/v1",
        "jobs",
        {"spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", **_POD}}}},
    ),
}


class Api:
    """JSON to and from one server, in one namespace."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self.namespace = namespace

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        sent = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, (), {"content-type": "application/json"}, sent)
        response = await self._transport.send(request, 20.0)
        return response.status, json.loads(await response.read())

    async def outcome(self, root: str, plural: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The workload and its pods when nothing changes any more."""
        space = {"metadata": {"name": self.namespace}}
        await self.call("POST", "/api/v1/namespaces", space)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        await _until(lambda: self.call("GET", account), lambda answer: answer[0] == 200)
        path = f"{root}/namespaces/{self.namespace}/{plural}"
        status, made = await self.call("POST", path, {"metadata": {"name": "web"}, **body})
        assert status == 201, made
        _, found = await _until(
            lambda: self.call("GET", f"{path}/web"), lambda answer: _is_done(answer[1])
        )
        pods = await self.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        return {"workload": _status(found), "pods": _pods(pods[1]["items"])}


Answer = tuple[int, Any]


async def _until(ask: Callable[[], Awaitable[Answer]], wanted: Callable[[Answer], bool]) -> Answer:
    async with asyncio.timeout(60):
        while True:
            answer = await ask()
            if wanted(answer):
                return answer
            await asyncio.sleep(0.05)


@pytest.fixture
async def real_api(controlled_plane: ControlPlane, new_name: str) -> AsyncIterator[Api]:
    transport = connected(controlled_plane.kubeconfig())
    api = Api(transport, new_name)
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    node = {"metadata": {"name": _NODE}, "status": {"capacity": capacity, "allocatable": capacity}}
    await api.call("POST", "/api/v1/nodes", node)
    yield api
    await transport.close()


@pytest.fixture
async def our_api(new_name: str) -> AsyncIterator[Api]:
    plan = ClusterPlan(nodes=(NodeGroup(_NODE),), habits=_QUICK, log_level=Level.ERROR)
    async with Cluster(plan, clock=SystemClock()) as lab:
        yield Api(lab.transport("test"), new_name)


@pytest.mark.kube
@pytest.mark.parametrize("name", WORKLOADS)
async def test_a_workload_has_the_same_outcome_under_kubernetes_controllers_and_ours(
    name: str, real_api: Api, our_api: Api
) -> None:
    ours, theirs = await asyncio.gather(
        our_api.outcome(*WORKLOADS[name]), real_api.outcome(*WORKLOADS[name])
    )
    differing = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]}
    assert not differing, json.dumps(differing, indent=1)


def _is_done(found: Mapping[str, Any]) -> bool:
    status, spec = found.get("status") or {}, found["spec"]
    if "completionMode" in spec:
        kinds = [each["type"] for each in status.get("conditions") or ()]
        return "Complete" in kinds or "Suspended" in kinds
    wanted = spec["replicas"]
    settled = not any(
        each["reason"] in ("ReplicaSetUpdated", "NewReplicaSetCreated")
        for each in status.get("conditions") or ()
    )
    return settled and status.get("availableReplicas") == wanted == status.get("updatedReplicas")


def _status(found: Mapping[str, Any]) -> dict[str, Any]:
    status = dict(found["status"])
    conditions = [
        (each["type"], each["status"], each.get("reason", ""))
        for each in status.pop("conditions", ())
    ]
    for name in ("startTime", "completionTime", "currentRevision", "updateRevision"):
        status[name] = name in status
    return status | {"conditions": sorted(conditions)}


def _pods(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = []
    for pod in items:
        meta = pod["metadata"]
        (owner,) = meta["ownerReferences"]
        shown.append(
            {
                "named": meta.get("generateName", meta["name"]).count("-"),
                "labels": sorted(meta.get("labels") or {}),
                "annotations": sorted(meta.get("annotations") or {}),
                "owner": (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]),
                "phase": pod["status"]["phase"],
                "hostname": pod["spec"].get("hostname", ""),
                "subdomain": pod["spec"].get("subdomain", ""),
                "env": pod["spec"]["containers"][0].get("env", []),
            }
        )
    return sorted(shown, key=lambda each: json.dumps(each, sort_keys=True))
