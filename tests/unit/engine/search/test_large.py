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


def plan_of(world: ClusterRecords) -> Plan:
    conf = parse_conf('actions: "allocate, reclaim"\n')
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
