"""`numa-aware`: zones that Volcano's resource exporter publishes, and policies that pods want."""

from typing import Any

import msgspec
import pytest
from tests.support.batch import GIB, Batch, bound, where

from muster.api.numatopology import Numatopology
from muster.api.volcano import NUMA_POLICY
from muster.model.constraint_terms import ContainerRequest
from muster.model.constraints import Constraints
from muster.model.numa import numa_topology
from muster.model.reason_texts import node_counts
from muster.model.reasons import Reason
from muster.model.records import NumaTopology

_CONF = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: numa-aware}]
"""
_STATIC = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"}


def _published(**spec: Any) -> NumaTopology | None:
    """A node with eight CPUs in two zones."""
    detail = {str(cpu): {"numa": cpu // 4, "core": cpu} for cpu in range(8)}
    whole = {
        "policies": _STATIC,
        "numares": {"cpu": {"allocatable": "1-3,6-7", "capacity": 8}},
        "cpuDetail": detail,
        **spec,
    }
    body = {"metadata": {"name": "n"}, "spec": whole}
    return numa_topology(msgspec.convert(body, Numatopology))


def test_zones_have_the_cpus_of_the_node_but_those_that_its_kubelet_keeps() -> None:
    found = _published(resReserved={"cpu": "1500m"})
    assert found is not None
    assert (found.policy, found.scope) == ("single-numa-node", "container")
    assert [(z.name, z.allocatable, z.available) for z in found.zones] == [
        ("node-0", {"cpu": 2000}, {"cpu": 3000}),
        ("node-1", {"cpu": 4000}, {"cpu": 2000}),
    ]


def test_memory_is_in_zones_where_the_kubelet_aligns_it() -> None:
    memory = {"0": {"memoryMap": {"memory": {"allocatable": GIB, "free": 5}}}}
    usual, static = _published(MemoryDetail=memory), _published(
        MemoryDetail=memory, policies={**_STATIC, "MemoryManagerPolicy": "Static"}
    )  # fmt: skip
    assert usual is not None
    assert static is not None
    assert "memory" not in usual.zones[0].allocatable
    assert static.zones[0].allocatable == {"cpu": 4000, "memory": GIB}
    assert static.zones[0].available["memory"] == 5


@pytest.mark.parametrize(
    "spec",
    [
        {"policies": {**_STATIC, "CPUManagerPolicy": "none"}},
        {"policies": {}},
        {"cpuDetail": {}},
        {"cpuDetail": {"one": {"numa": 0}, "-1": {"numa": 3}}},
    ],
)
def test_a_kubelet_that_aligns_nothing_has_no_zones(spec: dict[str, Any]) -> None:
    assert _published(**spec) is None


@pytest.mark.parametrize("text", ["", "x", "5-", "-", "9999999999999999999999", "3-1"])
def test_free_cpus_that_cannot_be_read_are_none(text: str) -> None:
    found = _published(numares={"cpu": {"allocatable": text}}, resReserved={"cpu": "much"})
    assert found is not None
    assert [zone.available["cpu"] for zone in found.zones] == [0, 0]
    assert [zone.allocatable["cpu"] for zone in found.zones] == [4000, 4000]


def _whole_cpus(cpus: int) -> dict[str, Any]:
    containers = (ContainerRequest((("cpu", cpus * 1000),)),)
    constraints = Constraints(is_guaranteed=True, containers=containers)
    return {"cpus": cpus, "constraints": constraints}


def test_a_pod_that_no_zone_has_room_for_is_not_sent_to_be_refused() -> None:
    told = Batch().queue("q").node("split", 8, numa=_published())
    told.gang("wide", "q", 1, waiting=1, **_whole_cpus(5))
    told.gang("near", "q", 1, waiting=1, **_whole_cpus(4))
    assert bound(told.run(_CONF)) == ["near-0"]


@pytest.mark.parametrize(
    ("wish", "node"),
    [
        ("single-numa-node", "single"),
        ("best-effort", "loose"),
        ("restricted", None),
        ("none", "all"),
        ("", "all"),
    ],
)
def test_a_pod_goes_to_nodes_with_the_policy_that_it_names(wish: str, node: str | None) -> None:
    loose = _published(policies={**_STATIC, "TopologyManagerPolicy": "best-effort"})
    told = Batch().queue("q").node("all", 8)
    told.node("single", 8, numa=_published()).node("loose", 8, numa=loose)
    told.gang("new", "q", 1, waiting=1, pods={"notes": {NUMA_POLICY: wish}})
    conf = _CONF.replace("{name: numa-aware}", "{name: numa-aware, arguments: {weight: 0}}")
    assert where(told.run(conf)).get("new-0") == node


def test_where_no_node_has_zones_a_pod_that_names_a_policy_waits() -> None:
    told = Batch().queue("q").node("plain", 8)
    told.gang("new", "q", 1, waiting=1, pods={"notes": {NUMA_POLICY: "restricted"}})
    told.gang("other", "q", 1, waiting=1)
    result = told.run(_CONF)
    assert bound(result) == ["other-0"]
    (why,) = result.explanation.refusals["ns/new"]
    assert [(count.reason, count.subject) for count in why.nodes] == [(Reason.PLUGIN, "numa-aware")]
    assert "1 is refused by plugin numa-aware" in node_counts(why.nodes)
