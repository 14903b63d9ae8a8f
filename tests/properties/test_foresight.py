"""Why is right: what it names starts the job when it is done, and the next smaller step does not.

The judge knows nothing of how changes are looked for: it makes the change on the records that the
cycle leaves, and runs a whole cycle on them.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.foresight.changes import Waiting, ladders
from muster.foresight.situation import Situation, decided
from muster.foresight.smallest import start_of
from muster.foresight.variants import Variants
from muster.foresight.why import Questions, State, Why
from muster.model.record_changes import changed
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.strategies import ALL, clusters

_CAREFULLY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_WORLDS = st.one_of(contended_clusters(), contended_clusters(has_racks=True), clusters(ALL))


def answers(questions: Questions) -> list[Why]:
    found = [questions.why(job, float("inf")) for job in sorted(questions.state.jobs)]
    return [why for why in found if why.state is State.WAITING]


@_CAREFULLY
@given(_WORLDS)
def test_every_change_that_is_named_starts_the_job_in_a_whole_cycle(world: ClusterRecords) -> None:
    situation = Situation.of(world, make.NOW_S)
    for why in answers(Questions(situation)):
        for change in why.changes:
            again = snapshot_of(changed(situation.left, change.edit))
            start = start_of(decided(again, situation.rules, situation.now_s), why.job)
            assert start == change.start, (why.job, change.what)


@_CAREFULLY
@given(_WORLDS)
def test_no_change_that_was_searched_is_smaller(world: ClusterRecords) -> None:
    """All steps before the one named are run, not only those that the search looked at."""
    situation = Situation.of(world, make.NOW_S)
    questions = Questions(situation)
    for why in answers(questions):
        named = {(change.what, change.subject): change for change in why.changes}
        for ladder in ladders(waiting_of(questions, why)):
            change = named.get((ladder.what, ladder.subject))
            if change is None or not ladder.is_ordered or change.next_smaller is None:
                continue
            smaller = snapshot_of(changed(situation.left, ladder.edit(change.next_smaller)))
            allocated = decided(
                smaller, situation.rules, situation.now_s, actions=situation.rules.until_allocate
            )
            assert start_of(allocated, why.job) is None, (why.job, change.what)


def waiting_of(questions: Questions, why: Why) -> Waiting:
    state = questions.state
    pending = tuple(t for t in state.tasks_of(why.job) if t.status is TaskStatus.PENDING)
    return Waiting(state, state.jobs[why.job], pending, why.refusals, {})


@_CAREFULLY
@given(_WORLDS)
def test_a_variant_leaves_nothing_behind(world: ClusterRecords) -> None:
    situation = Situation.of(world, make.NOW_S)
    questions = Questions(situation)
    before = decided(snapshot_of(situation.left), situation.rules, situation.now_s)
    answers(questions)
    after = decided(questions.state.snapshot(), situation.rules, situation.now_s)
    assert after.plan == before.plan
    assert after.explanation == before.explanation


@pytest.mark.parametrize("at", range(3))
def test_a_variant_decides_as_a_cluster_that_is_built_so(at: int) -> None:
    """The tables that were changed and changed back, and tables built from nothing, agree."""
    world = make.cluster(
        *(make.node(f"n{i}", gpu=4) for i in range(3)),
        make.queue("a", quota_gpu=4),
        make.gang("big", 4, gpu=4, queue="a"),
        make.gang("small", 1, gpu=1, queue="a", nodes=("n0",)),
    )
    situation = Situation.of(world, make.NOW_S)
    variants = Variants(situation.left)
    space = ladders(waiting_of(Questions(situation), Questions(situation).why("default/big")))
    edit = space[at].edit(space[at].steps[-1])
    for _ in range(2):
        with variants.variant(edit) as snapshot:
            found = decided(snapshot, situation.rules, situation.now_s)
        built = snapshot_of(changed(situation.left, edit))
        assert found.plan == decided(built, situation.rules, situation.now_s).plan
