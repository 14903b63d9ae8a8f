"""usage and rescheduling go by what pods really use."""

from typing import Any

import pytest
from tests.support.batch import GIB, NOW_S, Batch, evicted, where

from muster.engine.profiles.known import parse_for
from muster.engine.profiles.volcano import VOLCANO
from muster.model.cluster_objects import PodUtilisation
from muster.model.public_reasons import public_reason

_USAGE = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: usage
    arguments: {thresholds: {cpu: 70, mem: 70}}
"""
_SHUFFLE = """
actions: "shuffle"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: rescheduling
    arguments:
      interval: 5m
      strategies:
      - name: lowNodeUtilization
        params:
          thresholds: {cpu: 30, memory: 30, pods: 30}
          targetThresholds: {cpu: 60, memory: 60, pods: 60}
"""


def _used(**cores: float) -> dict[str, PodUtilisation]:
    return {
        f"ns/{pod.replace('_', '-')}": PodUtilisation(cpu_cores=used, memory_bytes=GIB)
        for pod, used in cores.items()
    }


def _two_nodes() -> Batch:
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    return told.gang("old", "q", 1, on=["n1", "n2"])


def test_the_node_is_taken_where_less_is_really_used() -> None:
    told = _two_nodes().gang("new", "q", 1, waiting=1)
    assert where(told.seen(utilisation=_used(old_0=6, old_1=1)).run(_USAGE)) == {"new-0": "n2"}
    assert where(told.seen(utilisation=_used(old_0=1, old_1=6)).run(_USAGE)) == {"new-0": "n1"}


def test_a_node_above_its_threshold_takes_nobody() -> None:
    told = _two_nodes().gang("new", "q", 3, waiting=3)
    assert set(where(told.seen(utilisation=_used(old_0=7.1, old_1=0)).run(_USAGE)).values()) == {
        "n2"
    }
    both = told.seen(utilisation=_used(old_0=7.1, old_1=7.1)).run(_USAGE)
    (why,) = both.explanation.refusals["ns/new"]
    assert "refused by plugin usage" in public_reason(why).sentence
    assert where(both) == {}


def test_memory_has_a_threshold_of_its_own() -> None:
    used = {"ns/old-0": PodUtilisation(cpu_cores=0, memory_bytes=50 * GIB), **_used(old_1=6)}
    told = _two_nodes().gang("new", "q", 1, waiting=1).seen(utilisation=used)
    assert where(told.run(_USAGE)) == {"new-0": "n2"}
    higher = _USAGE.replace(
        "thresholds: {cpu: 70, mem: 70}", "cpu.weight: 3, thresholds: {mem: 90}"
    )
    assert where(told.run(higher)) == {"new-0": "n1"}


def test_what_is_placed_counts_before_it_is_measured() -> None:
    told = _two_nodes().gang("new", "q", 2, waiting=2, cpus=4)
    told.seen(utilisation=_used(old_0=1, old_1=2))
    assert where(told.run(_USAGE)) == {"new-0": "n1", "new-1": "n2"}


def test_a_busy_node_is_expected_to_get_busier() -> None:
    """Seven tenths of what a pod asks for, and a fifth more where six tenths are in use: the first
    node comes to 6.1 + 1.2 * 0.7 * 3 of 10, not to 6.1 + 0.7 * 3; the second to 5.9 + 0.7 * 3.5.
    """
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("old", "q", 1, on=["n1", "n2"]).gang("young", "q", 1, on=["n1"], cpus=3)
    told.gang("other", "q", 1, on=["n2"], request={"cpu": 3500})
    told.gang("new", "q", 1, waiting=1)
    assert where(told.seen(utilisation=_used(old_0=6.1, old_1=5.9)).run(_USAGE)) == {"new-0": "n2"}
    assert where(told.seen(utilisation=_used(old_0=5.7, old_1=5.5)).run(_USAGE)) == {"new-0": "n1"}


@pytest.mark.parametrize(("ratio", "second"), [("0.7", "n2"), ("0.1", "n1"), ("7", "n2")])
def test_the_part_of_a_request_that_is_expected_to_be_used_can_be_said(
    ratio: str, second: str
) -> None:
    told = _two_nodes().gang("new", "q", 2, waiting=2, cpus=4)
    told.seen(utilisation=_used(old_0=1, old_1=2))
    conf = _estimating(f"request_ratio: {ratio}")
    assert where(told.run(conf)) == {"new-0": "n1", "new-1": second}


@pytest.mark.parametrize(
    ("said", "node"),
    [
        ("risk_threshold: 0.6", "n2"),
        ("risk_threshold: 0.9", "n1"),
        ("risk_factor: 1", "n1"),
        ("risk_factor: 0.5", "n2"),
    ],
)
def test_from_which_use_on_and_how_much_busier_a_node_gets_can_be_said(
    said: str, node: str
) -> None:
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("old", "q", 1, on=["n1", "n2"]).gang("young", "q", 1, on=["n1"], cpus=3)
    told.gang("other", "q", 1, on=["n2"], request={"cpu": 3500})
    told.gang("new", "q", 1, waiting=1).seen(utilisation=_used(old_0=6.1, old_1=5.9))
    assert where(told.run(_estimating(said))) == {"new-0": node}


@pytest.mark.parametrize(
    ("said", "second"),
    [
        ("", "n1"),
        ("be_cpu: '2'", "n2"),
        ("be_cpu: 2000", "n2"),
        ("be_cpu: 2", "n1"),
        ("be_mem: 32Gi", "n2"),
        ("be_mem: 32768", "n2"),
        ("be_mem: 32", "n1"),
    ],
)
def test_what_a_pod_that_asks_for_nothing_uses_can_be_said(said: str, second: str) -> None:
    told = _two_nodes().gang("new", "q", 2, waiting=2, cpus=0)
    told.seen(utilisation=_used(old_0=1, old_1=2))
    conf = _estimating(said).replace('"allocate"', '"allocate, backfill"')
    assert where(told.run(conf)) == {"new-0": "n1", "new-1": second}


def _estimating(said: str) -> str:
    return _USAGE.replace("thresholds", f"estimator: {{{said}}}, thresholds")


def test_weights_say_what_counts() -> None:
    used = {
        "ns/old-0": PodUtilisation(cpu_cores=5, memory_bytes=0),
        "ns/old-1": PodUtilisation(cpu_cores=0, memory_bytes=40 * GIB),
    }
    told = _two_nodes().gang("new", "q", 1, waiting=1).seen(utilisation=used)
    for weights, node in (("cpu.weight: 0", "n1"), ("memory.weight: 0", "n2")):
        conf = _USAGE.replace("thresholds", f"{weights}, thresholds")
        assert where(told.run(conf)) == {"new-0": node}


def test_where_nothing_was_measured_nodes_are_taken_as_they_come() -> None:
    told = _two_nodes().gang("new", "q", 1, waiting=1)
    assert where(told.run(_USAGE)) == {"new-0": "n1"}


def _busy(**more: Any) -> Batch:
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("old", "q", 1, on=["n1"] * 4, **more)
    return told.seen(utilisation=_used(old_0=2, old_1=2, old_2=2, old_3=2))


def test_pods_leave_a_busy_node_until_it_is_no_longer_busy() -> None:
    assert evicted(_busy().run(_SHUFFLE)) == ["old-0"]
    assert evicted(_busy().run(_SHUFFLE.replace("cpu: 60", "cpu: 30"))) == ["old-0", "old-1"]


def test_nobody_leaves_where_there_is_nowhere_to_go() -> None:
    told = _busy()
    told.gang("there", "q", 1, on=["n2"]).seen(
        utilisation={**told.objects.utilisation, **_used(there_0=4)}
    )
    assert evicted(told.run(_SHUFFLE)) == []


def test_nobody_leaves_where_nothing_was_measured() -> None:
    assert evicted(_busy().seen(utilisation={}).run(_SHUFFLE)) == []


def test_after_somebody_left_it_waits_for_the_interval() -> None:
    told = _busy()
    first = told.run(_SHUFFLE)
    assert first.memory.acted_s == {"rescheduling": NOW_S}
    assert evicted(told.run(_SHUFFLE, now_s=NOW_S + 299, memory=first.memory)) == []
    assert evicted(told.run(_SHUFFLE, now_s=NOW_S + 300, memory=first.memory)) == ["old-0"]


@pytest.mark.parametrize(
    "pods", [{"is_preemptable": False}, {"is_critical": True}], ids=["says no", "of the system"]
)
def test_who_may_not_be_evicted_stays(pods: dict[str, bool]) -> None:
    assert evicted(_busy(pods=pods).run(_SHUFFLE)) == []


def test_no_gang_is_cut_below_its_minimum() -> None:
    """Volcano evicts its members all the same."""
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("old", "q", 4, on=["n1"] * 4)
    told.seen(utilisation=_used(old_0=2, old_1=2, old_2=2, old_3=2))
    assert evicted(told.run(_SHUFFLE)) == []


def test_of_a_gang_only_those_above_its_minimum_leave() -> None:
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("old", "q", 3, on=["n1"] * 4)
    told.seen(utilisation=_used(old_0=2, old_1=2, old_2=2, old_3=2))
    assert evicted(told.run(_SHUFFLE.replace("cpu: 60", "cpu: 30"))) == ["old-0"]


def test_the_least_important_leave_first_and_above_a_priority_nobody() -> None:
    told = Batch().queue("q").node("n1", 10).node("n2", 10)
    told.gang("high", "q", 1, on=["n1"] * 2, priority=10).gang("low", "q", 1, on=["n1"] * 2)
    told.seen(utilisation=_used(high_0=2, high_1=2, low_0=2, low_1=2))
    assert evicted(told.run(_SHUFFLE)) == ["low-0"]
    tight = _SHUFFLE.replace("cpu: 60", "cpu: 10")
    assert len(evicted(told.run(tight))) == 1, "n2 has room for 10 percent"
    limited = _SHUFFLE.replace("params:", "params:\n          thresholdPriority: 0")
    assert evicted(told.run(limited)) == []


def test_a_pod_that_no_idle_node_would_take_stays_unless_that_does_not_matter() -> None:
    told = Batch().queue("q").node("n1", 10).node("n2", 3)
    told.gang("old", "q", 1, on=["n1"] * 2, cpus=4)
    told.seen(utilisation=_used(old_0=1.7, old_1=5))
    assert evicted(told.run(_SHUFFLE)) == []
    careless = _SHUFFLE.replace("params:", "params:\n          nodeFit: false")
    assert evicted(told.run(careless)) == ["old-0"]


def test_a_strategy_that_is_not_known_is_a_warning_that_says_which_is() -> None:
    conf = parse_for(VOLCANO, _SHUFFLE.replace("lowNodeUtilization", "offlineOnly"), "conf")
    assert any("offlineOnly" not in p.fix and "lowNodeUtil" in str(p) for p in conf.no_effect)


def test_a_cycle_is_due_when_the_interval_ends_and_no_earlier_one_when_it_has() -> None:
    told = _busy().gang("waits", "q", 1, waiting=1, cpus=99)
    first = told.run(_SHUFFLE)
    assert first.next_change_s == pytest.approx(NOW_S + 300, abs=0.01)
    told.seen(utilisation={})
    second = told.run(_SHUFFLE, now_s=NOW_S + 10, memory=first.memory)
    assert second.next_change_s == pytest.approx(NOW_S + 300, abs=0.01)
    assert told.run(_SHUFFLE, now_s=NOW_S + 400, memory=first.memory).next_change_s is None
