"""What tables, plugins and a session keep, across cycles or for shapes that are alike, only saves
work: a cycle of tables built anew, under a policy made anew that is asked about every shape, comes
to the same plan for the same reasons.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.test_memory import CHANGES

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.memory import EMPTY, Memory
from muster.engine.policy import Policy
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.shapes import Shape
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.arrays import Floats, Rows
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.outcome import carried_out
from muster.testing.strategies import ALL, clusters

_CONFS = {
    placement: parse_conf(f'actions: "allocate, reclaim, preempt"\nplacement: {placement}\n')
    for placement in ("least-fragmentation", "binpack")
}
_SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class _AsksAboutEach:
    """Has nothing to say, and has not promised to say the same of shapes that are alike."""

    name: ClassVar[str] = "asks-about-each"

    def open(self, view: View) -> SessionPlugin:
        return _Mute()


class _Mute(SessionPlugin):
    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.IRRELEVANT

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return np.zeros(len(rows))


@_SLOWLY
@given(contended_clusters() | clusters(ALL), st.sampled_from(sorted(_CONFS)), st.data())
def test_what_is_kept_changes_no_plan_and_no_reason(
    world: ClusterRecords, placement: str, data: st.DataObject
) -> None:
    conf = _CONFS[placement]
    policy, actions = build_policy(conf), build_actions(conf)
    tables, memory = ClusterTables(), EMPTY
    tables.extend(world)
    for _ in range(data.draw(st.integers(2, 4))):
        result = run_cycle(tables.snapshot(), policy, actions, make.NOW_S, memory)
        anew, alone = snapshot_of(tables.records()), Memory(holds=memory.holds)
        fresh = run_cycle(anew, _asked_about_each(build_policy(conf)), actions, make.NOW_S, alone)
        assert result.plan == fresh.plan
        assert result.explanation.refusals == fresh.explanation.refusals
        memory = result.memory
        if data.draw(st.booleans()):
            tables.extend(carried_out(tables.records(), result.plan))
        for _ in range(data.draw(st.integers(0, 2))):
            data.draw(st.sampled_from(CHANGES))(tables, data)


def _asked_about_each(policy: Policy) -> Policy:
    return replace(policy, plugins=(*policy.plugins, (1, _AsksAboutEach())))
