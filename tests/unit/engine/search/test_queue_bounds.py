"""Who makes room for himself stays below the limits of his queues, however victims are found."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.model.reasons import Reason
from muster.model.records import ClusterRecords, queue_amounts
from muster.model.tables import snapshot_of
from muster.testing import make


@pytest.fixture(params=[False, True], ids=["searched", "constructed"], autouse=True)
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in small clusters, and as in large ones, where sets are not tried one after another."""
    if request.param:
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)


def decided(world: ClusterRecords, actions: str) -> CycleResult:
    conf = parse_conf(f'actions: "allocate, {actions}"\n')
    snapshot = snapshot_of(world)
    return run_cycle(snapshot, build_policy(conf), build_actions(conf), make.NOW_S)


def test_a_queue_that_is_allowed_nothing_gets_nothing_by_consolidation() -> None:
    """There is room everywhere; the queue was given no resources."""
    world = make.cluster(
        make.node("n0", cpu=8),
        make.node("n1", cpu=8),
        make.queue("closed", quota=queue_amounts(0), limit=queue_amounts(0)),
        make.gang("runs", 1, queue="closed", cpu=1, nodes=("n0",)),
        make.gang("waits", 1, queue="closed", cpu=1),
    )
    result = decided(world, "consolidation")
    assert result.plan.nominations == ()
    reasons = {each.reason for each in result.explanation.refusals["default/waits"]}
    assert Reason.OVER_LIMIT in reasons
    assert Reason.WAITS_FOR_VICTIMS not in reasons


def test_who_preempts_in_a_queue_at_its_limit_takes_of_the_queue() -> None:
    """The nodes have room, the queue has none: without a victim of it he would never start."""
    world = make.cluster(
        make.node("n0", gpu=8),
        make.node("n1", gpu=8),
        make.queue("bounded", quota_gpu=4, limit_gpu=4),
        make.gang("small", 1, queue="bounded", gpu=1, nodes=("n0",)),
        make.gang("large", 1, queue="bounded", gpu=3, nodes=("n1",)),
        make.gang("urgent", 1, queue="bounded", gpu=2, priority=90),
    )
    result = decided(world, "preempt")
    assert [evict.task for evict in result.plan.evictions] == ["large-0"]
    assert [each.task for each in result.plan.nominations] == ["urgent-0"]


def test_who_reclaims_below_a_queue_at_its_limit_takes_of_his_siblings() -> None:
    """The stranger has most beyond his share, but what he leaves the queue above may not hold."""
    world = make.cluster(
        make.node("n0", gpu=4),
        make.node("n1", gpu=8),
        make.queue("top", quota_gpu=4, limit_gpu=4),
        make.queue("poor", parent="top", quota_gpu=2),
        make.queue("rich", parent="top", quota_gpu=2),
        make.queue("stranger", quota_gpu=2),
        *(make.gang(f"rich{at}", 1, queue="rich", gpu=1, nodes=("n0",)) for at in range(4)),
        *(make.gang(f"far{at}", 1, queue="stranger", gpu=1, nodes=("n1",)) for at in range(8)),
        make.gang("wants", 1, queue="poor", gpu=1),
    )
    result = decided(world, "reclaim")
    assert [evict.job for evict in result.plan.evictions] == ["default/rich3"]
    assert [each.task for each in result.plan.nominations] == ["wants-0"]
