"""Bulk search obeys topology and anti-affinity of the gang, and disruption modes of victims."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.model.constraint_terms import AffinityTerm, PodAffinity
from muster.model.constraints import Constraints
from muster.model.records import (
    ClusterRecords,
    Disruption,
    SubGroupRecord,
    TopologyConstraint,
    TopologyRecord,
    gang,
)
from muster.model.selectors import LabelSelector, Operator, Requirement
from muster.model.tables import snapshot_of
from muster.testing import make

NODES = 60
RACK = "rack"


def plan_of(world: ClusterRecords, actions: str = "allocate, reclaim") -> Plan:
    conf = parse_conf(f'actions: "{actions}"\n')
    snapshot = snapshot_of(world)
    return run_cycle(snapshot, build_policy(conf), build_actions(conf), make.NOW_S).plan


def rack_of(node: str, racks: int) -> int:
    return int(node.removeprefix("n")) % racks


def full_nodes(racks: int) -> list[make.Part]:
    """Two-GPU nodes; in the first node of each rack the victim is a small one."""
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=0),
        make.queue("wants", quota_gpu=2 * NODES),
        TopologyRecord("racks", (RACK,)),
    ]
    for at in range(NODES):
        name = f"n{at:02}"
        parts.append(make.node(name, gpu=2, labels={RACK: f"r{at % racks}"}))
        gpu = 1 if at < racks else 2
        parts.append(make.gang(f"v{at:02}", 1, queue="has", gpu=gpu, nodes=(name,)))
    return parts


def in_one_rack(size: int) -> make.Workload:
    groups = SubGroupRecord("", None, gang(size).children, TopologyConstraint("racks", RACK))
    return make.gang("wants", size, queue="wants", gpu=2, sub_groups=groups)


def in_racks_of_their_own(size: int) -> make.Workload:
    selector = LabelSelector((Requirement("app", Operator.IN, ("a",)),))
    apart = PodAffinity(anti_required=(AffinityTerm(RACK, selector, namespaces=("default",)),))
    wish = Constraints(pod_affinity=apart, namespace="default", labels=(("app", "a"),))
    work = make.gang("wants", size, queue="wants", gpu=2)
    tasks = tuple(make.with_fields(task, constraints=wish) for task in work.tasks)
    return make.Workload(work.job, tasks)


def test_a_gang_that_needs_one_rack_gets_it_though_the_cheapest_victims_are_scattered() -> None:
    plan = plan_of(make.cluster(*full_nodes(racks=10), in_one_rack(4)))
    nodes = [waits.node for waits in plan.nominations if waits.job == "default/wants"]
    assert len(nodes) == len(plan.evictions) == 4
    assert len({rack_of(node, 10) for node in nodes}) == 1


def test_nobody_is_evicted_for_a_gang_that_fits_no_rack() -> None:
    plan = plan_of(make.cluster(*full_nodes(racks=10), in_one_rack(7)))
    assert not plan.evictions
    assert not plan.nominations


def test_tasks_with_rack_anti_affinity_get_a_rack_each() -> None:
    plan = plan_of(make.cluster(*full_nodes(racks=9), in_racks_of_their_own(9)))
    assert {rack_of(waits.node, 9) for waits in plan.nominations} == set(range(9))
    assert {evict.task for evict in plan.evictions} == {f"v{at:02}-0" for at in range(9)}


def test_nobody_is_evicted_for_more_anti_affine_tasks_than_there_are_racks() -> None:
    plan = plan_of(make.cluster(*full_nodes(racks=9), in_racks_of_their_own(10)))
    assert not plan.evictions
    assert not plan.nominations


@pytest.mark.parametrize(
    ("disruption", "leave"), [(Disruption.GANG, 2), (Disruption.JOB, 4), (Disruption.TASK, 2)]
)
def test_bulk_search_obeys_the_disruption_mode_of_victims(
    disruption: Disruption, leave: int
) -> None:
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=0),
        make.queue("wants", quota_gpu=2 * NODES),
    ]
    for at in range(0, NODES, 2):
        pair = (f"n{at:02}", f"n{at + 1:02}")
        parts += [make.node(name, gpu=2) for name in pair]
        minimum = 4 if disruption is Disruption.TASK else 1
        parts.append(
            make.gang(
                f"v{at:02}",
                4,
                queue="has",
                gpu=1,
                minimum=minimum,
                nodes=(pair[0], pair[0], pair[1], pair[1]),
                disruption=disruption,
            )
        )
    plan = plan_of(make.cluster(*parts, make.gang("wants", 1, queue="wants", gpu=2)))
    assert len(plan.nominations) == 1
    assert len(plan.evictions) == leave
    assert len({evict.job for evict in plan.evictions}) == 1


def test_consolidation_moves_those_who_have_another_place_where_the_cheapest_have_none() -> None:
    """The nodes come in the order of their names, and all victims cost the same."""
    here = Constraints(node_labels=(Requirement("pinned", Operator.IN, ("yes",)),))
    stays = make.gang("stays", 1, queue="q", gpu=1, nodes=("a",))
    pinned = tuple(make.with_fields(task, constraints=here) for task in stays.tasks)
    world = make.cluster(
        make.queue("q"),
        make.node("a", gpu=2, labels={"pinned": "yes"}),
        make.Workload(stays.job, pinned),
        make.node("b", gpu=2),
        make.gang("moves", 1, queue="q", gpu=1, nodes=("b",)),
        *(make.node(f"c{at:02}", gpu=1) for at in range(NODES)),
        *(make.gang(f"c{at:02}", 1, queue="q", gpu=1, nodes=(f"c{at:02}",)) for at in range(NODES)),
        make.gang("wants", 1, queue="q", gpu=2),
    )
    plan = plan_of(world, "allocate, consolidation")
    assert [(evict.task, evict.moves_to) for evict in plan.evictions] == [("moves-0", "a")]
    assert {waits.task: waits.node for waits in plan.nominations}["wants-0"] == "b"
