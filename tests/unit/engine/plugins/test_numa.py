"""NUMA alignment: policies, scopes, zones in use, recorded placements."""

import json
from typing import Any

import numpy as np
import pytest

from muster.api.bindrequest import NUMAZone
from muster.api.codec import decode
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import Bind
from muster.engine.plugins.numa.plugin import Numa
from muster.model.constraint_terms import ContainerKind, ContainerRequest
from muster.model.constraints import Constraints
from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.numa import numa_place, numa_topology
from muster.model.reasons import Reason
from muster.model.records import (
    ClusterRecords,
    NodeRecord,
    NumaShare,
    NumaTopology,
    NumaZone,
    TaskRecord,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

ROOM = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": 4000}


def node(name: str, policy: str, scope: str = "pod", zones: int = 2) -> NodeRecord:
    part = {"cpu": 8000 // zones, "gpu": 4000 // zones}
    return NodeRecord(
        name,
        ROOM,
        numa=NumaTopology(
            tuple(NumaZone(f"node-{z}", part, part) for z in range(zones)), policy, scope
        ),
    )


def app(kind: ContainerKind = ContainerKind.APP, **amounts: int) -> ContainerRequest:
    return ContainerRequest(tuple(sorted(amounts.items())), kind)


def task(
    uid: str, *containers: ContainerRequest, guaranteed: bool = True, **more: Any
) -> TaskRecord:
    total: dict[str, int] = {}
    for container in containers:
        for name, amount in container.amounts:
            staying = container.kind is not ContainerKind.INIT
            total[name] = (
                total.get(name, 0) + amount if staying else max(total.get(name, 0), amount)
            )
    constraints = Constraints(containers=containers, is_guaranteed=guaranteed)
    return TaskRecord(uid, uid, request=total, constraints=constraints, **more)


class World:
    def __init__(self, nodes: list[NodeRecord], *tasks: TaskRecord, **arguments: str) -> None:
        self.snapshot = snapshot_of(ClusterRecords(nodes=tuple(nodes), tasks=tasks))
        self.ledger = Ledger(self.snapshot)
        view = View(self.snapshot, self.ledger, 0.0)
        self.answers: SessionPlugin = Numa(Reader(arguments or None, "test")).open(view)
        self.rows = np.arange(len(nodes))

    def fits(self, at: int = 0) -> list[bool]:
        shape = self.snapshot.shape_of(at)
        found = [bool(n) for n in self.answers.fits(shape, self.rows)]
        reasons = self.answers.filter_reasons(shape, self.rows).tolist()
        assert reasons == [0 if ok else Reason.NUMA for ok in found]
        return found

    def score(self, at: int = 0) -> list[float]:
        return [float(s) for s in self.answers.score(self.snapshot.shape_of(at), self.rows)]

    def dependence(self, at: int = 0) -> Dependence:
        return self.answers.dependence(self.snapshot.shape_of(at))

    def can_return(self, at: int) -> bool:
        self.ledger.node[at] = 0
        return bool(self.answers.can_return(np.array([at]))[0])

    def post(
        self, at: int, where: int, kind: EntryKind = EntryKind.ALLOCATE, sign: int = 1
    ) -> None:
        self.answers.on_ledger_change(
            Entries(np.array([at]), np.array([where]), np.array([kind]), sign)
        )


NODES = [node("a", "single-numa-node"), node("b", "restricted"), node("c", "best-effort"),
         node("d", "none")]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "fits", "score"),
    [
        ([app(cpu=4000, gpu=2000)], [True, True, True, True], [100, 100, 100, 50]),
        ([app(cpu=6000)], [False, True, True, True], [0, 50, 50, 50]),
        ([app(cpu=6000, gpu=1000)], [False, False, True, True], [0, 0, 50, 50]),
        ([app(cpu=4500)], [True, True, True, True], [50, 50, 50, 50]),
        ([app(cpu=4000), app(cpu=4000)], [False, True, True, True], [0, 50, 50, 50]),
    ],
)
def test_each_topology_manager_policy_filters_and_scores(
    pod: list[ContainerRequest], fits: list[bool], score: list[float]
) -> None:
    world = World(NODES, task("t", *pod))
    assert world.fits() == fits
    assert world.score() == score


def test_with_container_scope_each_container_is_aligned_by_itself() -> None:
    nodes = [node("a", "single-numa-node", "container")]
    assert World(nodes, task("t", app(cpu=4000), app(cpu=4000))).fits() == [True]
    assert World(nodes, task("t", app(cpu=3000), app(cpu=3000), app(cpu=3000))).fits() == [False]
    init = app(ContainerKind.INIT, cpu=4000)
    assert World(nodes, task("t", init, app(cpu=4000), app(cpu=4000))).fits() == [True]


def test_without_guaranteed_qos_only_devices_are_aligned() -> None:
    world = World(NODES, task("t", app(cpu=7000, gpu=2000), guaranteed=False))
    assert world.fits() == [True, True, True, True]
    assert World(NODES, task("t", app(cpu=1000), guaranteed=False)).dependence() is (
        Dependence.IRRELEVANT
    )
    ignoring = World(NODES, task("t", app(gpu=4000), guaranteed=False), ignoreList="gpu, other")
    assert ignoring.dependence() is Dependence.IRRELEVANT


