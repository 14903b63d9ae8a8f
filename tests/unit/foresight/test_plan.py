"""Plan before submit: what it says is what then happens, and how long its token holds."""

from dataclasses import replace
from itertools import count

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from muster.foresight.plan import (
    BadToken,
    Plan,
    Submission,
    Verdict,
    checked,
    held,
    plan,
    token_of,
)
from muster.foresight.situation import Situation
from muster.foresight.smallest import start_of
from muster.foresight.variants import Variants
from muster.model.record_changes import Delta, changed
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.testing import make
from muster.testing.contended import contended_clusters

_KEY = b"secret"
_WORLD = (make.node("n1", gpu=4), make.node("n2", gpu=4), make.queue("a", quota_gpu=8))


def submission(work: make.Workload, digest: str = "m") -> Submission:
    return Submission((work.job,), work.tasks, digest)


def planned(world: ClusterRecords, work: make.Workload) -> Plan:
    situation = Situation.of(world, make.NOW_S)
    return plan(situation, Variants(world), submission(work))


@pytest.mark.parametrize(
    ("work", "verdict"),
    [
        (make.gang("new", 2, gpu=2, queue="a"), Verdict.STARTS),
        (make.gang("new", 9, gpu=1, queue="a"), Verdict.NEVER),
        (make.gang("new", 1, gpu=8, queue="a"), Verdict.NEVER),
        (make.gang("new", 1, gpu=1, queue="nowhere"), Verdict.BROKEN),
    ],
)
def test_verdicts(work: make.Workload, verdict: Verdict) -> None:
    assert planned(make.cluster(*_WORLD), work).verdict is verdict


def test_what_fits_on_empty_nodes_waits_while_they_are_full() -> None:
    old = make.gang("old", 2, gpu=4, queue="a", nodes=("n1", "n2"))
    world = make.cluster(*_WORLD, old)
    assert planned(world, make.gang("new", 8, gpu=1, queue="a")).verdict is Verdict.WAITS


def test_who_goes_is_named() -> None:
    world = make.cluster(
        make.node("n1", gpu=2),
        make.queue("a", quota_gpu=0),
        make.queue("b", quota_gpu=2),
        make.gang("old", 1, gpu=2, queue="a", nodes=("n1",)),
    )
    found = planned(world, make.gang("new", 1, gpu=2, queue="b"))
    assert found.verdict is Verdict.EVICTS
    assert [evict.job for evict in found.evictions] == ["default/old"]


def is_good_in(world: ClusterRecords, other: ClusterRecords, work: make.Workload) -> bool:
    """Whether a token that was made in one world holds in another."""
    situation = Situation.of(world, make.NOW_S)
    token = token_of(planned(world, work), submission(work), situation, "rules", _KEY)
    try:
        again = planned(other, work)
        held(checked(token, _KEY), again, submission(work), "rules", make.NOW_S)
    except BadToken:
        return False
    return True


def test_a_token_fails_when_somebody_else_would_go_for_the_same_place() -> None:
    def world(victim: str) -> ClusterRecords:
        return make.cluster(
            make.node("n1", gpu=2),
            make.queue("a", quota_gpu=0),
            make.queue("b", quota_gpu=2),
            make.gang(victim, 1, gpu=2, queue="a", nodes=("n1",)),
        )

    new = make.gang("new", 1, gpu=2, queue="b")
    assert is_good_in(world("old"), world("old"), new)
    assert not is_good_in(world("old"), world("another"), new)


def test_where_there_was_no_time_to_ask_again_a_token_is_not_taken_for_good() -> None:
    """The answer may be the same only because the search did not come to its end."""
    new = make.gang("new", 1, gpu=4, queue="a")
    world = make.cluster(*_WORLD)
    situation, again = Situation.of(world, make.NOW_S), planned(world, new)
    token = checked(token_of(again, submission(new), situation, "rules", _KEY), _KEY)
    held(token, again, submission(new), "rules", make.NOW_S)
    short = replace(again, is_complete=False)
    with pytest.raises(BadToken, match="there was no time to look"):
        held(token, short, submission(new), "rules", make.NOW_S)


