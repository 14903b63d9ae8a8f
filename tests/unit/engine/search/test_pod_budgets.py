"""Pod disruption budgets that let some of the pods go that they cover."""

import msgspec

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.cluster_objects import ClusterObjects, DisruptionAllowance
from muster.model.records import TaskRecord
from muster.model.selectors import LabelSelector
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.invariants import broken


def test_pods_of_other_schedulers_under_the_same_budget_are_nobodys_victims() -> None:
    """They belong to no job; two of ours are wanted, and the budget lets one go."""
    world = make.cluster(
        make.node("n1", gpu=4),
        make.queue("a"),
        make.queue("b", quota_gpu=4),
        make.gang("w1", 1, queue="a", gpu=2, nodes=("n1",), is_preemptible=True),
        make.gang("w2", 1, queue="a", gpu=2, nodes=("n1",), is_preemptible=True),
        make.gang("wants", 1, queue="b", gpu=4, is_preemptible=True),
    )
    stranger = TaskRecord(
        "stranger", "stranger", "", status=TaskStatus.RUNNING, node="n1",
        request={"cpu": 1000, "pods": 1}, namespace="default", is_ours=False,
    )  # fmt: skip
    allowance = DisruptionAllowance("default", LabelSelector(), 1)
    world = msgspec.structs.replace(
        world,
        tasks=(*world.tasks, stranger),
        cluster_objects=ClusterObjects(disruption_allowances={"default/shield": allowance}),
    )
    read = parse_conf("actions: reclaim")
    policy = build_policy(read, EngineSettings())
    result = run_cycle(snapshot_of(world), policy, build_actions(read), make.NOW_S)
    assert result.plan.evictions == ()
    assert broken(world, result.plan) == []
    said = result.explanation.sentences("default/wants")
    assert "Pod disruption budget default/shield lets no more pods go." in said
