"""Pods whose node is gone, or is another shard's by now: they hold quota, and no room."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.invariants import broken
from muster.testing.shared_gpus import shared_clusters

_CONF = parse_conf("")
_POLICY = build_policy(_CONF, EngineSettings(max_consolidation_victims=None))
_ACTIONS = build_actions(_CONF)
_SLOWLY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=[False, True], ids=["searched", "constructed"])
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in small clusters, and as in large ones, where sets are not tried one after another."""
    if request.param:
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)


@st.composite
def _with_a_node_gone(draw: st.DrawFn) -> ClusterRecords:
    world = draw(st.one_of(contended_clusters(running=8), shared_clusters()))
    gone = draw(st.integers(0, len(world.nodes) - 1))
    nodes = [node for at, node in enumerate(world.nodes) if at != gone]
    return msgspec.structs.replace(world, nodes=type(world.nodes)(nodes))


def _plan(records: ClusterRecords) -> Plan:
    return run_cycle(snapshot_of(records), _POLICY, _ACTIONS, make.NOW_S).plan


@pytest.mark.usefixtures("is_large")
@_SLOWLY
@given(_with_a_node_gone())
def test_nobody_gets_room_where_a_node_is_gone(world: ClusterRecords) -> None:
    plan = _plan(world)
    assert broken(world, plan) == []
    there = {node.name for node in world.nodes}
    lost = {task.uid for task in world.tasks if task.node and task.node not in there}
    asked_for_room = {each.task for each in plan.evictions if each.actor}
    assert not lost & asked_for_room