def test_a_token_of_what_waits_fails_when_it_could_never_start() -> None:
    def world(size: int) -> ClusterRecords:
        old = make.gang("old", 2, gpu=size, queue="a", nodes=("n1", "n2"))
        nodes = (make.node("n1", gpu=size), make.node("n2", gpu=size))
        return make.cluster(*nodes, make.queue("a", quota_gpu=8), old)

    new = make.gang("new", 1, gpu=4, queue="a")
    assert is_good_in(world(4), world(8), new)
    assert not is_good_in(world(4), world(2), new)


def test_what_a_manifest_is_refused_for_is_the_answer() -> None:
    situation = Situation.of(make.cluster(*_WORLD), make.NOW_S)
    found = plan(situation, Variants(situation.records), Submission((), (), "m", ("no queue",)))
    assert (found.verdict, found.problems) == (Verdict.BROKEN, ("no queue",))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contended_clusters())
def test_a_plan_is_what_happens_when_it_is_submitted(world: ClusterRecords) -> None:
    """One waiting job of a drawn cluster is taken out, planned, and put in."""
    waiting = [task.job for task in world.tasks if task.status is TaskStatus.PENDING]
    for key in sorted(set(waiting))[:1]:
        job = next(one for one in world.jobs if one.key == key)
        tasks = tuple(task for task in world.tasks if task.job == key)
        without = msgspec.structs.replace(
            world,
            jobs=tuple(one for one in world.jobs if one.key != key),
            tasks=tuple(task for task in world.tasks if task.job != key),
        )
        situation = Situation.of(without, make.NOW_S)
        found = plan(situation, Variants(without), Submission((job,), tasks, "m"))
        happened = Situation.of(world, make.NOW_S).result
        assert found.jobs[0].start == start_of(happened, key)


def ask(world: ClusterRecords, work: make.Workload) -> tuple[Situation, Plan, Submission]:
    situation, asked = Situation.of(world, make.NOW_S), submission(work)
    return situation, plan(situation, Variants(world), asked), asked


def test_a_token_holds_when_something_else_changes_and_fails_when_it_matters() -> None:
    world, work = make.cluster(*_WORLD), make.gang("new", 2, gpu=2, queue="a")
    situation, first, asked = ask(world, work)
    token = checked(token_of(first, asked, situation, "rules", _KEY), _KEY)
    other = changed(world, Delta(queues=(make.queue("z", quota_gpu=1),)))
    held(token, ask(other, work)[1], asked, "rules", make.NOW_S)
    taken = make.gang("old", 2, gpu=4, queue="a", nodes=("n1", "n2"))
    full = changed(world, Delta(jobs=(taken.job,), tasks=taken.tasks))
    with pytest.raises(BadToken, match="otherwise now"):
        held(token, ask(full, work)[1], asked, "rules", make.NOW_S)
    with pytest.raises(BadToken, match="configuration"):
        held(token, first, asked, "other rules", make.NOW_S)
    with pytest.raises(BadToken, match="10 minutes"):
        held(token, first, asked, "rules", make.NOW_S + 601)
    with pytest.raises(BadToken, match="not the one that was planned"):
        held(token, first, submission(work, "other"), "rules", make.NOW_S)


@pytest.mark.parametrize("text", ["", "p1.x.y", "p1.e30.AAAA", "p2.a.b", "p1..", "p1.é.é"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        checked(text, _KEY)


def test_a_token_of_somebody_else_is_refused() -> None:
    situation, first, asked = ask(make.cluster(*_WORLD), make.gang("new", 1, gpu=1, queue="a"))
    with pytest.raises(BadToken, match="not made by this cluster"):
        checked(token_of(first, asked, situation, "rules", b"other"), _KEY)


def test_the_search_of_a_plan_ends_with_its_budget_however_many_jobs_wait() -> None:
    world = make.cluster(*_WORLD)
    large = [make.gang(f"large-{at}", 9, gpu=1, queue="a") for at in range(50)]
    jobs = tuple(one.job for one in large)
    tasks = tuple(task for one in large for task in one.tasks)
    looked = count()
    situation = Situation.of(world, make.NOW_S)
    found = plan(
        situation, Variants(world), Submission(jobs, tasks, "m"), 20.0, lambda: float(next(looked))
    )
    assert [bool(job.changes) for job in found.jobs].count(True) < 10
    assert next(looked) < 200
