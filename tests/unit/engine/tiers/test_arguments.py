"""Each argument of a plugin or action does something, or is said to do nothing."""

from typing import Any

import pytest
from tests.support.batch import GIB, Batch, bound, evicted, where

from muster.api.volcano import SCORING_TYPE, SCORING_WEIGHT
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.model.constraint_terms import ContainerRequest, HostPort, Taint
from muster.model.constraints import Constraints
from muster.model.records import NumaTopology, NumaZone
from muster.model.selectors import Operator, Requirement

_CONF = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: PLUGIN
    arguments: {ARGUMENTS}
"""


def _conf(plugin: str, arguments: str = "") -> str:
    return _CONF.replace("PLUGIN", plugin).replace("ARGUMENTS", arguments)


def _said(conf: str) -> str:
    return "; ".join(str(problem) for problem in parse_for(VOLCANO, conf, "conf").no_effect)


@pytest.mark.row(121)
@pytest.mark.parametrize(
    ("switch", "constraints", "node"),
    [
        ("NodeAffinity", Constraints(node_labels=(Requirement("zone", Operator.IN, ("b",)),)), {}),
        ("TaintToleration", Constraints(), {"taints": "no"}),
        ("NodePorts", Constraints(host_ports=(HostPort(80),)), {}),
    ],
)
def test_a_filter_that_is_switched_off_keeps_nobody_from_a_node(
    switch: str, constraints: Constraints, node: dict[str, Any]
) -> None:
    taints = (Taint("only", "others"),) if node else ()
    told = Batch().queue("q").node("n1", 4, taints=taints)
    told.gang("old", "q", 1, on=["n1"], constraints=Constraints(host_ports=constraints.host_ports))
    told.gang("new", "q", 1, waiting=1, constraints=constraints)
    assert bound(told.run(_conf("predicates"))) == []
    off = _conf("predicates", f"predicate.{switch}Enable: false")
    assert bound(told.run(off)) == ["new-0"]
    assert _said(off) == ""


@pytest.mark.parametrize(
    ("plugin", "arguments", "why"),
    [
        ("predicates", "predicate.DiskPressureEnable: false", "under pressure take nobody"),
        ("predicates", "predicate.VolumeZoneEnable: false", "part of VolumeBinding"),
        ("capacity", "capacity.DRAConsumableCapacityEnable: true", "are counted"),
        ("usage", "usage.heaviness: 3", "known are"),
        ("usage", "estimator: {burst_ratio: 0.5}", "not from limits"),
        ("usage", "estimator: {risk_factor: 0.5}", "0.5 is not possible, 1.2 counts"),
        ("usage", "estimator: {risk: 0.5}", "known are"),
        ("predicates", "predicate.GPUSharingEnable: true", "deviceshare.GPUSharingEnable"),
        ("predicates", "predicate.resources: nvidia.com/gpu", "resource-strategy-fit"),
        ("predicates", "predicate.resources.nvidia.com/gpu.cpu: 8", "resource-strategy-fit"),
        ("predicates", "volumebinding.weight: 3", "not scored"),
        ("resource-strategy-fit", "resources: {'n*a': {weight: 1}}", "at the end of a name"),
        ("resource-strategy-fit", "sra: {resource: x}", "known are"),
        ("resource-strategy-fit", "proportional: {resourceProportion: {x.gpu: 1}}", "known are"),
        ("rescheduling", "metricsPeriod: 5m", "as often as the conf's metrics say"),
        ("rescheduling", "queueSelector: [default]", "pods of all queues may go"),
        ("rescheduling", "labelSelector: {business: offline}", "pods of all labels may go"),
        ("task-topology", "weight: 3", "task-topology.weight"),
        ("numa-aware", "policy: x", "known are weight"),
        ("deviceshare", "deviceshare.NodeLockEnable: true", "one write"),
        ("deviceshare", "deviceshare.AscendHAMiVNPUEnable: true", "NPUs are not served"),
        ("deviceshare", "deviceshare.KnownGeometriesCMName: x", "MIG mode"),
    ],
)
def test_an_argument_that_changes_nothing_is_said_to(plugin: str, arguments: str, why: str) -> None:
    assert why in _said(_conf(plugin, arguments))


@pytest.mark.parametrize(
    ("action", "argument", "why"),
    [
        ("preempt", "minCandidateNodesAbsolute: 5", "all nodes are looked at"),
        ("preempt", "topologyAwarePreemptWorkerNum: 16", "no workers"),
        ("allocate", "predicateErrorCacheEnable: false", "asked once"),
        ("preempt", "predicateErrorCacheEnable: false", "asked once"),
        ("reclaim", "predicateErrorCacheEnable: false", "asked once"),
        ("backfill", "predicateErrorCacheEnable: false", "asked once"),
        ("enqueue", "overcommit-factor: 2", "plugin overcommit"),
        ("gangpreempt", "maxDomain: 3", "known are allowWholeBundle, maxDomains"),
        ("shuffle", "fast: true", "known are none"),
        ("elect", "x: y", "known are allocate"),
    ],
)
def test_so_is_an_argument_of_an_action(action: str, argument: str, why: str) -> None:
    more = f"configurations: [{{name: {action}, arguments: {{{argument}}}}}]\n"
    assert why in _said(_conf("predicates") + more)


def test_arguments_that_are_used_are_no_warning() -> None:
    more = "configurations: [{name: preempt, arguments: {enableTopologyAwarePreemption: true}}]\n"
    assert _said(_conf("predicates") + more) == ""


# -- resource-strategy-fit ------------------------------------------------------------------------

_LEAST = _conf("resource-strategy-fit", "resources: {cpu: {type: LeastAllocated, weight: 1}}")


def _uneven(**notes: str) -> dict[str, str]:
    told = Batch().queue("q").node("empty", 8).node("full", 8)
    told.gang("old", "q", 1, on=["full"] * 4)
    said = {name.replace("_", "/"): text for name, text in notes.items()}
    return where(told.gang("new", "q", 1, waiting=1, pods={"notes": said}).run(_LEAST))


def test_a_pod_says_itself_whether_it_wants_full_or_empty_nodes() -> None:
    assert _uneven() == {"new-0": "empty"}
    assert _uneven(**{SCORING_TYPE: "MostAllocated"}) == {"new-0": "full"}
    assert _uneven(**{SCORING_TYPE: "Sideways"}) == {"new-0": "empty"}


def test_a_pod_says_itself_which_resources_count() -> None:
    told = Batch().queue("q").node("a", 8, gib=64).node("b", 8, gib=64)
    told.gang("cores", "q", 1, on=["b"] * 2, request={"memory": GIB})
    told.gang("bytes", "q", 1, on=["a"], request={"memory": 32 * GIB})
    told.gang("new", "q", 1, waiting=1, request={"memory": GIB})
    assert where(told.run(_LEAST)) == {"new-0": "a"}
    told.tasks[-1:] = []
    told.jobs[-1:] = []
    notes = {SCORING_WEIGHT: '{"memory": 3}'}
    told.gang("new", "q", 1, waiting=1, request={"memory": GIB}, pods={"notes": notes})
    assert where(told.run(_LEAST)) == {"new-0": "b"}


@pytest.mark.parametrize(("name", "node"), [("nvidia.com/*", "full"), ("amd.com/g*", "empty")])
def test_a_star_stands_for_whatever_a_resource_is_called_behind_it(name: str, node: str) -> None:
    """Cards are counted under one name, whoever made them."""
    told = Batch().queue("q").node("empty", 8, has={"gpu": 8000}).node("full", 8, has={"gpu": 8000})
    told.gang("old", "q", 1, on=["full"] * 2, request={"gpu": 1000})
    told.gang("new", "q", 1, waiting=1, request={"gpu": 1000})
    kind = "MostAllocated" if name == "nvidia.com/*" else "LeastAllocated"
    conf = _conf("resource-strategy-fit", f"resources: {{'{name}': {{type: {kind}}}}}")
    assert where(told.run(conf)) == {"new-0": node}


_KEEPS = "proportional: {enable: true, resources: nvidia.com/gpu RATES}"


@pytest.mark.parametrize(
    ("rates", "starts"),
    [
        ("", ["new-0"]),
        (", resourceProportion: {nvidia.com/gpu.cpu: 3}", ["new-0"]),
        (", resourceProportion: {nvidia.com/gpu.cpu: 4}", []),
        (", resourceProportion: {nvidia.com/gpu.memory: 34}", []),
        (", resourceProportion: {nvidia.com/gpu.memory: -5}", ["new-0"]),
    ],
)
def test_who_asks_for_no_card_leaves_cores_and_memory_beside_each(
    rates: str, starts: list[str]
) -> None:
    """Two cards are idle; with 3 cores for each, of 8 one may go."""
    told = Batch().queue("q").node("n1", 8, gib=64, has={"gpu": 2000})
    told.gang("new", "q", 1, waiting=1, cpus=2, request={"memory": GIB})
    conf = _conf("resource-strategy-fit", _KEEPS.replace(" RATES", rates))
    assert bound(told.run(conf)) == starts
    assert _said(conf) == ""


def test_who_asks_for_one_scarce_resource_need_leave_nothing_beside_another() -> None:
    told = Batch().queue("q").node("n1", 8, has={"gpu": 2000, "x.io/fpga": 1})
    told.gang("new", "q", 1, waiting=1, cpus=8, request={"x.io/fpga": 1})
    both = _KEEPS.replace("nvidia.com/gpu RATES", '"nvidia.com/gpu, x.io/fpga"')
    assert bound(told.run(_conf("resource-strategy-fit", both))) == ["new-0"]


# -- resourcequota --------------------------------------------------------------------------------

_QUOTAS = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: resourcequota}]
- plugins: [{name: predicates}]
"""


