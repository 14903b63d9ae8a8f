"""Every field that our structs name is where a real API server puts it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from tests.support.client import client_of
from tests.support.code_names import ROOT
from tests.support.crds import install_crds, until_answered, until_served
from tests.support.kube import new_namespace

from muster.api import kinds
from muster.api.codec import builtins, from_builtins
from muster.api.kinds import Kind
from muster.lab.control_plane import ControlPlane

pytestmark = pytest.mark.kube

Json = dict[str, Any]

_SELECTOR: Json = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
}
_NODE_TERM: Json = {
    "matchExpressions": [{"key": "k", "operator": "Gt", "values": ["3"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
_POD_TERM: Json = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "namespaces": ["x"],
    "topologyKey": "zone",
}
_POD_AFFINITY: Json = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "podAffinityTerm": _POD_TERM}
    ],
}
_AMOUNTS: Json = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
_CONTAINER: Json = {
    "name": "c",
    "image": "i",
    "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu", "request": "r"}]},
    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    "env": [
        {"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": True}}}
    ],
    "envFrom": [{"configMapRef": {"name": "m", "optional": True}}],
    "volumeMounts": [{"name": "v", "mountPath": "/x"}],
}
_CLAIM_SPEC: Json = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
    "selector": _SELECTOR,
}
_POD: Json = {
    "schedulerName": "kai-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
    "nodeSelector": {"zone": "west"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": _NODE_TERM}
            ],
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
    "tolerations": [
        {
            "key": "t",
            "operator": "Equal",
            "value": "v",
            "effect": "NoExecute",
            "tolerationSeconds": 9,
        }
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 2,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _SELECTOR,
            "minDomains": 2,
            "nodeTaintsPolicy": "Honor",
        }
    ],
    "schedulingGates": [{"name": "example.com/wait"}],
    "containers": [_CONTAINER],
    "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}],
    "resources": _AMOUNTS,
    "volumes": [
        {"name": "v", "configMap": {"name": "m", "optional": True}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM_SPEC}}},
        {"name": "j", "projected": {"sources": [{"configMap": {"name": "m", "optional": True}}]}},
        {"name": "d", "csi": {"driver": "csi.example.com"}},
    ],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}],
    "serviceAccountName": "default",
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 3,
    "activeDeadlineSeconds": 99,
}
_REQUESTS: Json = {
    "requests": [
        {
            "name": "r",
            "exactly": {
                "deviceClassName": "gpu",
                "selectors": [{"cel": {"expression": "true"}}],
                "allocationMode": "ExactCount",
                "count": 2,
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
        {"name": "s", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 1}]},
    ],
    "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
    "config": [{"requests": ["r"], "opaque": {"driver": "x.com", "parameters": {"a": 1}}}],
}

_OBJECTS: list[tuple[Kind[Any], Json]] = [
    (kinds.POD, {"spec": _POD}),
    (
        kinds.NODE,
        {
            "spec": {
                "unschedulable": True,
                "providerID": "p://1",
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            }
        },
    ),
    (kinds.NAMESPACE, {}),
    (kinds.CONFIG_MAP, {"data": {"a": "b"}}),
    (
        kinds.PRIORITY_CLASS,
        {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"},
    ),
    (
        kinds.LEASE,
        {
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-02T03:04:05.123456Z",
                "renewTime": "2026-01-02T03:04:05.123456Z",
                "leaseTransitions": 3,
            }
        },
    ),
    (
        kinds.EVENT,
        {
            "involvedObject": {"kind": "Pod", "namespace": "NAMESPACE", "name": "p"},
            "reason": "R",
            "message": "m",
            "type": "Warning",
            "count": 2,
            "source": {"component": "kai-scheduler"},
            "firstTimestamp": "2026-01-02T03:04:05Z",
            "lastTimestamp": "2026-01-02T03:04:05Z",
            "reportingComponent": "kai-scheduler",
        },
    ),
    (
        kinds.POD_DISRUPTION_BUDGET,
        {"spec": {"selector": _SELECTOR, "maxUnavailable": "25%"}},
    ),
    (kinds.PERSISTENT_VOLUME_CLAIM, {"spec": _CLAIM_SPEC}),
    (
        kinds.PERSISTENT_VOLUME,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
                        ]
                    }
                },
            }
        },
    ),
    (
        kinds.STORAGE_CLASS,
        {
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "parameters": {"a": "b"},
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["w"]}]}],
        },
    ),
    (
        kinds.CSI_NODE,
        {
            "spec": {
                "drivers": [
                    {
                        "name": "csi.example.com",
                        "nodeID": "n",
                        "topologyKeys": ["zone"],
                        "allocatable": {"count": 5},
                    }
                ]
            }
        },
    ),
    (kinds.CSI_DRIVER, {"spec": {"storageCapacity": True, "attachRequired": False}}),
    (
        kinds.CSI_STORAGE_CAPACITY,
        {
            "storageClassName": "fast",
            "nodeTopology": _SELECTOR,
            "capacity": "1Gi",
            "maximumVolumeSize": "512Mi",
        },
    ),
    (
        kinds.VOLUME_ATTACHMENT,
        {
            "spec": {
                "attacher": "csi.example.com",
                "nodeName": "n",
                "source": {"persistentVolumeName": "v"},
            }
        },
    ),
    (kinds.RESOURCE_CLAIM, {"spec": {"devices": _REQUESTS}}),
    (kinds.RESOURCE_CLAIM_TEMPLATE, {"spec": {"spec": {"devices": _REQUESTS}}}),
    (
        kinds.RESOURCE_SLICE,
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "numa": {"int": 1},
                            "ready": {"bool": True},
                            "model": {"string": "h"},
                            "driver": {"version": "1.2.3"},
                        },
                        "capacity": {"memory": {"value": "80Gi"}},
                        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
                    }
                ],
            }
        },
    ),
    (
        kinds.DEVICE_CLASS,
        {
            "spec": {
                "selectors": [{"cel": {"expression": "true"}}],
                "config": [{"opaque": {"driver": "x.com", "parameters": {"a": 1}}}],
                "extendedResourceName": "example.com/gpu",
            }
        },
    ),
]
# A server demands these of containers; nobody here reads them.
_UNREAD = {"image", "mountPath"}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_EVERY_KIND = [each for each in vars(kinds).values() if isinstance(each, Kind)]


@pytest.mark.parametrize(
    ("kind", "content"), _OBJECTS, ids=lambda value: getattr(value, "kind", "")
)
def test_structs_hold_every_field_that_the_server_stores(
    control_plane: ControlPlane, kind: Kind[Any], content: Json
) -> None:
    namespace = new_namespace(control_plane) if kind.namespaced else ""
    wanted = _with_namespace(content, namespace)
    body = {"metadata": {"name": "every-field", "labels": {"l": "v"}}, **wanted}
    collection = kind.path(namespace)
    made = control_plane.call("POST", collection, body)
    assert made.status == 201, made
    try:
        read = from_builtins(kind.struct, made.body)
        assert _missing(wanted, builtins(read), "") == []
        assert read.metadata.labels["l"] == "v"
        assert read.metadata.creation_timestamp is not None
    finally:
        control_plane.call("DELETE", f"{collection}/every-field")


@pytest.mark.row(45)
async def test_every_kind_is_listed_at_the_path_of_the_kind_table(
    control_plane: ControlPlane,
) -> None:
    install_crds(control_plane)
    with _kinds_of_other_schedulers(control_plane):
        await _list_every_kind(control_plane)


_OF_OTHERS = (
    kinds.NODE_RESOURCE_TOPOLOGY,
    kinds.NUMATOPOLOGY,
    kinds.CLUSTER_TRAINING_RUNTIME,
    kinds.TRAINING_RUNTIME,
)
"""Installed by whoever exports topologies, and by Kubeflow's trainer: neither by Kubernetes nor by
us."""


async def _list_every_kind(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig()) as client:
        for kind in _EVERY_KIND:
            if kind in _OF_OTHERS:
                continue
            listed = await client.reader.list(kind)
            assert all(isinstance(each, kind.struct) for each in listed.objects)
            assert listed.resource_version != ""


@contextmanager
def _kinds_of_other_schedulers(plane: ControlPlane) -> Iterator[None]:
    """Volcano's and kube-batch's CRDs are served; no other test finds them on its server."""
    folders = ("volcano-crds", "kube-batch-crds")
    files = [path for name in folders for path in sorted((ROOT / "deploy" / name).glob("*.yaml"))]
    crds = [yaml.safe_load(path.read_text()) for path in files]
    try:
        for crd in crds:
            made = plane.call("POST", _CRDS, crd)
            assert made.status == 201, made
        until_served(plane, crds)
        yield
    finally:
        for crd in crds:
            plane.call("DELETE", f"{_CRDS}/{crd['metadata']['name']}")
        until_answered(plane, (f"{_CRDS}/{crd['metadata']['name']}" for crd in crds), 404)


def _with_namespace(content: Any, namespace: str) -> Any:
    if isinstance(content, dict):
        return {key: _with_namespace(value, namespace) for key, value in content.items()}
    return namespace if content == "NAMESPACE" else content


def _missing(wanted: Any, found: Any, path: str) -> list[str]:
    """The paths of what was written and did not come back; the server may append to lists."""
    if isinstance(wanted, dict):
        inside = found if isinstance(found, dict) else {}
        return [
            gone
            for key, value in wanted.items()
            if key not in _UNREAD
            for gone in _missing(value, inside.get(key), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) <= len(found):
        pairs = enumerate(zip(wanted, found, strict=False))
        return [gone for index, (w, f) in pairs for gone in _missing(w, f, f"{path}[{index}]")]
    return [] if wanted == found else [f"{path}: wrote {wanted!r}, read {found!r}"]
