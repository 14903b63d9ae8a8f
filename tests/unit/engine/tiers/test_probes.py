"""What was seen to go wrong in kube-batch and Volcano goes right here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from tests.support.batch import Batch, bound, evicted, where

from muster.engine.hooks import SessionPlugin, View
from muster.engine.profiles.volcano import DEFAULT_CONF
from muster.engine.tiers.rules import TieredPlugin
from muster.model.batch_terms import HyperNodeRecord, NearnessWish
from muster.model.cluster_objects import DisruptionAllowance
from muster.model.public_reasons import code_of, public_reason
from muster.model.reason_codes import Code
from muster.model.selectors import LabelSelector, Operator, Requirement
from muster.model.status import TaskStatus

_HIERARCHY = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: capacity
    enableHierarchy: true
  - name: predicates
"""
_RECLAIM = """
actions: "reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
"""
_PREEMPT = _RECLAIM.replace("reclaim", "preempt")


def _tree() -> Batch:
    return (
        Batch()
        .node("n1", 8)
        .queue("root")
        .queue("team", parent="root")
        .queue("leaf", parent="team", capability={"cpu": 8})
    )


def test_a_group_in_a_queue_that_has_others_below_it_stops_nobody_else() -> None:
    told = _tree().gang("odd", "team", 1, waiting=1).gang("good", "leaf", 2, waiting=2)
    assert bound(told.run(_HIERARCHY)) == ["good-0", "good-1"]


def test_a_queue_whose_parent_does_not_exist_stops_nobody_else() -> None:
    told = _tree().queue("orphan", parent="nowhere").gang("lost", "orphan", 1, waiting=1)
    result = told.gang("good", "leaf", 2, waiting=2).run(_HIERARCHY)
    assert bound(result) == ["good-0", "good-1"]
    assert "ns/lost" in result.explanation.refusals


def test_reclaim_leaves_no_running_gang_below_its_minimum() -> None:
    """Volcano asks the next tier when gang says no, and tears all of them."""
    told = Batch().node("n1", 4).node("n2", 4).queue("a").queue("b")
    told.gang("rigid-1", "a", 4, on=["n1"] * 4).gang("rigid-2", "a", 4, on=["n2"] * 4)
    assert evicted(told.gang("new", "b", 2, waiting=2).run(_RECLAIM)) == []


def test_reclaim_takes_what_gangs_have_above_their_minimum() -> None:
    told = Batch().node("n1", 4).node("n2", 4).queue("a").queue("b")
    told.gang("elastic", "a", 1, on=["n1"] * 4 + ["n2"] * 4)
    assert len(evicted(told.gang("new", "b", 2, waiting=2).run(_RECLAIM))) == 2


def test_a_gang_whose_members_cannot_all_get_room_evicts_nobody() -> None:
    """The first kube-batch evicted for each member as it came."""
    told = Batch().node("n1", 4).queue("a")
    told.gang("low", "a", 2, on=["n1"] * 4).gang("high", "a", 4, waiting=4, priority=10)
    assert evicted(told.run(_PREEMPT)) == []


def test_preemption_by_a_pod_of_another_shape_is_counted_resource_by_resource() -> None:
    """The first kube-batch crashed on it."""
    told = Batch().node("n1", 4).queue("a")
    told.gang("small", "a", 0, on=["n1"] * 4).gang("large", "a", 1, waiting=1, cpus=3, priority=10)
    assert len(evicted(told.run(_PREEMPT))) == 3


@pytest.mark.parametrize("profile", ["volcano", "kube-batch"])
@pytest.mark.row(122)
def test_two_queues_of_unequal_demand_share_what_the_smaller_leaves(profile: str) -> None:
    """The first kube-batch crashed on it: 10 CPUs, one queue wants 10 and the other 1."""
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: proportion\n"
    told = Batch().node("n1", 10).queue("a").queue("b")
    told.gang("many", "a", 0, waiting=10).gang("one", "b", 0, waiting=1)
    started = bound(told.run(conf, profile))
    assert "one-0" in started
    assert len(started) == 10


def test_a_job_of_higher_priority_goes_before_an_older_one() -> None:
    """In the first kube-batch the order of gangs hid every other."""
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n"
    told = Batch().node("n1", 2).queue("a")
    told.gang("old", "a", 2, waiting=2).gang("high", "a", 2, waiting=2, priority=10)
    assert bound(told.run(conf)) == ["high-0", "high-1"]


def test_making_room_for_a_whole_job_takes_whole_jobs_and_no_more_than_needed() -> None:
    conf = _RECLAIM.replace('actions: "reclaim"', 'actions: "gangpreempt"')
    told = Batch().node("n1", 4).node("n2", 4).queue("a")
    told.gang("low-1", "a", 4, on=["n1"] * 4).gang("low-2", "a", 4, on=["n2"] * 4)
    result = told.gang("high", "a", 3, waiting=3, priority=10).run(conf)
    assert len({evict.job for evict in result.plan.evictions}) == 1
    assert len(evicted(result)) == 4  # a gang goes as a whole
    assert len(result.plan.nominations) == 3


