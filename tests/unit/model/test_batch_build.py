"""HyperNodes, groups and queues of Volcano become records, whatever is written in them."""

import pytest

from muster.api import volcano
from muster.api.meta import ObjectMeta
from muster.model.batch_build import batch_job_record, batch_queue_record, hyper_node_records
from muster.model.build import Priorities
from muster.model.records import NodeRecord


def _hyper_node(name: str, tier: int, *members: volcano.Member) -> volcano.HyperNode:
    spec = volcano.HyperNodeSpec(tier=tier, members=members)
    return volcano.HyperNode(metadata=ObjectMeta(name=name), spec=spec)


def _inner(name: str) -> volcano.Member:
    exact = volcano.ExactMatch(name=name)
    return volcano.Member(type="HyperNode", selector=volcano.MemberSelector(exact_match=exact))


def _nodes(pattern: str) -> volcano.Member:
    regex = volcano.RegexMatch(pattern=pattern)
    return volcano.Member(selector=volcano.MemberSelector(regex_match=regex))


_NODES = [NodeRecord(f"n{number}") for number in range(4)]


def test_a_hyper_node_holds_what_its_members_hold() -> None:
    found = hyper_node_records(
        [
            _hyper_node("rack-0", 1, _nodes("^n[01]$")),
            _hyper_node("rack-1", 1, _nodes("^n[23]$")),
            _hyper_node("row", 2, _inner("rack-0"), _inner("rack-1")),
        ],
        _NODES,
    )
    assert found["row"].nodes == {"n0", "n1", "n2", "n3"}
    assert found["rack-1"].parent == "row"


@pytest.mark.parametrize("pattern", ["(", "(a" * 200, "(?P<x>"])
def test_a_pattern_that_is_none_matches_nothing_and_prints_nothing(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = hyper_node_records([_hyper_node("odd", 1, _nodes(pattern))], _NODES)["odd"]
    assert odd.nodes == set()
    assert capfd.readouterr().err == ""


def test_hyper_nodes_that_contain_each_other_are_no_circle() -> None:
    found = hyper_node_records(
        [_hyper_node("a", 1, _inner("b"), _inner("a")), _hyper_node("b", 2, _inner("a"))], _NODES
    )
    assert {name: record.parent for name, record in found.items()} == {"a": "", "b": "a"}


def test_absurd_numbers_of_a_group_and_a_queue_are_bounded() -> None:
    spec = volcano.PodGroupSpec(min_member=-5, min_task_member={"a": 1 << 70, "b": -1})
    job = batch_job_record(volcano.PodGroup(spec=spec), Priorities())
    assert job.terms is not None
    assert job.terms.minimum == 0
    assert set(job.terms.role_minimum) == {"a"}
    queue = batch_queue_record(volcano.Queue(spec=volcano.QueueSpec(weight=0)))
    assert queue.terms is not None
    assert queue.terms.weight == 1
