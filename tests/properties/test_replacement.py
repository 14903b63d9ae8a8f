"""Victims that are moved together go where each would have gone by itself."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import replacement
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make

CONF = parse_conf('actions: "allocate, consolidation, reclaim, preempt"\n')
NODES = 50


def plan_of(world: ClusterRecords) -> Plan:
    policy = build_policy(CONF, EngineSettings(max_consolidation_victims=None))
    return run_cycle(snapshot_of(world), policy, build_actions(CONF), make.NOW_S).plan


@st.composite
def worlds(draw: st.DrawFn) -> ClusterRecords:
    """Half-full nodes of several sizes, small jobs that can move, gangs that want whole nodes."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=3, max_size=3))
    takes = draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=7, max_size=7))
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=draw(st.sampled_from([0, 40]))),
        make.queue("wants", quota_gpu=400, limit_gpu=draw(st.sampled_from([-1, 200]))),
    ]
    for at in range(NODES):
        name = f"n{at:02}"
        parts.append(make.node(name, gpu=sizes[at % 3], cpu=16))
        gpu = min(takes[at % 7], sizes[at % 3])
        parts.append(make.gang(f"v{at:02}", 1, queue="has", gpu=gpu, cpu=1, nodes=(name,)))
        parts.append(make.gang(f"w{at:02}", 1, queue="has", cpu=2, nodes=(name,)))
    size, gpu = draw(st.integers(1, 12)), draw(st.sampled_from([2, 4, 8]))
    parts.append(
        make.gang("gang", size, queue="wants", gpu=gpu, cpu=draw(st.sampled_from([1, 15])))
    )
    return make.cluster(*parts)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_victims_moved_in_bulk_or_one_by_one_give_the_same_plan(world: ClusterRecords) -> None:
    together = plan_of(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacement._SimpleJobs, "include", lambda self, job: False)
        assert plan_of(world) == together
