"""The place in the queue, and the rule that put the neighbour before it."""

import pytest

from muster.foresight.order import Place, job_order, places
from muster.foresight.situation import Situation
from muster.testing import make


def order(*parts: make.Part) -> dict[str, Place]:
    found = places(Situation.of(make.cluster(make.node("n1", gpu=8), *parts), make.NOW_S))
    return {place.job.partition("/")[2]: place for place in found}


def test_age_and_priority_inside_a_queue() -> None:
    found = order(
        make.queue("a"),
        make.gang("first", 1, gpu=1, queue="a", created_s=0.0),
        make.gang("later", 1, gpu=1, queue="a", created_s=9060.0),
        make.gang("low", 1, gpu=1, queue="a", created_s=0.0, priority=25),
    )
    assert [(p.at, p.of) for p in found.values()] == [(1, 3), (2, 3), (3, 3)]
    assert found["first"].behind == ""
    assert found["later"].because == "submitted 2h31m later"
    assert found["low"].because == "priority 25, not 50"
    assert found["low"].behind == "default/later"


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        ({"priority": 200}, {}, "queue a has the higher priority"),
        ({"quota_gpu": 8}, {}, "queue a stays within its quota with this job, queue b does not"),
    ],
)
def test_the_rule_between_queues(
    first: dict[str, float], second: dict[str, float], rule: str
) -> None:
    found = order(
        make.queue("a", created_s=9.0, **first),  # type: ignore[arg-type]
        make.queue("b", created_s=1.0, **second),  # type: ignore[arg-type]
        make.gang("mine", 1, gpu=1, queue="a"),
        make.gang("theirs", 1, gpu=1, queue="b"),
    )
    assert list(found) == ["mine", "theirs"]
    assert found["theirs"].because == rule
    assert found["theirs"].behind_in_queue == ""


def test_the_order_is_told_as_the_original_tells_it() -> None:
    found = order(
        make.queue("a"),
        make.gang("x", 1, gpu=1, queue="a", created_s=1.0),
        make.gang("y", 1, gpu=1, queue="a", created_s=2.0, priority=100),
    )
    first, second = {"id": "default/y", "priority": 100}, {"id": "default/x", "priority": 50}
    assert job_order(list(found.values())) == {
        "global_order": [first, second],
        "queue_order": {"a": [first, second]},
    }
