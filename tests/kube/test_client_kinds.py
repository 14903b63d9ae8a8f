"""One client for the kinds of Kubernetes and for our own: all that a scheduler listens to."""

import asyncio
from typing import Any

import pytest
from tests.support.client import client_of, until
from tests.support.crds import install_crds

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.client.kinds import plainly
from muster.lab.control_plane import ControlPlane
from muster.runtime.supervisor import Supervisor

pytestmark = pytest.mark.kube

_CONTAINER = {"name": "main", "image": "none"}
_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}

# One object of each kind, with the least that the server takes.
OBJECTS: dict[Kind[Any], dict[str, Any]] = {
    kinds.POD: {"spec": {"containers": [_CONTAINER], "schedulerName": "somebody-else"}},
    kinds.NODE: {},
    kinds.CONFIG_MAP: {"data": {"a": "b"}},
    kinds.PRIORITY_CLASS: {"value": 7},
    kinds.PERSISTENT_VOLUME_CLAIM: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    kinds.PERSISTENT_VOLUME: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/none"},
        }
    },
    kinds.STORAGE_CLASS: {"provisioner": "csi.example.com"},
    kinds.CSI_NODE: {"spec": {"drivers": []}},
    kinds.CSI_DRIVER: {"spec": {}},
    kinds.CSI_STORAGE_CAPACITY: {"storageClassName": "x"},
    kinds.RESOURCE_CLAIM: {"spec": {"devices": {"requests": [_REQUEST]}}},
    kinds.RESOURCE_SLICE: {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
    },
    kinds.DEVICE_CLASS: {"spec": {}},
    kinds.POD_DISRUPTION_BUDGET: {"spec": {"minAvailable": 1}},
    kinds.QUEUE: {"spec": {"displayName": "team"}},
    kinds.POD_GROUP: {"spec": {"minMember": 2, "queue": "listened"}},
    kinds.BIND_REQUEST: {"spec": {"podName": "p", "selectedNode": "n"}},
    kinds.TOPOLOGY: {"spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}},
}


@pytest.mark.row(3)
@pytest.mark.row(45)
async def test_every_kind_that_a_scheduler_needs_is_listed_and_watched(
    fresh_control_plane: ControlPlane,
) -> None:
    install_crds(fresh_control_plane)
    async with client_of(fresh_control_plane.kubeconfig()) as client:
        log = Log("t", MemorySink())
        supervisor = Supervisor("listener", client.connection, log=log)
        informers = {kind: supervisor.informer(kind) for kind in OBJECTS}
        running = asyncio.create_task(supervisor.run())
        await until(lambda: not supervisor.readiness(), "every kind is listed")

        async def make(kind: Kind[Any], rest: dict[str, Any]) -> None:
            body = {"metadata": {"name": "listened"}, **rest}
            await client.writer.create(plainly(kind), body, "default" if kind.namespaced else "")

        await asyncio.gather(*(make(kind, rest) for kind, rest in OBJECTS.items()))

        def unheard() -> list[str]:
            return [
                kind.full_name
                for kind, informer in informers.items()
                if Key("default" if kind.namespaced else "", "listened") not in informer.objects
            ]

        await until(lambda: not unheard(), f"every kind is heard; still missing: {unheard()}")
        assert not any(informer.set_aside for informer in informers.values())
        supervisor.stop()
        await running
