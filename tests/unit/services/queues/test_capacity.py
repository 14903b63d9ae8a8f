"""What nodes have, counted as queues are charged: MIG by slices, devices of slices as GPUs."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Node
from muster.api.devices import ResourceSlice
from muster.numerics.axis import QUEUE_RESOURCES
from muster.services.queues.capacity import node_capacity, total


def node(**allocatable: str) -> Node:
    amounts = {name.replace("_", "/", 1).replace("_", "."): v for name, v in allocatable.items()}
    status = {"allocatable": amounts}
    return from_builtins(Node, {"metadata": {"name": "n"}, "status": status})


def device_slice(devices: int, driver: str = "gpu.nvidia.com") -> ResourceSlice:
    listed: list[Any] = [{"name": f"gpu-{number}"} for number in range(devices)]
    spec = {
        "driver": driver,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": listed,
    }
    return from_builtins(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})


def shown(amounts: Any) -> dict[str, float]:
    return dict(zip(QUEUE_RESOURCES, amounts.tolist(), strict=True))


def test_a_node_has_cores_bytes_and_gpus() -> None:
    body = {"cpu": "3500m", "memory": "2Gi", "nvidia.com/gpu": "8"}
    plain = from_builtins(Node, {"metadata": {"name": "n"}, "status": {"allocatable": body}})
    found = shown(node_capacity(plain))
    assert (found["cpu"], found["memory"], found["gpu"]) == (3.5, 2 * 2**30, 8)


@pytest.mark.parametrize(
    ("allocatable", "gpus"),
    [
        ({"nvidia.com/mig-1g.5gb": "7"}, 7),
        ({"nvidia.com/mig-3g.20gb": "2", "nvidia.com/gpu": "1"}, 7),
        ({"cpu": "8"}, 0),
    ],
)
def test_mig_devices_count_by_their_slices(allocatable: dict[str, str], gpus: float) -> None:
    body = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    assert shown(node_capacity(from_builtins(Node, body)))["gpu"] == gpus


def test_devices_of_resource_slices_count_as_gpus() -> None:
    assert shown(node_capacity(node(cpu="8"), [device_slice(4)]))["gpu"] == 4


def test_nodes_add_up() -> None:
    assert shown(total([node_capacity(node(cpu="8")), node_capacity(node(cpu="4"))]))["cpu"] == 12
