"""A question ends when its time is up, and says so; what is free is given away all the same."""

from collections.abc import Callable
from itertools import count

import pytest

from muster.foresight.arrivals import Past
from muster.foresight.plan import BadToken, Plan, Submission, Verdict, checked, held, plan, token_of
from muster.foresight.situation import Situation
from muster.foresight.smallest import Change
from muster.foresight.variants import Variants
from muster.foresight.whatif import difference
from muster.foresight.when import Asked, when
from muster.foresight.why import Questions
from muster.model.record_changes import Delta
from muster.model.records import ClusterRecords, TopologyConstraint, TopologyRecord, gang
from muster.testing import make

_SEARCH_S = 10.0
_NEW = make.gang("new", 1, gpu=2, queue="b")
_WORLD = make.cluster(
    make.node("n1", gpu=2),
    make.node("n2", gpu=1),
    make.queue("a", quota_gpu=1),
    make.queue("b", quota_gpu=2),
    make.gang("old", 1, gpu=2, queue="a", nodes=("n1",)),
    make.gang("small", 1, gpu=1, queue="a", is_preemptible=False),
)


def ticking(step_s: float) -> Callable[[], float]:
    """A clock on which each look takes so long."""
    ticks = count()
    return lambda: next(ticks) * step_s


def asked_with(
    step_s: float, world: ClusterRecords = _WORLD, search_s: float = _SEARCH_S
) -> Situation:
    rules = Situation.of(world, make.NOW_S)
    return Situation(rules.snapshot, rules.rules, make.NOW_S, (), ticking(step_s), search_s)


def planned(step_s: float) -> Plan:
    situation = asked_with(step_s)
    return plan(situation, Variants(situation.records), Submission((_NEW.job,), _NEW.tasks, "m"))


def test_a_plan_with_time_evicts_and_one_without_says_that_it_was_cut_short() -> None:
    assert (planned(0.0).verdict, planned(0.0).is_complete) == (Verdict.EVICTS, True)
    late = planned(_SEARCH_S)
    assert late.verdict is Verdict.WAITS
    assert not late.is_complete


def test_what_is_free_is_given_away_however_late_it_is() -> None:
    situation = asked_with(_SEARCH_S)
    assert {bind.job for bind in situation.result.plan.binds} == {"default/small"}


def test_what_was_cut_short_has_no_token_and_voids_none() -> None:
    submission = Submission((_NEW.job,), _NEW.tasks, "m")
    on_time, late, key = planned(0.0), planned(_SEARCH_S), b"key"
    assert token_of(late, submission, asked_with(0.0), "rules", key) == ""
    token = checked(token_of(on_time, submission, asked_with(0.0), "rules", key), key)
    with pytest.raises(BadToken, match="no time to look"):
        held(token, late, submission, "rules", make.NOW_S)


def test_another_policy_says_when_it_was_cut_short() -> None:
    waits = make.cluster(*_WORLD.nodes, *_WORLD.queues, *works(_WORLD), _NEW)
    edit = Delta(queues=(make.queue("b", quota_gpu=3),))
    for step_s, is_complete in ((0.0, True), (_SEARCH_S, False)):
        situation = asked_with(step_s, waits)
        found = difference(situation, Variants(situation.records), edit)
        assert found.is_complete is is_complete


def works(world: ClusterRecords) -> list[make.Workload]:
    return [
        make.Workload(job, tuple(task for task in world.tasks if task.job == job.key))
        for job in world.jobs
    ]


def changes_within(budget_s: float, step_s: float) -> dict[str, Change]:
    world = make.cluster(
        make.node("n1", gpu=2),
        make.queue("a", quota_gpu=2),
        make.gang("low", 1, gpu=2, queue="a", nodes=("n1",), priority=50),
        make.gang("train", 1, gpu=2, queue="a", priority=50),
        make.gang("high", 1, gpu=2, queue="a", priority=75, minimum=2),
    )
    clock = ticking(step_s)
    why = Questions(Situation.of(world, make.NOW_S), clock).why("default/train", budget_s)
    assert why.is_complete or step_s > 0
    return {change.what: change for change in why.changes}


def test_a_change_that_needs_a_search_is_not_denied_or_granted_by_half_a_search() -> None:
    whole = changes_within(1.0, 0.0)
    assert "priority" in whole
    for step_s in (0.003, 0.01, 0.03, 0.1, 0.4):
        for what, change in changes_within(1.0, step_s).items():
            assert change.start == whole[what].start
            assert change.after == whole[what].after


def test_futures_that_need_a_session_for_each_look_end_with_the_time() -> None:
    """Topologies are not compiled: a day of looks may take minutes."""
    racks = [make.node(f"n{i}", gpu=2, labels={"rack": f"r{i}"}) for i in range(2)]
    train = make.gang("train", 2, gpu=1, queue="a")
    together = gang(2, TopologyConstraint("network", required="rack"))
    runs = [
        make.gang(
            f"old-{i}",
            1,
            gpu=1,
            queue="a",
            nodes=(f"n{i % 2}",),
            expected_runtime_s=600.0 * (i + 1),
        )
        for i in range(4)
    ]
    world = make.cluster(
        *racks,
        make.queue("a", quota_gpu=8),
        TopologyRecord("network", ("rack",)),
        *runs,
        make.Workload(make.with_fields(train.job, sub_groups=together), train.tasks),
    )
    situation = Situation.of(world, make.NOW_S)
    with_time = when(situation, Past(), Asked(budget_s=5.0))["default/train"]
    late = when(situation, Past(), Asked(budget_s=5.0), ticking(6.0))["default/train"]
    assert with_time.likely_s is not None
    assert late.likely_s is None
    assert "there was time for 0 of " in late.why_not