def _shared(hard: dict[str, str]) -> list[str]:
    told = Batch().queue("q").node("n1", 6)
    for namespace in ("heavy", "light"):
        for number in range(6):
            told.gang(f"{namespace}-{number}", "q", 1, waiting=1, namespace=namespace)
    quota = {"metadata": {}, "spec": {"hard": hard}}
    told.seen(others={"resourcequotas": {"heavy/quota": quota}})
    return [name.partition("-")[0] for name in bound(told.run(_QUOTAS))]


@pytest.mark.row(158)
def test_namespaces_share_a_queue_by_the_weight_that_their_quotas_say() -> None:
    found = _shared({"volcano.sh/namespace.weight": "2"})
    assert (found.count("heavy"), found.count("light")) == (4, 2)


@pytest.mark.row(158)
@pytest.mark.parametrize("weight", [None, "0", "-3", "much"])
def test_without_a_weight_the_order_of_jobs_is_as_it_was(weight: str | None) -> None:
    hard = {} if weight is None else {"volcano.sh/namespace.weight": weight}
    assert _shared(hard) == ["heavy"] * 6


def test_groups_of_one_moment_share_what_the_quota_of_their_namespace_leaves() -> None:
    conf = _QUOTAS.replace('"allocate"', '"enqueue, allocate"')
    told = Batch().queue("q").node("n1", 10)
    for number in range(4):
        told.gang(f"g{number}", "q", 1, waiting=1, phase="Pending", min_cpus=2)
    quota = {"status": {"hard": {"requests.cpu": "6"}, "used": {"requests.cpu": "1"}}}
    told.seen(others={"resourcequotas": {"ns/quota": quota}})
    assert len(bound(told.run(conf))) == 2


