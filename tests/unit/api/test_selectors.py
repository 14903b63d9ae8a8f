"""Selectors match as in Kubernetes."""

import pytest

from muster.api.codec import from_builtins
from muster.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
)

_LABELS = {"a": "1", "zone": "west", "gpus": "8"}


def test_labels_and_expressions_must_all_hold() -> None:
    selector = LabelSelector(
        match_labels={"a": "1"},
        match_expressions=(LabelSelectorRequirement(key="zone", operator="Exists"),),
    )
    assert selector.matches({"a": "1", "zone": "x"})
    assert not selector.matches({"a": "2", "zone": "x"})
    assert not selector.matches({"a": "1"})
    assert not selector.matches({"zone": "x"})


def test_an_unknown_operator_matches_nothing() -> None:
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="a", operator="Like", values=("1",)),)
    )
    assert not selector.matches(_LABELS)


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        ({"key": "gpus", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "gpus", "operator": "Gt", "values": ["8"]}, False),
        ({"key": "gpus", "operator": "Lt", "values": ["9"]}, True),
        ({"key": "zone", "operator": "Gt", "values": ["4"]}, False),
        ({"key": "gpus", "operator": "Gt", "values": ["4", "5"]}, False),
        ({"key": "gpus", "operator": "Gt", "values": ["9" * 30]}, False),
        ({"key": "zone", "operator": "In", "values": ["west"]}, True),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
    ],
)
def test_a_node_requirement_matches(requirement: dict[str, object], matches: bool) -> None:
    selector = from_builtins(
        NodeSelector, {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    )
    assert selector.matches("n1", _LABELS) is matches


def test_terms_are_alternatives_and_an_empty_term_matches_nothing() -> None:
    by_name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    selector = from_builtins(NodeSelector, {"nodeSelectorTerms": [{}, {"matchFields": [by_name]}]})
    assert selector.matches("n1", {})
    assert not selector.matches("n2", {})
    assert not from_builtins(NodeSelector, {"nodeSelectorTerms": []}).matches("n1", {})
