"""Each rule about queues takes and refuses."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.api.validation.problems import Severity
from muster.api.validation.queues import (
    deletion_problems,
    queue_in_tree_problems,
    queue_problems,
    queue_tree_problems,
)

Json = dict[str, Any]


def _queue(name: str = "q", parent: str = "", **spec: Any) -> Queue:
    spec = {"resources": {}, "parentQueue": parent, **spec}
    return from_builtins(Queue, {"metadata": {"name": name}, "spec": spec})


def _gpu(**amounts: float) -> Json:
    return {"gpu": amounts}


_ALONE: list[tuple[Json, str, str]] = [
    ({"resources": None}, "spec.resources", "resources must be specified"),
    ({"resources": _gpu(quota=-2, limit=-1)}, "spec.resources.gpu.quota", "-2 is negative"),
    ({"resources": _gpu(quota=-0.5, limit=-1)}, "spec.resources.gpu.quota", "-0.5 is negative"),
    ({"resources": _gpu(limit=-7)}, "spec.resources.gpu.limit", "-7 is negative"),
    ({"resources": _gpu(overQuotaWeight=-1)}, "spec.resources.gpu.overQuotaWeight", "negative"),
    ({"resources": _gpu(quota=4, limit=2)}, "spec.resources.gpu.limit", "below the quota 4"),
    ({"resources": _gpu(quota=-1, limit=2)}, "spec.resources.gpu.limit", "quota everything"),
    ({"parentQueue": "q"}, "spec.parentQueue", "queue q is its own parent"),
    ({"parentQueue": "Not A Name"}, "spec.parentQueue", "no queue can be called 'Not A Name'"),
    ({"preemptMinRuntime": "-1m"}, "spec.preemptMinRuntime", "-1m0s is negative"),
    ({"reclaimMinRuntime": "-1m"}, "spec.reclaimMinRuntime", "-1m0s is negative"),
]


@pytest.mark.parametrize(("spec", "path", "text"), _ALONE)
def test_a_queue_against_a_rule_has_one_problem_at_the_field(
    spec: Json, path: str, text: str
) -> None:
    (problem,) = queue_problems(_queue(**spec))
    assert problem.path == path
    assert text in problem.message
    assert problem.fix


def test_a_queue_within_the_rules_has_no_problem() -> None:
    fine = _queue(
        parent="team",
        resources=_gpu(quota=2.5, limit=-1, overQuotaWeight=1),
        preemptMinRuntime="1d",
        reclaimMinRuntime="0s",
    )
    assert list(queue_problems(fine)) == []


def test_what_the_original_accepts_and_can_run_is_only_a_warning() -> None:
    (problem,) = queue_problems(_queue(resources=_gpu(quota=4, limit=2)))
    assert problem.severity is Severity.WARNING


def test_an_unknown_parent_is_named() -> None:
    (problem,) = queue_in_tree_problems(_queue(parent="ghost"), {})
    assert (problem.path, problem.message) == ("spec.parentQueue", "there is no queue ghost")


def test_a_queue_that_is_its_own_ancestor_shows_the_way() -> None:
    others = {name: _queue(name, parent) for name, parent in (("b", "c"), ("c", "a"))}
    (problem,) = queue_in_tree_problems(_queue("a", "b"), others)
    assert "a -> b -> c -> a" in problem.message


def test_a_queue_below_the_cycle_of_others_is_not_blamed_and_does_not_hang() -> None:
    others = {name: _queue(name, parent) for name, parent in (("b", "c"), ("c", "b"))}
    assert list(queue_in_tree_problems(_queue("a", "b"), others)) == []


@pytest.mark.parametrize(
    ("quotas", "given", "text"),
    [
        ([4.0, 4.0], 6.0, "are promised 8, it has 6"),
        ([-1.0, 1.0], 6.0, "are promised everything, it has 6"),
        ([3.0, 3.0], 6.0, None),
        ([9.0, 9.0], -1.0, None),
    ],
)
def test_children_are_promised_no_more_than_the_parent_has(
    quotas: list[float], given: float, text: str | None
) -> None:
    first, second = quotas
    others = {
        "team": _queue("team", resources=_gpu(quota=given, limit=-1)),
        "sibling": _queue("sibling", "team", resources=_gpu(quota=second, limit=-1)),
        # The older self does not count twice.
        "q": _queue("q", "team", resources=_gpu(quota=100, limit=-1)),
    }
    queue = _queue("q", "team", resources=_gpu(quota=first, limit=-1))
    found = [problem.message for problem in queue_in_tree_problems(queue, others)]
    assert len(found) == (text is not None)
    assert all(text is not None and text in message for message in found)


def test_a_parent_without_resources_is_no_measure() -> None:
    others = {"team": _queue("team", resources=None)}
    queue = _queue("q", "team", resources=_gpu(quota=4, limit=-1))
    assert list(queue_in_tree_problems(queue, others)) == []
    without = _queue("q", "team", resources=None)
    assert list(queue_in_tree_problems(without, {"team": _queue("team")})) == []


def test_all_problems_of_a_tree_come_by_queue() -> None:
    queues = {"a": _queue("a", "b"), "b": _queue("b", "a"), "c": _queue("c"), "d": _queue("d", "x")}
    assert sorted(queue_tree_problems(queues)) == ["a", "b", "d"]


def test_a_queue_with_children_cannot_go() -> None:
    queues = {"team": _queue("team"), "child": _queue("child", "team")}
    (problem,) = deletion_problems(queues["team"], queues)
    assert problem.message == "cannot delete queue team: it has child queues [child]"
    assert list(deletion_problems(queues["child"], queues)) == []
