"""A full cluster, and a gang that wants a tenth of it: of a higher priority, or of another queue.

Volcano, on ten times as much: preempt finds nothing against rigid gangs in 3 s; reclaim takes 320
pods and leaves all 32 gangs below their minimum; gangpreempt and gangreclaim evict 396 to 400.
"""

from collections import Counter

import pytest
from tests.support.batch import Batch, evicted

from muster.engine.cycle import CycleResult

_NODES, _CPUS, _JOBS, _SIZE, _WANTED = 10, 32, 32, 10, 32
_CONF = """
actions: "ACTION"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def _full(action: str, minimum: int) -> CycleResult:
    told = Batch().queue("a").queue("b")
    for number in range(_NODES):
        told.node(f"n{number:02}", _CPUS, gib=256)
    places = [f"n{number // _CPUS:02}" for number in range(_JOBS * _SIZE)]
    for number in range(_JOBS):
        mine = places[number * _SIZE : (number + 1) * _SIZE]
        told.gang(f"old-{number:02}", "a", minimum, on=mine)
    queue = "b" if "reclaim" in action else "a"
    told.gang("new", queue, _WANTED, waiting=_WANTED, priority=10)
    return told.run(_CONF.replace("ACTION", action))


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim"])
def test_elastic_jobs_lose_just_what_is_wanted(action: str) -> None:
    result = _full(action, minimum=1)
    assert len(evicted(result)) == _WANTED
    lost = Counter(evict.job for evict in result.plan.evictions)
    assert max(lost.values()) < _SIZE, "each keeps its minimum"
    assert len(result.plan.nominations) == _WANTED


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_rigid_gangs_lose_nobody_to_single_evictions(action: str) -> None:
    assert evicted(_full(action, minimum=_SIZE)) == []


@pytest.mark.parametrize("action", ["gangpreempt", "gangreclaim"])
def test_rigid_gangs_go_whole_and_no_more_of_them_than_needed(action: str) -> None:
    result = _full(action, minimum=_SIZE)
    lost = Counter(evict.job for evict in result.plan.evictions)
    assert set(lost.values()) == {_SIZE}
    assert len(lost) == -(-_WANTED // _SIZE)
    assert len(result.plan.nominations) == _WANTED


def test_who_went_first_and_was_not_needed_stays() -> None:
    """Surplus of one gang goes before a whole one, and on its node nothing fits."""
    told = Batch().queue("a").node("n1", 4).node("n2", 4)
    told.gang("surplus", "a", 3, on=["n1"] * 4, priority=5).gang("whole", "a", 4, on=["n2"] * 4)
    told.gang("new", "a", 1, waiting=1, cpus=4, priority=10)
    result = told.run(_CONF.replace("ACTION", "gangpreempt"))
    assert {evict.job for evict in result.plan.evictions} == {"ns/whole"}
