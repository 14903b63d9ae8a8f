"""A search is not begun where queues may lose nothing and no arrangement of GPUs has room."""

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.tables import snapshot_of
from muster.numerics.divide import UNLIMITED
from muster.testing import make

NODES = 4


def reclaim(wanted: float, *more: make.Part, quota_gpu: float = UNLIMITED) -> CycleResult:
    """Every GPU has a tenant of 0.6, of a queue that keeps what it has, and a pod waits."""
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=quota_gpu),
        make.queue("wants", quota_gpu=4),
        make.gang("wants", 1, queue="wants", gpu=wanted),
        *more,
    ]
    for at in range(NODES):
        parts.append(make.node(f"n{at}", gpu=8))
        for slot in range(8):
            tenant = make.gang(f"v{at}-{slot}", 1, queue="has", gpu=0.6, nodes=(f"n{at}",))
            parts.append(tenant)
    conf = parse_conf('actions: "allocate, reclaim"\n')
    snapshot = snapshot_of(make.cluster(*parts))
    return run_cycle(snapshot, build_policy(conf), build_actions(conf), make.NOW_S)


def simulated(result: CycleResult) -> int:
    return result.explanation.counters.get("reclaim.simulated", 0)


def test_nothing_is_simulated_for_a_part_of_a_gpu_that_no_arrangement_has_room_for() -> None:
    result = reclaim(0.7)
    assert not result.plan.nominations
    assert simulated(result) == 0
    told = " ".join(result.explanation.sentences("default/wants"))
    assert "Queue has would fall below its share" in told


def test_tenants_move_where_an_arrangement_has_room_though_their_queue_may_lose_nothing() -> None:
    node = make.node("n9", gpu=2)
    small = [make.gang(f"s{at}", 1, queue="has", gpu=0.5, nodes=("n9",)) for at in range(2)]
    result = reclaim(1.0, node, *small)
    assert [each.job for each in result.plan.nominations if each.node == "n9"]
    assert all(each.moves_to for each in result.plan.evictions)
    assert simulated(result) > 0


def test_who_is_above_its_quota_loses_what_no_arrangement_has_room_for() -> None:
    result = reclaim(0.7, quota_gpu=0)
    assert len(result.plan.evictions) == 1