@pytest.mark.row(142)
def test_groups_are_let_in_up_to_the_overcommitted_cluster_and_then_started() -> None:
    told = Batch().node("n1", 10).queue("a")
    for number in range(4):
        told.gang(f"g{number}", "a", 4, waiting=4, phase="Pending", min_cpus=4)
    conf = 'actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: gang}, {name: overcommit}]\n'
    result = told.run(conf)
    assert result.plan.admitted == ("ns/g0", "ns/g1", "ns/g2")  # 12 of 10 CPUs, 1.2 times
    assert len(result.plan.binds) == 8  # two gangs of four fit whole


@pytest.mark.parametrize(
    ("plugin", "code"),
    [("overcommit", Code.REFUSED_BY_PLUGIN), ("proportion", Code.QUEUE_AT_LIMIT)],
)
def test_a_group_that_is_not_let_in_is_told_why_before_it_has_pods(plugin: str, code: Code) -> None:
    told = Batch().queue("q").node("n1", 2)
    told.gang("large", "q", 9, phase="Pending", min_cpus=9)
    told.gang("small", "q", 1, phase="Pending", min_cpus=1)
    conf = DEFAULT_CONF
    for other in {"overcommit", "proportion"} - {plugin}:
        conf = conf.replace(f"  - name: {other}\n", "")
    explanation = told.run(conf).explanation
    (why,) = explanation.refusals["ns/large"]
    assert (code_of(why), why.subject) == (code, "q" if plugin == "proportion" else plugin)
    assert "ns/small" not in explanation.refusals


def test_a_group_that_says_what_quotas_count_of_its_pods_is_let_in_by_what_nodes_have() -> None:
    """Volcano's own controllers write both, of every group."""
    told = Batch().queue("q").node("n1", 2)
    for name, cpus in (("fits", 1), ("large", 9)):
        told.gang(name, "q", 1, phase="Pending", min_cpus=cpus)
        amounts = {"cpu": cpus * 1000, "requests.cpu": cpus * 1000, "limits.cpu": 9000}
        amounts |= {"pods": 1, "count/pods": 1, "requests.nvidia.com/gpu": 1}
        record = told.jobs[-1]
        assert record.terms is not None
        told.jobs[-1] = replace(record, terms=replace(record.terms, min_resources=amounts))
    assert told.run(DEFAULT_CONF).plan.admitted == ("ns/fits",)


@pytest.mark.parametrize(
    ("waiting", "gang", "said"),
    [
        (2, {}, "2 of the 3 pods that it needs to start exist"),
        (3, {"roles": {"ps": 1}}, "0 of the 1 pods of sub-group ps that it needs to start exist"),
    ],
)
def test_who_lacks_pods_is_told_how_many(waiting: int, gang: dict[str, Any], said: str) -> None:
    told = Batch().node("n1", 8).queue("a").gang("g", "a", 3, waiting=waiting, **gang)
    result = told.run("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n")
    assert bound(result) == []
    assert said in public_reason(result.explanation.refusals["ns/g"][0]).sentence


def test_a_gang_needs_the_minimum_of_each_of_its_roles() -> None:
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
    told = Batch().node("n1", 8).queue("a").gang("g", "a", 2, waiting=2, roles={"ps": 1})
    assert bound(told.run(conf)) == []


@pytest.mark.parametrize(
    "actions",
    [
        "enqueue, allocate, backfill",
        "enqueue, allocate, backfill, preempt, reclaim",
        "enqueue, allocate, preempt, reclaim, backfill",
        "enqueue, reclaim, allocate, preempt, backfill",
        "enqueue, reclaim, preempt, gangpreempt, gangreclaim, shuffle, allocate, backfill",
    ],
)
def test_pods_that_ask_for_nothing_start_with_their_gang_whatever_comes_before(
    actions: str,
) -> None:
    told = Batch().queue("q").node("n1", 2)
    told.gang("free", "q", 1, waiting=1, cpus=0, phase="Pending")
    told.gang("mixed", "q", 3, waiting=2, phase="Pending")
    told.tasks.append(replace(told.tasks[-1], uid="mixed-2", name="mixed-2", request={"pods": 1}))
    conf = DEFAULT_CONF.replace("enqueue, allocate, backfill", actions)
    result = told.run(conf)
    assert bound(result) == ["free-0", "mixed-0", "mixed-1", "mixed-2"]
    assert result.plan.nominations == ()


