"""Nodes as data: groups of equal nodes, and the Node objects that they become.

GPUs are labelled and offered as the GPU operator
does it; MIG slices, a topology of labels, and devices for dynamic allocation are options.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from muster.base.timefmt import rfc3339

KUBELET_VERSION: Final = "v1.36.0"
_MIG: Final = re.compile(r"(?P<slices>\d+)g\.(?P<memory_gb>\d+)gb", re.ASCII)
_COUNT_MAX: Final = 65_000


class Gpus(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The GPUs of each node of a group."""

    count: Annotated[int, msgspec.Meta(ge=0)] = 8
    product: str = "NVIDIA-H100-80GB-HBM3"
    memory_mib: int = 81559
    family: str = "hopper"
    # MIG resources of each node, by profile: {"1g.10gb": 7}. Their GPUs are not offered whole.
    mig: Mapping[str, int] = {}
    mig_gpus: int = 0
    # Offer the GPUs also (or only) as devices of a ResourceSlice, under this driver's name.
    driver: str = ""


class NodeGroup(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A number of equal nodes."""

    name: str = "node"
    count: Annotated[int, msgspec.Meta(ge=0, le=_COUNT_MAX)] = 1
    cpu: str = "64"
    memory: str = "512Gi"
    ephemeral_storage: str = "1Ti"
    pods: int = 110
    gpus: Gpus | None = None
    resources: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    # label: nodes per value; {"rack": 16} gives the first 16 nodes rack-0, the next rack-1, ...
    topology: Mapping[str, Annotated[int, msgspec.Meta(ge=1)]] = {}
    taints: Sequence[Mapping[str, str]] = ()
    unschedulable: bool = False


def nodes_of(groups: Sequence[NodeGroup], now_s: float) -> list[dict[str, Any]]:
    """The Node objects of all groups, ready and with their addresses."""
    nodes: list[dict[str, Any]] = []
    for group in groups:
        for place in range(group.count):
            nodes.append(_node(group, place, len(nodes), now_s))
    return nodes


def resource_slice(node: Mapping[str, Any], gpus: Gpus) -> dict[str, Any]:
    """The GPUs of a node as devices of dynamic resource allocation."""
    name = node["metadata"]["name"]
    devices = [
        {
            "name": f"gpu-{place}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": gpus.product.replace("-", " ")},
                "uuid": {"string": gpu_uuid(name, place)},
                "index": {"int": place},
            },
            "capacity": {"memory": {"value": f"{gpus.memory_mib}Mi"}},
        }
        for place in range(gpus.count)
    ]
    return {
        "metadata": {"name": f"{name}-{gpus.driver.replace('.', '-')}"},
        "spec": {
            "driver": gpus.driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def gpu_uuid(node: str, place: int) -> str:
    """A GPU's own name: stable from run to run."""
    return f"GPU-{node}-{place}"


def conditions(now_s: float, since_s: float) -> list[dict[str, Any]]:
    """The conditions of a healthy node."""
    fine = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    entries = [(kind, "False", reason, message) for kind, reason, message in fine]
    entries.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": rfc3339(now_s),
            "lastTransitionTime": rfc3339(since_s),
        }
        for kind, status, reason, message in entries
    ]


def node_ip(number: int) -> str:
    return f"172.{16 + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def pod_network(number: int) -> str:
    """The addresses of the pods of a node."""
    return f"10.{number >> 8}.{number & 255}.0/24"


def _node(group: NodeGroup, place: int, number: int, now_s: float) -> dict[str, Any]:
    name = group.name if group.count == 1 else f"{group.name}-{place}"
    spec: dict[str, Any] = {"podCIDR": pod_network(number), "podCIDRs": [pod_network(number)]}
    spec["providerID"] = f"muster://{name}"
    if group.taints:
        spec["taints"] = [dict(taint) for taint in group.taints]
    if group.unschedulable:
        spec["unschedulable"] = True
    capacity = _capacity(group)
    return {
        "metadata": {"name": name, "labels": _labels(group, name, place)},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": [
                {"type": "InternalIP", "address": node_ip(number)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": conditions(now_s, now_s),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _node_info(name),
        },
    }


def _capacity(group: NodeGroup) -> dict[str, str]:
    capacity = {
        "cpu": group.cpu,
        "memory": group.memory,
        "ephemeral-storage": group.ephemeral_storage,
        "pods": str(group.pods),
    }
    if group.gpus is not None:
        whole = group.gpus.count - group.gpus.mig_gpus
        if whole > 0 or not group.gpus.mig:
            capacity["nvidia.com/gpu"] = str(max(whole, 0))
        for profile, count in group.gpus.mig.items():
            capacity[f"nvidia.com/mig-{profile}"] = str(count)
    return capacity | dict(group.resources)


def _labels(group: NodeGroup, name: str, place: int) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
    }
    if group.gpus is not None and group.gpus.count:
        labels |= _gpu_labels(group.gpus)
    for label, size in group.topology.items():
        labels[label] = f"{label.rpartition('/')[2]}-{place // size}"
    return labels | dict(group.labels)


def _gpu_labels(gpus: Gpus) -> dict[str, str]:
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.count": str(gpus.count),
        "nvidia.com/gpu.memory": str(gpus.memory_mib),
        "nvidia.com/gpu.product": gpus.product,
        "nvidia.com/gpu.family": gpus.family,
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/mig.capable": "true" if gpus.mig else "false",
        "nvidia.com/mig.strategy": "mixed" if gpus.mig else "single",
    }
    if gpus.mig:
        labels["nvidia.com/mig.config.state"] = "success"
    for profile, count in gpus.mig.items():
        prefix = f"nvidia.com/mig-{profile}"
        match = _MIG.match(profile)
        labels[f"{prefix}.count"] = str(count)
        labels[f"{prefix}.product"] = f"{gpus.product}-MIG-{profile}"
        if match is not None:
            labels[f"{prefix}.memory"] = str(int(match["memory_gb"]) * 1024)
            labels[f"{prefix}.slices.gi"] = match["slices"]
    return labels


def _node_info(name: str) -> dict[str, str]:
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "muster://1",
        "kernelVersion": "6.1",
        "osImage": "muster",
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
    }
