"""Victims that stay where they are, and victims that cannot: judged by zones and devices too."""

import json
from typing import Any

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords, Disruption, NumaShare, NumaTopology, NumaZone
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.invariants import broken

HALF = {"gpu": 2000}
ZONES = NumaTopology(
    tuple(NumaZone(f"node-{z}", HALF, HALF) for z in range(2)), "single-numa-node", "pod"
)
PLUGINS = ("predicates", "proportion", "priority", "nodeplacement", "numa")
CONF = parse_conf(
    json.dumps(
        {
            "actions": "allocate, preempt",
            "tiers": [{"plugins": [{"name": name} for name in PLUGINS]}],
        }
    )
)


def sits(name: str, zone: int, **more: Any) -> make.Workload:
    """A pod with one GPU of a zone."""
    work = make.gang(name, 1, gpu=1, queue="q", nodes=("n",), **more)
    place = (NumaShare(f"node-{zone}", {"gpu": 1000}),)
    tasks = tuple(make.with_fields(each, numa=place) for each in work.tasks)
    return make.Workload(work.job, tasks)


def decided(world: ClusterRecords) -> Plan:
    policy = build_policy(CONF)
    plan = run_cycle(snapshot_of(world), policy, build_actions(CONF), make.NOW_S).plan
    assert broken(world, plan) == []
    return plan


@pytest.mark.parametrize("disruption", list(Disruption))
def test_a_pod_whose_zone_is_needed_moves_to_another_zone_of_its_node(
    disruption: Disruption,
) -> None:
    """A GPU is free in each of two zones, and a pod comes that needs two in one: who makes room
    cannot stay, though the node has enough for both.
    """
    world = make.cluster(
        make.node("n", gpu=4, numa=ZONES),
        make.queue("q", quota_gpu=4),
        sits("low", 0, priority=50, disruption=disruption),
        sits("steady", 1, priority=50, is_preemptible=False),
        make.gang("wide", 1, gpu=2, queue="q", priority=75),
    )
    plan = decided(world)
    assert [(one.task, one.moves_to) for one in plan.evictions] == [("low-0", "n")]
    assert {(one.task, one.node) for one in plan.nominations} == {("wide-0", "n"), ("low-0", "n")}


def test_a_pod_whose_zone_is_not_needed_stays() -> None:
    world = make.cluster(
        make.node("n", gpu=4, numa=ZONES),
        make.queue("q", quota_gpu=4),
        sits("old", 0, priority=50),
        sits("young", 1, priority=50, created_s=make.NOW_S - 60),
        make.gang("wide", 1, gpu=2, queue="q", priority=75),
    )
    plan = decided(world)
    assert [one.task for one in plan.evictions] == ["young-0"]


def test_of_a_gang_only_those_move_who_must() -> None:
    """Both pods would be put on the fullest node; one of them is not in the way."""
    world = make.cluster(
        *(make.node(name, gpu=4) for name in ("n1", "n2", "n3")),
        make.queue("q", quota_gpu=12),
        make.gang("team", 2, gpu=1, queue="q", nodes=("n1", "n2"), priority=50),
        make.gang("other", 1, gpu=1, queue="q", nodes=("n2",), is_preemptible=False),
        make.gang("more", 1, gpu=2, queue="q", nodes=("n3",), is_preemptible=False),
        make.gang("big", 1, gpu=4, queue="q", priority=50),
    )
    conf = parse_conf("actions: allocate, consolidation\n")
    result = run_cycle(snapshot_of(world), build_policy(conf), build_actions(conf), make.NOW_S)
    assert broken(world, result.plan) == []
    assert [one.task for one in result.plan.evictions] == ["team-0"]
