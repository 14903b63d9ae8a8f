"""Selectors match as in Kubernetes."""

import pytest

from muster.api.codec import from_builtins
from muster.api.selectors import (
    BadSelector,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    label_selector,
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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "abc"),
        ("app=x", "a"),
        ("app==x", "a"),
        ("app != x", "bc"),
        ("app in (x, y)", "ab"),
        ("app notin (x,y)", "c"),
        ("app", "ab"),
        ("!app", "c"),
        ("app in (x,y),tier!=gold", "b"),
        ("app=", ""),
    ],
)
def test_selectors_are_written_as_kubectls_users_write_them(text: str, names: str) -> None:
    labels = {"a": {"app": "x", "tier": "gold"}, "b": {"app": "y"}, "c": {"tier": "gold"}}
    selector = label_selector(text)
    assert "".join(name for name in labels if selector.matches(labels[name])) == names


@pytest.mark.parametrize("text", ["app=x,", "=x", "app in x", "a b", "app>3", "app in (x", "(a)"])
def test_what_is_no_selector_is_refused_with_how_one_is_written(text: str) -> None:
    with pytest.raises(BadSelector, match="write KEY=VALUE"):
        label_selector(text)
