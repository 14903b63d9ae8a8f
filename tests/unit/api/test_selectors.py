"""Selectors match as in Kubernetes."""

import pytest

from muster.api.affinity import NodeSelection, Taint, Toleration
from muster.api.codec import from_builtins
from muster.api.selectors import (
    BadSelector,
    FieldRequirement,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    parse_fields,
    parse_labels,
    printed,
)

_LABELS = {"a": "1", "zone": "west", "gpus": "8"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a=2", False),
        ("a!=2", True),
        ("missing!=2", True),
        ("a", True),
        ("!a", False),
        ("!missing", True),
        ("zone in (east, west)", True),
        ("zone notin (east,west)", False),
        ("missing notin (x)", True),
        ("a=1,zone in (west),!missing", True),
        ("a=1,zone=east", False),
        ("a=", False),
    ],
)
def test_a_label_selector_in_text_matches(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(_LABELS) is matches


@pytest.mark.parametrize("text", ["a b", "in (x)", "a in x", "a=b=c", "a in (x", "(a)", "!"])
def test_a_text_that_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(BadSelector):
        parse_labels(text)


def test_a_selector_prints_as_it_is_asked() -> None:
    selector = LabelSelector(
        match_labels={"b": "2", "a": "1"},
        match_expressions=parse_labels("c in (x,y),d notin (z),e,!f").match_expressions,
    )
    assert printed(selector) == "a=1,b=2,c in (x,y),d notin (z),e,!f"


def test_labels_and_expressions_must_all_hold() -> None:
    selector = LabelSelector(
        match_labels={"a": "1"}, match_expressions=parse_labels("zone").match_expressions
    )
    assert selector.matches({"a": "1", "zone": "x"})
    assert not selector.matches({"a": "2", "zone": "x"})
    assert not selector.matches({"a": "1"})
    assert not selector.matches({"zone": "x"})


def test_an_unknown_operator_matches_nothing_and_cannot_be_printed() -> None:
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="a", operator="Like", values=("1",)),)
    )
    assert not selector.matches(_LABELS)
    with pytest.raises(BadSelector, match="Like"):
        printed(selector)


def test_field_selectors_are_read() -> None:
    assert parse_fields("spec.nodeName=,status.phase!=Running") == (
        FieldRequirement(path="spec.nodeName", value=""),
        FieldRequirement(path="status.phase", value="Running", negated=True),
    )
    with pytest.raises(BadSelector, match="write path=value"):
        parse_fields("spec.nodeName")


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


def test_node_selector_and_affinity_must_both_hold() -> None:
    required = from_builtins(
        NodeSelector,
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]},
    )
    selection = NodeSelection(node_selector={"zone": "west"}, required=required)
    assert selection.matches("n", _LABELS)
    assert not selection.matches("n", {"zone": "west"})
    assert not selection.matches("n", {"a": "1"})


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="v"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Like", value="v"), False),
    ],
)
def test_a_toleration_covers_a_taint(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(Taint(key="k", value="v", effect="NoSchedule")) is tolerates
