"""Clusters in which the engine was once seen to go wrong, where they lie beside the checkout."""

from pathlib import Path

import pytest
from tests.support.cases import cases_folder

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.records import from_json
from muster.model.tables import snapshot_of
from muster.testing.invariants import broken

_NOW_S = 9500.0
_ACTIONS = (
    "allocate, consolidation",
    "allocate, consolidation, reclaim, preempt, stalegangeviction",
)


@pytest.mark.cases("found")
@pytest.mark.parametrize("placement", ["binpack", "least-fragmentation"])
@pytest.mark.parametrize("actions", _ACTIONS)
@pytest.mark.parametrize(
    "file", sorted((cases_folder() / "found").glob("*.json")), ids=lambda file: file.stem
)
def test_no_plan_for_a_cluster_that_was_found_breaks_an_invariant(
    file: Path, actions: str, placement: str
) -> None:
    conf = parse_conf(f'actions: "{actions}"\nplacement: {placement}\n')
    world = from_json(file.read_bytes())
    plan = run_cycle(snapshot_of(world), build_policy(conf), build_actions(conf), _NOW_S).plan
    assert broken(world, plan) == []
