"""A cycle in which nothing changed still knows when waiting alone will change something."""

import pytest
from tests.support.batch import NOW_S, Batch

from muster.engine.cycle import run_cycle
from muster.engine.memory import EMPTY
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.model.tables import snapshot_of

_CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: sla, arguments: {sla-waiting-time: 1h}}, {name: predicates}]
"""


def test_a_deadline_is_not_forgotten_in_cycles_that_repeat_the_last() -> None:
    told = Batch().queue("q").node("n1", 1)
    told.jobs_created_s = NOW_S
    told.gang("waits", "q", 3, waiting=3)
    known = profile_of("volcano")
    conf = parse_for(known, _CONF, "conf")
    policy, actions = build_policy(conf, None, known), build_actions(conf, known)
    snapshot, memory, instants = snapshot_of(told.records()), EMPTY, []
    for number in range(3):
        result = run_cycle(snapshot, policy, actions, NOW_S + number, memory)
        memory = result.memory
        instants.append(result.next_change_s)
    assert instants == [pytest.approx(NOW_S + 3600, abs=0.01)] * 3