def test_queues_that_are_above_each_other_stop_nobody_else() -> None:
    told = _tree().queue("x", parent="y").queue("y", parent="x")
    told.gang("lost", "x", 1, waiting=1).gang("good", "leaf", 2, waiting=2)
    assert {"good-0", "good-1"} <= set(bound(told.run(_HIERARCHY)))


@pytest.mark.parametrize("profile", ["volcano", "kube-batch"])
def test_of_two_gangs_that_wait_the_one_whose_job_holds_less_goes_first(profile: str) -> None:
    """In the first kube-batch the order of names hid the shares of gangs that were not ready."""
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: drf\n"
    told = Batch().node("n1", 4).queue("a")
    told.gang("a-rich", "a", 4, on=["n1"] * 2, waiting=2).gang("z-poor", "a", 2, waiting=2)
    assert bound(told.run(conf, profile)) == ["z-poor-0", "z-poor-1"]


def test_an_answer_of_nobody_in_an_early_tier_is_final() -> None:
    """gang keeps all members, drf of the next tier would give some: Volcano asks it then."""
    conf = (
        "actions: preempt\ntiers:\n- plugins:\n  - name: gang\n"
        "- plugins:\n  - name: drf\n  - name: predicates\n"
    )
    told = Batch().node("n1", 4).queue("a")
    told.gang("rigid", "a", 4, on=["n1"] * 4).gang("new", "a", 1, waiting=1, priority=10)
    assert evicted(told.run(conf)) == []
    freed = Batch().node("n1", 4).queue("a")
    freed.gang("elastic", "a", 0, on=["n1"] * 4).gang("new", "a", 1, waiting=1, priority=10)
    assert len(evicted(freed.run(conf))) == 1


def test_the_probe_of_rigid_and_elastic_victims_of_many_jobs() -> None:
    """A tenth of a full cluster is wanted: whole gangs go for it, or just as many single pods."""
    for action, minimum, gone in (
        ("preempt", 1, 8),
        ("reclaim", 1, 8),
        ("preempt", 10, 0),
        ("reclaim", 10, 0),
        ("gangpreempt", 10, 10),
        ("gangreclaim", 10, 10),
    ):
        told = Batch().queue("a").queue("b")
        for number in range(8):
            told.node(f"n{number}", 10)
            on = [f"n{number}"] * 10
            told.gang(f"g{number}", "a", minimum, on=on, phase="Running")
        queue = "b" if "reclaim" in action else "a"
        told.gang("new", queue, 8, waiting=8, priority=10)
        result = told.run(_RECLAIM.replace('"reclaim"', f'"{action}"'))
        assert len(evicted(result)) == gone, (action, minimum)
        whole = {one.job for one in result.plan.evictions}
        assert minimum == 1 or len(whole) * 10 == gone, "no gang is cut"


@dataclass(frozen=True)
class _Names:
    """A plugin that names these victims and no others."""

    name: ClassVar[str] = "names"
    victims: tuple[str, ...]

    def open(self, view: View) -> SessionPlugin:
        return _Named(view, self.victims)


class _Named(TieredPlugin):
    def __init__(self, view: View, victims: tuple[str, ...]) -> None:
        self._tasks, self._victims = view.snapshot.tasks.records, victims

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return [each for each in candidates if self._tasks[each].uid in self._victims]

    reclaimable = preemptable


@pytest.mark.parametrize("profile", ["volcano", "kube-batch"])
@pytest.mark.parametrize(("action", "queue"), [("preempt", "a"), ("reclaim", "b")])
@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        ([("a-0",), ("b-0",), ("a-0", "b-0")], []),
        ([("a-0",), ("a-0", "b-0")], ["a-0"]),
        ([(), ("a-0", "b-0")], []),
    ],
    ids=["{a},{b},{a,b}", "{a},{a,b}", "nobody,{a,b}"],
)
def test_who_is_not_named_by_all_stays(
    profile: str, action: str, queue: str, answers: list[tuple[str, ...]], gone: list[str]
) -> None:
    """Volcano makes {a,b} of the first and of the last."""
    conf = f"actions: {action}\ntiers:\n- plugins: [{{name: priority}}]\n"
    conf += "- plugins: [{name: gang}, {name: predicates}]\n"
    if profile == "kube-batch":
        conf = conf.replace("{name: predicates}", "{name: predicates}, {name: conformance}")
    told = Batch().node("n1", 2).queue("a").queue("b")
    told.gang("a", "a", 0, on=["n1"]).gang("b", "a", 0, on=["n1"])
    told.gang("new", queue, 1, waiting=1, priority=10)
    assert evicted(told.run(conf, profile, plugins=list(map(_Names, answers)))) == gone


