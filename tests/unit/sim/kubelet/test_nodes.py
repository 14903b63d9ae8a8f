"""Nodes from groups: labels and resources as the GPU operator sets them."""

from muster.sim.kubelet.nodes import (
    Gpus,
    NodeGroup,
    nodes_of,
    resource_slice,
)


def test_gpus_are_allocatable_and_labelled() -> None:
    (node,) = nodes_of([NodeGroup("dgx", gpus=Gpus())], 0.0)
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/mig.strategy"] == "single"


def test_mig_slices_replace_their_gpus() -> None:
    gpus = Gpus(count=8, mig={"1g.10gb": 14}, mig_gpus=2)
    (node,) = nodes_of([NodeGroup("mig", gpus=gpus)], 0.0)
    capacity, labels = node["status"]["capacity"], node["metadata"]["labels"]
    assert (capacity["nvidia.com/gpu"], capacity["nvidia.com/mig-1g.10gb"]) == ("6", "14")
    assert labels["nvidia.com/mig-1g.10gb.count"] == "14"
    assert labels["nvidia.com/mig-1g.10gb.memory"] == "10240"
    assert labels["nvidia.com/mig.strategy"] == "mixed"


def test_a_topology_divides_a_node_group_into_domains_of_its_size() -> None:
    group = NodeGroup("n", count=5, topology={"example.com/rack": 2})
    racks = [node["metadata"]["labels"]["example.com/rack"] for node in nodes_of([group], 0.0)]
    assert racks == ["rack-0", "rack-0", "rack-1", "rack-1", "rack-2"]


def test_five_thousand_nodes_have_unique_names_and_addresses() -> None:
    nodes = nodes_of([NodeGroup("a", count=2500), NodeGroup("b", count=2500)], 0.0)
    assert len({node["metadata"]["name"] for node in nodes}) == 5000
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 5000
    assert len({node["spec"]["podCIDR"] for node in nodes}) == 5000


def test_gpus_can_be_published_as_a_resource_slice() -> None:
    (node,) = nodes_of([NodeGroup("n")], 0.0)
    made = resource_slice(node, Gpus(count=2, driver="gpu.nvidia.com"))
    assert [device["name"] for device in made["spec"]["devices"]] == ["gpu-0", "gpu-1"]
    assert made["spec"]["nodeName"] == "n"