def test_numa_zones_fill_up_and_an_undo_empties_them() -> None:
    tasks = [task(f"t{i}", app(cpu=3000)) for i in range(3)]
    world = World([node("a", "single-numa-node")], *tasks)
    world.post(0, 0)
    world.post(1, 0)
    assert world.fits(2) == [False]
    world.post(1, 0, EntryKind.EVICT)
    assert world.fits(2) == [True]
    world.post(1, 0, EntryKind.EVICT, sign=-1)
    assert world.fits(2) == [False]
    world.post(1, 0, sign=-1)
    assert world.fits(2) == [True]


def test_a_pod_returns_to_its_zone_only_while_that_has_room() -> None:
    tasks = [task(f"t{i}", app(cpu=3000)) for i in range(2)]
    world = World([node("a", "single-numa-node")], *tasks)
    world.post(0, 0)
    world.post(0, 0, EntryKind.EVICT)
    assert world.can_return(0)
    world.post(1, 0)  # into the lowest zone, which the first has left
    assert not world.can_return(0)
    world.post(0, 0, EntryKind.PIPELINE)
    world.post(0, 0, EntryKind.PIPELINE, sign=-1)
    world.post(1, 0, sign=-1)
    assert world.can_return(0)
    world.post(0, 0, EntryKind.EVICT, sign=-1)
    world.post(1, 0)
    assert world.fits() == [False]


def test_running_pods_use_the_zones_that_are_recorded_for_them() -> None:
    held = task("r", app(cpu=3000), status=TaskStatus.RUNNING, node="a",
                numa=(NumaShare("node-1", {"cpu": 3000}),))  # fmt: skip
    lost = task("l", app(cpu=3000), status=TaskStatus.RUNNING, node="a",
                numa=(NumaShare("node-9", {"cpu": 3000}),))  # fmt: skip
    pending = task("t", app(cpu=4000))
    world = World([node("a", "single-numa-node")], held, lost, pending)
    assert world.fits(2) == [True]
    world.post(2, 0)
    details = world.answers.annotate([Bind("t", "", "a")])[0] or {}
    zones = details["predictedNUMAZones"]
    assert isinstance(zones, tuple)
    assert isinstance(zones[0], NUMAZone)
    assert (zones[0].zone, str(zones[0].amount["cpu"])) == ("node-0", "4")
    assert world.fits(2) == [False]


def test_reported_available_amounts_count_only_without_reconstruction() -> None:
    zone = NumaZone("node-0", {"cpu": 4000}, {"cpu": 1000})
    record = NodeRecord("a", ROOM, numa=NumaTopology((zone,), "single-numa-node", "pod"))
    assert World([record], task("t", app(cpu=2000))).fits() == [True]
    told = World([record], task("t", app(cpu=2000)), reconstructAvailable="false")
    assert told.fits() == [False]


def test_nodes_without_zones_are_feasible_with_a_neutral_score() -> None:
    plain = World([NodeRecord("p", ROOM)], task("t", app(cpu=4000)))
    assert type(plain.answers) is SessionPlugin
    world = World([*NODES, NodeRecord("p", ROOM)], task("t", app(cpu=4000)))
    assert world.fits()[-1]
    assert world.score()[-1] == 50


NRT = {
    "topologyPolicies": ["RestrictedPodLevel"],
    "zones": [
        {"name": f"node-{i}", "type": "Node", "resources": [
            {"name": "cpu", "allocatable": "4", "available": "3"},
            {"name": "nvidia.com/gpu", "allocatable": "2", "available": "1"}]}
        for i in (10, 2)
    ] + [{"name": "core-0", "type": "Core"}],
}  # fmt: skip


def test_zones_are_sorted_by_number_and_attributes_override_the_policy() -> None:
    found = numa_topology(decode(NodeResourceTopology, json.dumps(NRT)))
    assert found is not None
    assert [zone.name for zone in found.zones] == ["node-2", "node-10"]
    assert (found.policy, found.scope) == ("restricted", "pod")
    assert found.zones[0].allocatable == {"cpu": 4000, "gpu": 2000}
    told = [{"name": "topologyManagerPolicy", "value": "best-effort"}]
    newer = numa_topology(decode(NodeResourceTopology, json.dumps({**NRT, "attributes": told})))
    assert newer is not None
    assert newer.policy == "best-effort"
    assert numa_topology(NodeResourceTopology()) is None


def test_observed_numa_placement_precedes_predicted_placement() -> None:
    note = '[{"zone": "node-0", "amount": {"cpu": "2"}}]'
    other = '[{"zone": "node-1", "amount": {"cpu": "1"}}]'
    observed = {"kai.scheduler/numa-placement-observed": note}
    predicted = {"kai.scheduler/numa-placement-predicted": other}
    assert numa_place({**observed, **predicted}) == (NumaShare("node-0", {"cpu": 2000}),)
    assert numa_place(predicted) == (NumaShare("node-1", {"cpu": 1000}),)
    broken = {"kai.scheduler/numa-placement-observed": "[{"}
    assert numa_place({**broken, **predicted}) == (NumaShare("node-1", {"cpu": 1000}),)
    assert numa_place(broken) == ()