@pytest.mark.parametrize("profile", ["volcano", "kube-batch"])
@pytest.mark.parametrize(("action", "queue"), [("preempt", "a"), ("reclaim", "b")])
def test_victims_that_are_not_enough_stay(profile: str, action: str, queue: str) -> None:
    """The first kube-batch evicted them where no node has GPUs, and crashed."""
    told = Batch().node("n1", 4).queue("a").queue("b")
    told.gang("low", "a", 0, on=["n1"] * 2)
    told.gang("large", queue, 1, waiting=1, cpus=8, priority=10)
    result = told.run(_RECLAIM.replace("reclaim", action), profile)
    assert (evicted(result), bound(result)) == ([], [])


@pytest.mark.parametrize("profile", ["volcano", "kube-batch"])
def test_who_is_done_counts_in_his_gang(profile: str) -> None:
    """The first kube-batch forgot pods that had ended, and then their gang."""
    told = Batch().node("n1", 1).queue("a").gang("g", "a", 2, on=["n1"], waiting=1)
    told.tasks[0] = replace(told.tasks[0], status=TaskStatus.SUCCEEDED)
    conf = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
    assert bound(told.run(conf, profile)) == ["g-1"]


def _racks(told: Batch) -> Batch:
    """Two racks of two nodes with two CPUs each, and the row of both."""
    racks = {"east": ["n0", "n1"], "west": ["n2", "n3"]}
    found = {
        name: HyperNodeRecord(name, 1, frozenset(nodes), parent="row")
        for name, nodes in racks.items()
    }
    row = frozenset(node for nodes in racks.values() for node in nodes)
    for node in sorted(row):
        told.node(node, 2)
    return told.seen(hyper_nodes={**found, "row": HyperNodeRecord("row", 2, row)})


_NEAR = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: network-topology-aware}]
"""


def test_a_gang_that_goes_for_a_rack_goes_whole_also_what_of_it_is_elsewhere() -> None:
    """Volcano takes the members inside the rack, and leaves a cut gang outside."""
    told = _racks(Batch().queue("a"))
    told.gang("wide", "a", 4, on=["n0", "n1", "n2", "n3"])
    told.gang("more", "a", 2, on=["n0", "n2"], priority=20)
    near = {"nearness": NearnessWish(1)}
    told.gang("new", "a", 3, waiting=3, priority=10, terms=near, min_cpus=3)
    gone = evicted(told.run(_NEAR.replace("allocate", "gangpreempt")))
    assert gone == ["wide-0", "wide-1", "wide-2", "wide-3"]


def test_what_one_gang_got_of_a_rack_counts_for_the_next_of_the_same_cycle() -> None:
    """Volcano goes by what racks had free when the session began."""
    told, near = _racks(Batch().queue("a")), {"nearness": NearnessWish(1)}
    for name in ("one", "two"):
        told.gang(name, "a", 4, waiting=4, terms=near, min_cpus=4)
    places = where(told.run(_NEAR))
    racks = {name: {places[f"{name}-{at}"] for at in range(4)} for name in ("one", "two")}
    assert sorted(map(sorted, racks.values())) == [["n0", "n1"], ["n2", "n3"]]


def test_what_queues_below_one_got_counts_for_it_in_the_same_cycle() -> None:
    """Volcano compares the shares that subtrees had when the session began."""
    told = Batch().node("n1", 6).queue("root")
    for name, leaves in (("a", ("a1", "a2")), ("b", ("b1",))):
        told.queue(name, parent="root", deserved={"cpu": 3})
        for leaf in leaves:
            told.queue(leaf, parent=name)
            for number in range(6):
                told.gang(f"{leaf}-{number}", leaf, 1, waiting=1)
    started = bound(told.run(_HIERARCHY))
    assert [sum(one.startswith(name) for one in started) for name in ("a", "b")] == [3, 3]


def test_a_pod_that_no_budget_covers_may_go_though_it_has_no_labels() -> None:
    """Volcano's pdb spares it."""
    told = Batch().node("n1", 2).queue("a")
    told.gang("bare", "a", 0, on=["n1"]).gang("kept", "a", 0, on=["n1"], labels={"app": "kept"})
    allowance = DisruptionAllowance(
        "ns", LabelSelector((Requirement("app", Operator.IN, ("kept",)),)), 0
    )
    told.seen(disruption_allowances={"ns/budget": allowance})
    told.gang("new", "a", 1, waiting=1, priority=10)
    conf = _PREEMPT.replace("- name: conformance", "- name: pdb")
    assert evicted(told.run(conf)) == ["bare-0"]


@pytest.mark.parametrize("is_fifo", [True, False])
def test_who_cannot_start_keeps_nobody_behind_him_from_starting(is_fifo: bool) -> None:
    """Of a queue's dequeueStrategy nothing follows, as in Volcano."""
    told = Batch().node("n1", 2).queue("a", is_fifo=is_fifo)
    told.gang("large", "a", 4, waiting=4, priority=10).gang("small", "a", 2, waiting=2)
    assert bound(told.run(DEFAULT_CONF)) == ["small-0", "small-1"]
