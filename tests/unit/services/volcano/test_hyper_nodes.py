"""How many nodes are below a HyperNode."""

from typing import Any

from muster.api.codec import from_builtins
from muster.api.core import Node
from muster.api.volcano import HyperNode
from muster.services.volcano.decide.hyper_nodes import outdated_counts
from muster.services.volcano.reconciler.hyper_nodes import is_another_node


def _node(name: str, **more: Any) -> Node:
    return from_builtins(Node, {"metadata": {"name": name, **more}})


def _hyper_node(name: str, tier: int, kind: str, selector: Any, count: int = 0) -> HyperNode:
    members = [{"type": kind, "selector": selector}]
    spec = {"tier": tier, "members": members}
    status = {"nodeCount": count}
    return from_builtins(HyperNode, {"metadata": {"name": name}, "spec": spec, "status": status})


_NODES = [_node(f"n{each}", labels={"rack": "r" if each < 3 else "s"}) for each in range(4)]
_RACK = _hyper_node("rack", 1, "Node", {"labelMatch": {"matchLabels": {"rack": "r"}}})
_ONE = _hyper_node("one", 1, "Node", {"exactMatch": {"name": "n3"}}, count=1)
_GONE = _hyper_node("gone", 1, "Node", {"exactMatch": {"name": "n9"}}, count=1)
_BLOCK = _hyper_node("block", 2, "HyperNode", {"regexMatch": {"pattern": "^(rack|one)$"}}, count=2)


def test_nodes_of_members_count_and_what_is_right_is_not_written() -> None:
    found = outdated_counts([_RACK, _ONE, _GONE, _BLOCK], _NODES)
    assert found == {"rack": 3, "gone": 0, "block": 4}


def test_a_node_that_only_reports_that_it_is_well_is_no_reason_to_count() -> None:
    assert not is_another_node(_NODES[0], _node("n0", labels={"rack": "r"}, resourceVersion="2"))
    assert is_another_node(_NODES[0], _node("n0", labels={"rack": "s"}))
    assert is_another_node(None, _NODES[0])
    assert is_another_node(_NODES[0], None)