@pytest.mark.parametrize("name", ["pods", "count/pods"])
def test_a_quota_of_pods_bounds_the_groups_that_are_let_in(name: str) -> None:
    told = Batch().queue("q").node("n1", 10)
    for number in range(3):
        told.gang(f"g{number}", "q", 2, waiting=2, phase="Pending", min_cpus=2)
    told.seen(others={"resourcequotas": {"ns/quota": {"spec": {"hard": {name: "4"}}}}})
    conf = _QUOTAS.replace('"allocate"', '"enqueue, allocate"')
    assert told.run(conf).plan.admitted == ("ns/g0", "ns/g1")


def test_a_victim_that_a_filter_would_not_need_is_not_taken() -> None:
    told = Batch().queue("q").node("n1", 1)
    told.gang("low", "q", 0, on=["n1"]).gang("high", "q", 1, waiting=1, priority=5)
    conf = _conf("predicates").replace('"allocate"', '"preempt"').replace("gang", "priority")
    assert evicted(told.run(conf)) == ["low-0"]


def test_the_weight_of_numa_aware_is_what_fewer_zones_count() -> None:
    half = {"cpu": 5000, "memory": 32 * GIB}
    two = tuple(NumaZone(f"node-{n}", half, half) for n in range(2))
    all_ = {"cpu": 10_000, "memory": 64 * GIB}
    told = Batch().queue("q").node("split", 10, numa=NumaTopology(two, "best-effort", "pod"))
    told.node(
        "whole", 10, numa=NumaTopology((NumaZone("node-0", all_, all_),), "best-effort", "pod")
    )
    told.gang("old", "q", 1, on=["split"] * 4)
    told.gang(
        "new",
        "q",
        1,
        waiting=1,
        cpus=6,
        constraints=Constraints(
            is_guaranteed=True, containers=(ContainerRequest((("cpu", 6000),)),)
        ),
    )
    conf = (
        _conf("numa-aware", "weight: WEIGHT")
        + "  - {name: binpack, arguments: {binpack.memory: 0}}\n"
    )
    assert where(told.run(conf.replace("WEIGHT", "0"))) == {"new-0": "split"}
    assert where(told.run(conf.replace("WEIGHT", "5"))) == {"new-0": "whole"}
