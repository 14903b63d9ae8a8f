"""Kernels are compiled ahead: no cycle compiles one."""

from hypothesis import given, settings

from muster.engine import warm
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.strategies import ALL, clusters

CONF = parse_conf('actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"\n')
POLICY, ACTIONS = build_policy(CONF), build_actions(CONF)


def test_after_warming_up_no_cycle_compiles_a_kernel() -> None:
    warm.warm_up()
    before = warm.compiled()

    @given(clusters(ALL))
    @settings(max_examples=25, deadline=None, database=None)
    def run(records: ClusterRecords) -> None:
        run_cycle(snapshot_of(records), POLICY, ACTIONS, make.NOW_S)

    run()
    assert warm.compiled() == before


def test_a_process_is_warmed_up_once() -> None:
    warm.warm_up()
    said: list[str] = []
    warm.warm_up(said.append)
    assert said == []


def test_compiled_kernels_include_those_that_cycles_use() -> None:
    warm.warm_up()
    compiled = warm.compiled()
    assert compiled["muster.numerics.allocate.run"] >= 1
    assert compiled["muster.numerics.queue_order.refresh"] >= 1
    assert compiled["muster.numerics.victims._take_slots"] >= 1
    assert compiled["muster.numerics.redundant_victims._drop_redundant"] >= 1
    assert compiled["muster.numerics.place_victims.place_again"] >= 1
    assert compiled["muster.numerics.ledger.post"] >= 1
    assert compiled["muster.numerics.fit.all_slots"] >= 1
    assert compiled["muster.numerics.queue_bounds.exceeded"] >= 1
    assert compiled["muster.numerics.queue_order.keys_without"] >= 1
    assert compiled["muster.numerics.queue_order.smaller_share"] >= 1
    assert compiled["muster.numerics.queue_order.pop"] >= 1
    assert compiled["muster.numerics.queue_order.pop_run"] >= 1
    assert compiled["muster.numerics.eligible.still_there"] >= 1
    assert compiled["muster.numerics.reclaim.losses"] >= 1
    assert compiled["muster.numerics.reclaim.verdict"] >= 1
