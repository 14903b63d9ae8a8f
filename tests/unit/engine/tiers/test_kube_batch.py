"""kube-batch's own rules, where Volcano's are others."""

import pytest
from msgspec.structs import replace
from tests.support.batch import GIB, Batch, bound, evicted

from muster.engine.profiles.kube_batch import FLAT_CONF

TIERS = """
actions: "reclaim, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
OLD, LATER = ("kube-batch-0.2", FLAT_CONF), ("kube-batch", TIERS)
BOTH = pytest.mark.parametrize(("profile", "conf"), [OLD, LATER])


def full(burst_minimum: int = 1) -> Batch:
    """Two queues of one weight; b has two of its four nodes, a has all the others."""
    made = Batch().queue("a").queue("b")
    for number in range(8):
        made.node(f"n{number}", 4)
    made.gang("train", "b", 2, on=["n0", "n1"], cpus=4, phase="Running")
    nodes = [f"n{number}" for number in range(2, 8)]
    return made.gang("burst", "a", burst_minimum, on=nodes, cpus=4, phase="Running")


@BOTH
@pytest.mark.row(123)
def test_nobody_has_to_be_let_in_before_reclaim_serves_him(profile: str, conf: str) -> None:
    """kube-batch never writes the phase Inqueue: reclaim comes first, and all are Pending."""
    result = full().gang("new", "b", 2, waiting=2, cpus=4, phase="Pending").run(conf, profile)
    assert len(evicted(result)) == 2
    assert {each.task for each in result.plan.nominations} == {"new-0", "new-1"}


@BOTH
@pytest.mark.row(122, 123)
def test_a_job_reclaims_beyond_its_minimum_until_its_queue_has_its_due(
    profile: str, conf: str
) -> None:
    result = full().gang("new", "b", 1, waiting=5, cpus=4).run(conf, profile)
    assert len(evicted(result)) == 2, "b deserves four nodes, and has two"


@BOTH
@pytest.mark.row(118, 123)
def test_a_gang_loses_nothing_of_its_minimum(profile: str, conf: str) -> None:
    result = full(burst_minimum=5).gang("new", "b", 1, waiting=2, cpus=4).run(conf, profile)
    assert len(evicted(result)) == 1


def _alone() -> Batch:
    made = Batch().node("n1", 1).queue("a").gang("low", "a", 1, on=["n1"], phase="Running")
    return made.gang("high", "a", 1, waiting=1, priority=10)


@pytest.mark.row(118, 125)
def test_a_pod_that_is_alone_is_no_gang_since_there_are_tiers() -> None:
    assert evicted(_alone().run(TIERS, "kube-batch")) == ["low-0"]
    assert evicted(_alone().run(FLAT_CONF, "kube-batch-0.2")) == []


@pytest.mark.row(118, 126)
def test_without_its_switch_gang_binds_what_there_is_room_for() -> None:
    def started(conf: str) -> int:
        told = Batch().node("n1", 3).queue("a").gang("g", "a", 5, waiting=5)
        return len(bound(told.run(conf, "kube-batch-0.2")))

    switch = 'plugin.gang.jobready: "true"\n'
    assert switch in FLAT_CONF
    assert started(FLAT_CONF) == 0
    assert started(FLAT_CONF.replace(switch, "")) == 3


@pytest.mark.row(119, 126)
def test_without_its_switch_priority_orders_no_jobs() -> None:
    def first(conf: str) -> list[str]:
        told = Batch().node("n1", 1).queue("a").gang("old", "a", 1, waiting=1)
        return bound(told.gang("high", "a", 1, waiting=1, priority=9).run(conf, "kube-batch-0.2"))

    assert first(FLAT_CONF) == ["high-0"]
    assert first(FLAT_CONF.replace('plugin.priority.joborder: "true"\n', "")) == ["old-0"]


@pytest.mark.row(120, 126)
def test_without_its_switch_drf_orders_no_jobs() -> None:
    def first(conf: str) -> list[str]:
        told = Batch().node("n1", 4).queue("a")
        told.gang("has", "a", 1, on=["n1"] * 3, waiting=1, phase="Running")
        told.gang("rich", "a", 0, waiting=1).gang("poor", "a", 0, waiting=1)
        return bound(told.run(conf, "kube-batch-0.2"))

    assert first(FLAT_CONF) == ["rich-0"]
    assert first(FLAT_CONF.replace('plugin.drf.joborder: "true"\n', "")) == ["has-3"]


@pytest.mark.row(119, 126)
def test_without_its_switch_priority_orders_no_tasks() -> None:
    def first(conf: str) -> list[str]:
        told = Batch().node("n1", 1).queue("a").gang("g", "a", 1, waiting=2)
        record = told.tasks[-1]
        assert record.terms is not None
        told.tasks[-1] = replace(record, terms=replace(record.terms, priority=9))
        return bound(told.run(conf, "kube-batch-0.2"))

    assert first(FLAT_CONF) == ["g-1"]
    assert first(FLAT_CONF.replace('plugin.priority.taskorder: "true"\n', "")) == ["g-0"]


@pytest.mark.row(120, 126)
def test_drf_takes_from_larger_shares_until_they_are_no_larger() -> None:
    def gone(conf: str) -> list[str]:
        told = Batch().node("n1", 4).queue("a").gang("rich", "a", 0, on=["n1"] * 4)
        return evicted(told.gang("poor", "a", 0, waiting=4).run(conf, "kube-batch-0.2"))

    assert len(gone(FLAT_CONF)) == 2
    only_gang = FLAT_CONF.replace('plugin.drf.preemptable: "true"\n', "")
    assert len(gone(only_gang)) == 4, "without its switch nothing but gang has a say"


@BOTH
@pytest.mark.row(122)
def test_of_two_queues_the_one_that_has_less_of_its_due_is_served_first(
    profile: str, conf: str
) -> None:
    """a is owed memory still, so it may go on, but has all of the CPUs that it is due."""
    told = Batch().node("n1", 4).queue("a").queue("b")
    told.gang("holds", "a", 0, on=["n1"] * 3)
    told.gang("older", "a", 0, waiting=1, request={"memory": GIB}).gang("newer", "b", 0, waiting=1)
    assert bound(told.run(conf, profile)) == ["newer-0"]


@BOTH
@pytest.mark.row(122)
def test_queues_get_of_a_full_cluster_what_their_weights_say(profile: str, conf: str) -> None:
    told = Batch().node("n1", 8).queue("a", weight=3).queue("b")
    told.gang("one", "b", 0, waiting=8).gang("three", "a", 0, waiting=8)
    started = [name.partition("-")[0] for name in bound(told.run(conf, profile))]
    assert (started.count("three"), started.count("one")) == (6, 2)


@BOTH
@pytest.mark.row(122)
def test_only_queues_that_hold_more_than_their_due_lose_something(profile: str, conf: str) -> None:
    """c holds twice its due, a no more than its own, though its nodes come first."""
    told = Batch().queue("a").queue("b").queue("c")
    for number in range(9):
        told.node(f"n{number}", 1)
    told.gang("even", "a", 0, on=["n0", "n1", "n2"], waiting=5)
    told.gang("much", "c", 0, on=[f"n{number}" for number in range(3, 9)])
    gone = evicted(told.gang("new", "b", 0, waiting=3).run(conf, profile))
    assert [name.partition("-")[0] for name in gone] == ["much"] * 3


@BOTH
@pytest.mark.row(122)
def test_a_queue_gets_all_of_its_due_though_the_pods_of_the_other_do_not_divide_it(
    profile: str, conf: str
) -> None:
    """Of seven CPUs a deserves five, and holds three pods of two."""
    told = Batch().queue("a").queue("b").node("n1", 7)
    told.gang("large", "a", 0, on=["n1"] * 3, cpus=2)
    gone = evicted(told.gang("new", "b", 2, waiting=2).run(conf, profile))
    assert len(gone) == 1


@BOTH
@pytest.mark.row(122)
def test_what_one_queue_reclaimed_is_not_taken_back_by_the_other(profile: str, conf: str) -> None:
    """Of three CPUs two queues deserve one and a half each: one of them gets the odd one."""
    holds, went = {"a": 3, "b": 0}, []
    for _ in range(4):
        told = Batch().queue("a").queue("b").node("n1", 3)
        for name, running in holds.items():
            told.gang(name, name, 0, on=["n1"] * running, waiting=3 - running)
        result = told.run(conf, profile)
        victims = [evict.job.removeprefix("ns/") for evict in result.plan.evictions]
        starts = [bind.task[0] for bind in result.plan.binds]
        starts += [nomination.task[0] for nomination in result.plan.nominations]
        went.append(len(victims))
        holds = {q: n - victims.count(q) + starts.count(q) for q, n in holds.items()}
    assert went == [1, 0, 0, 0]
    assert holds == {"a": 2, "b": 1}


@BOTH
def test_who_has_room_without_it_evicts_nobody_though_reclaim_comes_first(
    profile: str, conf: str
) -> None:
    """kube-batch looked at the room of victims only, and evicted again for room that was made."""
    told = Batch().queue("a").queue("b").node("n1", 4).node("n2", 4)
    told.gang("burst", "a", 0, on=["n1"] * 4, phase="Running")
    result = told.gang("new", "b", 4, waiting=4).run(conf, profile)
    assert evicted(result) == []
    assert len(bound(result)) == 4


@BOTH
def test_only_what_lacks_room_is_taken_from_others(profile: str, conf: str) -> None:
    told = Batch().queue("a").queue("b").node("n1", 4).node("n2", 4)
    told.gang("burst", "a", 0, on=["n1"] * 4 + ["n2"] * 2, phase="Running")
    result = told.gang("new", "b", 4, waiting=4).run(conf, profile)
    assert len(evicted(result)) == 2
    assert bound(result) == [], "a gang starts whole"
    assert len(result.plan.nominations) == 4
