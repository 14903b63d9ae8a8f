"""What why names is done by somebody who only read the answer; then a whole cycle decides.

The judge is slow and knows nothing of ladders: it writes records anew, builds tables from nothing,
and goes through every smaller value there is, not only the one that was tried.
"""

import os

from hypothesis import HealthCheck, given, settings
from tests.properties.test_foresight import _WORLDS, answers
from tests.support.changes_by_hand import done, smaller_steps
from tests.support.draws import EXPLORE

from muster.foresight.situation import Situation, decided
from muster.foresight.smallest import Change, Start, start_of
from muster.foresight.why import Questions
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make

_EXAMPLES, _EXAMPLES_TO_EXPLORE = 25, 800
"""Of clusters; 800 are about 1,300 situations, in half of which something would help."""
_CAREFULLY = settings(
    max_examples=_EXAMPLES_TO_EXPLORE if os.environ.get(EXPLORE) else _EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_COUNTED = frozenset({"members", "request", "share", "limit", "quota", "nodes", "priority"})
"""Dimensions whose steps are amounts."""


def judged(situation: Situation, world: ClusterRecords, job: str) -> Start | None:
    """How the job starts in the next cycle, if it does."""
    found = decided(
        snapshot_of(world), situation.rules, situation.now_s, situation.told_to_the_next
    )
    return start_of(found, job)


@_CAREFULLY
@given(_WORLDS)
def test_what_is_named_starts_the_job_when_somebody_does_it(world: ClusterRecords) -> None:
    """And evicts somebody where it says so, and nobody where it does not."""
    situation = Situation.of(world, make.NOW_S)
    for why in answers(Questions(situation)):
        for change in why.changes:
            after = done(situation.left, why.job, change.what, change.subject, change.after)
            start = judged(situation, after, why.job)
            assert start is not None, (why.job, change)
            assert bool(start.evictions) == bool(change.start.evictions), (why.job, change)


@_CAREFULLY
@given(_WORLDS)
def test_no_smaller_value_does(world: ClusterRecords) -> None:
    """Unless others go for it, where what is named lets them stay."""
    situation = Situation.of(world, make.NOW_S)
    for why in answers(Questions(situation)):
        for change in why.changes:
            if change.what not in _COUNTED:
                continue
            for value in smaller_steps(situation.left, why.job, change):
                less = done(situation.left, why.job, change.what, change.subject, value)
                assert not does(judged(situation, less, why.job), change), (why.job, change, value)


def does(start: Start | None, change: Change) -> bool:
    """Whether a start is as good as the one that was named."""
    return start is not None and (bool(change.start.evictions) or not start.evictions)
