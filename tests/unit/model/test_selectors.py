"""Selectors answer as Kubernetes does."""

import pytest

from muster.model.constraint_terms import AffinityTerm, PodAffinity, SpreadConstraint
from muster.model.constraints import ANY_LABEL, UNCONSTRAINED, Constraints, exposed, selector_keys
from muster.model.selectors import LabelSelector, NodeSelector, NodeTerm, Operator, requirement

LABELS = {"zone": "a", "cores": "16", "name": "seven"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", Operator.IN, ("a", "b"), True),
        ("zone", Operator.IN, ("b",), False),
        ("rack", Operator.IN, ("a",), False),
        ("zone", Operator.NOT_IN, ("a",), False),
        ("rack", Operator.NOT_IN, ("a",), True),
        ("zone", Operator.EXISTS, (), True),
        ("rack", Operator.EXISTS, (), False),
        ("rack", Operator.DOES_NOT_EXIST, (), True),
        ("cores", Operator.GREATER, ("15",), True),
        ("cores", Operator.GREATER, ("16",), False),
        ("cores", Operator.LESS, ("17",), True),
        ("name", Operator.GREATER, ("1",), False),
        ("rack", Operator.LESS, ("1",), False),
        ("cores", Operator.GREATER, ("many",), False),
    ],
)
def test_a_requirement_compares_one_label(
    key: str, operator: Operator, values: tuple[str, ...], expected: bool
) -> None:
    assert requirement(key, operator, *values).matches(LABELS) is expected


def test_an_empty_node_term_matches_no_node_and_an_empty_label_selector_every_pod() -> None:
    assert not NodeTerm().matches("n1", LABELS)
    assert not NodeSelector(()).matches("n1", LABELS)
    assert LabelSelector().matches({})


def test_a_node_term_reads_the_name_as_a_field() -> None:
    term = NodeTerm(fields=(requirement("metadata.name", Operator.IN, "n1"),))
    assert term.matches("n1", {})
    assert not term.matches("n2", {})


def test_only_labels_that_a_selector_names_are_visible() -> None:
    app = LabelSelector((requirement("app", Operator.EXISTS),))
    tier = LabelSelector((requirement("tier", Operator.EXISTS),))
    constraints = Constraints(
        pod_affinity=PodAffinity(required=(AffinityTerm("zone", app),)),
        spread=(SpreadConstraint("zone", 1, tier),),
    )
    keys = selector_keys(constraints)
    assert keys == {"app", "tier", ANY_LABEL}
    seen = exposed(UNCONSTRAINED, "team", {"app": "x", "job": "17"}, keys)
    assert seen == Constraints(namespace="team", labels=(("app", "x"),))
    assert exposed(UNCONSTRAINED, "team", {"app": "x"}, frozenset()) is UNCONSTRAINED


def test_values_of_a_requirement_are_normalized() -> None:
    first = requirement("zone", Operator.IN, "b", "a", "b")
    assert first == requirement("zone", Operator.IN, "a", "b")
    assert hash(first) == hash(requirement("zone", Operator.IN, "a", "b"))
