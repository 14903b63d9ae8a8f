"""Each rule about queues accepts and refuses."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.api.validation.problems import Severity
from muster.api.validation.queues import (
    cycle_problems,
    deletion_problems,
    parent_problems,
    queue_problems,
)

Json = dict[str, Any]


def _queue(name: str = "q", parent: str = "", **spec: Any) -> Queue:
    spec = {"resources": {}, "parentQueue": parent, **spec}
    return from_builtins(Queue, {"metadata": {"name": name}, "spec": spec})


def _gpu(**amounts: float) -> Json:
    """With as much CPU and memory as there is."""
    unlimited = {"quota": -1, "limit": -1}
    return {"cpu": unlimited, "memory": unlimited, "gpu": amounts}


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
def test_a_queue_that_breaks_a_rule_has_one_problem_at_the_field(
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


def test_a_quota_above_the_limit_is_only_a_warning() -> None:
    (problem,) = queue_problems(_queue(resources=_gpu(quota=4, limit=2)))
    assert problem.severity is Severity.WARNING


def test_a_missing_parent_queue_is_a_problem_that_names_it() -> None:
    (problem,) = parent_problems(_queue(parent="ghost"), {})
    assert (problem.path, problem.message) == ("spec.parentQueue", "there is no queue ghost")


def test_a_queue_cycle_is_a_problem_that_shows_its_path() -> None:
    others = {name: _queue(name, parent) for name, parent in (("b", "c"), ("c", "a"))}
    (problem,) = cycle_problems(_queue("a", "b"), others)
    assert "a -> b -> c -> a" in problem.message


def test_a_queue_below_a_cycle_of_others_has_no_cycle_problem() -> None:
    others = {name: _queue(name, parent) for name, parent in (("b", "c"), ("c", "b"))}
    assert list(cycle_problems(_queue("a", "b"), others)) == []


def test_a_queue_with_children_cannot_be_deleted() -> None:
    queues = {"team": _queue("team"), "child": _queue("child", "team")}
    (problem,) = deletion_problems(queues["team"], queues)
    assert problem.message == "cannot delete queue team: it has child queues [child]"
    assert list(deletion_problems(queues["child"], queues)) == []
