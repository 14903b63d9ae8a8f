"""CEL rules of custom resources: where they apply, what they see, their messages."""

from typing import Any

import pytest

from muster.sim.apiserver.rules import cel_value, escaped
from muster.sim.apiserver.schema import structural
from muster.sim.apiserver.structural.node import node_of


def told(spec: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    schema = structural({"type": "object", "properties": {"spec": spec}})
    before = None if old is None else {"spec": old}
    return [f"{cause.field}: {cause.message}" for cause in schema.validate({"spec": new}, before)]


def ruled(*rules: dict[str, Any], **schema: Any) -> dict[str, Any]:
    return {"type": "object", "x-kubernetes-validations": list(rules), **schema}


NUMBERS = {"properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}}
ORDERED = {"rule": "self.min <= self.max", "message": "min must not exceed max"}


def test_a_cel_rule_refuses_with_its_message() -> None:
    assert told(ruled(ORDERED, **NUMBERS), {"min": 3, "max": 2}) == [
        "spec: Invalid value: min must not exceed max"
    ]
    assert told(ruled(ORDERED, **NUMBERS), {"min": 1, "max": 2}) == []


def test_a_cel_rule_without_message_is_its_own_message() -> None:
    found = told(ruled({"rule": "self.min > 5"}, **NUMBERS), {"min": 3})
    assert found == ["spec: Invalid value: failed rule: self.min > 5"]


def test_a_message_expression_is_computed_and_falls_back_when_it_fails() -> None:
    rule = {"rule": "self.min > 5", "message": "too small"}
    computed = rule | {"messageExpression": "'got ' + string(self.min)"}
    broken = rule | {"messageExpression": "string(self.absent)"}
    assert told(ruled(computed, **NUMBERS), {"min": 3}) == ["spec: Invalid value: got 3"]
    assert told(ruled(broken, **NUMBERS), {"min": 3}) == ["spec: Invalid value: too small"]


def test_reason_and_field_path_of_a_rule_are_those_of_the_cause() -> None:
    rule = {"rule": "has(self.min)", "reason": "FieldValueRequired", "fieldPath": ".min"}
    found = told(ruled(rule | {"message": "say how few"}, **NUMBERS), {"max": 1})
    assert found == ["spec.min: Required value: say how few"]


def test_a_rule_that_reads_a_missing_field_refuses() -> None:
    found = told(ruled(ORDERED, **NUMBERS), {"max": 1})
    assert found == [
        'spec: Invalid value: "object": no such key: min evaluating rule: min must not exceed max'
    ]


TRANSITION = ruled({"rule": "self.min >= oldSelf.min", "message": "may only grow"}, **NUMBERS)


def test_a_transition_rule_needs_an_old_value() -> None:
    assert told(TRANSITION, {"min": 1}) == []
    assert told(TRANSITION, {"min": 2}, {"min": 1}) == []
    assert told(TRANSITION, {"min": 1}, {"min": 2}) == ["spec: Invalid value: may only grow"]


def test_an_optional_old_value_lets_the_rule_run_on_create() -> None:
    rule = {
        "rule": "oldSelf.hasValue() || self.min == 0",
        "message": "starts at zero",
        "optionalOldSelf": True,
    }
    assert told(ruled(rule, **NUMBERS), {"min": 1}) == ["spec: Invalid value: starts at zero"]
    assert told(ruled(rule, **NUMBERS), {"min": 1}, {"min": 0}) == []


def test_a_rule_does_not_refuse_unchanged_values() -> None:
    assert told(ruled(ORDERED, **NUMBERS), {"min": 3, "max": 2}, {"min": 3, "max": 2}) == []


def test_items_of_a_keyed_list_are_compared_by_key_with_their_old_values() -> None:
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "shrunk"}],
    }
    spec = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    old = [{"name": "a", "size": 1}, {"name": "b", "size": 5}]
    new = [{"name": "b", "size": 4}, {"name": "a", "size": 2}]
    assert told(spec, new, old) == ["spec[0]: Invalid value: shrunk"]


def test_rules_do_not_run_on_an_object_with_type_errors() -> None:
    found = told(ruled(ORDERED, **NUMBERS), {"min": "x", "max": 1})
    assert found[-1].startswith(
        "<nil>: Invalid value: null: some validation rules were not checked"
    )


@pytest.mark.parametrize(
    ("name", "in_cel"),
    [
        ("plain", "plain"),
        ("with-dash", "with__dash__dash"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("9lives", None),
    ],
)
def test_field_names_are_escaped_as_kubernetes_does(name: str, in_cel: str | None) -> None:
    assert escaped(name) == in_cel


def test_a_rule_sees_numbers_by_their_declared_type_and_of_metadata_only_the_name() -> None:
    node = node_of({"type": "object", "properties": {"n": {"type": "number"}}})
    seen = cel_value(
        {"n": 1, "metadata": {"name": "x", "labels": {}}, "gone": 1}, node, is_root=True
    )
    assert seen == {"n": 1.0, "metadata": {"name": "x"}}
    assert isinstance(seen["n"], float)
