"""Structural schemas: what they refuse with which message, what they prune and default."""

from typing import Any

import pytest

from muster.sim.apiserver.schema import Structural, definition_causes, structural


def of_spec(spec: dict[str, Any]) -> Structural:
    return structural({"type": "object", "properties": {"spec": spec}})


def told(schema: Structural, spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [f"{cause.field}: {cause.message}" for cause in schema.validate({"spec": spec}, before)]


STRING = {"type": "string"}
REFUSALS: list[tuple[dict[str, Any], Any, list[str]]] = [
    (STRING, 3, ['spec: Invalid value: "integer": spec in body must be of type string: "integer"']),
    (STRING, None, ['spec: Invalid value: "null": spec in body must be of type string: "null"']),
    ({"type": "integer"}, 1.0, []),
    ({"type": "number"}, 3, []),
    (
        {"type": "integer", "format": "int32"},
        2**31,
        [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32'
            " in spec"
        ],
    ),
    (
        {"type": "integer", "minimum": 0, "maximum": 5, "exclusiveMaximum": True},
        5,
        ["spec: Invalid value: 5: spec in body should be less than 5"],
    ),
    (
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        0.0,
        ["spec: Invalid value: 0: spec in body should be greater than 0"],
    ),
    (
        {"type": "integer", "multipleOf": 4},
        6,
        ["spec: Invalid value: 6: spec in body should be a multiple of 4"],
    ),
    (
        {"type": "string", "enum": ["a", "b"]},
        "c",
        ['spec: Unsupported value: "c": supported values: "a", "b"'],
    ),
    ({"type": "string", "maxLength": 2}, "abc", ["spec: Too long: may not be more than 2 bytes"]),
    (
        {"type": "string", "minLength": 1},
        "",
        ['spec: Invalid value: "": spec in body should be at least 1 chars long'],
    ),
    (
        {"type": "string", "pattern": "^a$"},
        "a\n",
        ["spec: Invalid value: \"a\\n\": spec in body should match '^a$'"],
    ),
    (
        {"type": "array", "items": STRING, "maxItems": 1},
        ["a", 2],
        [
            'spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer"',
            "spec: Too many: 2: must have at most 1 item",
        ],
    ),
    (
        {"type": "array", "items": STRING, "minItems": 1},
        [],
        ["spec: Invalid value: 0: spec in body should have at least 1 items"],
    ),
    (
        {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        {},
        ["spec.a: Required value"],
    ),
    (
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        ["a", "b", "a", "a"],
        ['spec[2]: Duplicate value: "a"'],
    ),
    (
        {
            "type": "array",
            "items": {"type": "object", "properties": {"name": STRING, "x": STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        [{"name": "a", "x": "1"}, {"name": "a", "x": "2"}],
        ['spec[1]: Duplicate value: {"name":"a"}'],
    ),
    (
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
        },
        True,
        [
            'spec: Invalid value: "boolean": spec in body must be of type integer,string: '
            '"boolean"',
            '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
            'spec: Invalid value: "boolean": spec in body must be of type integer: "boolean"',
        ],
    ),
    (
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"a": 1, "b": 2},
        [
            '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
    (
        {"type": "string", "not": {"enum": ["forbidden"]}},
        "forbidden",
        ['<nil>: Invalid value: "": "spec" must not validate the schema (not)'],
    ),
    ({"type": "string", "format": "date-time"}, "2024-01-02T03:04:05Z", []),
    (
        {"type": "string", "format": "date-time"},
        "yesterday",
        [
            'spec: Invalid value: "yesterday": spec in body must be of type date-time: "yesterday"',
        ],
    ),
    ({"type": "string", "format": "whatever"}, "anything", []),
    (
        {"type": "object", "x-kubernetes-embedded-resource": True},
        {"kind": "Pod"},
        ["spec.apiVersion: Required value"],
    ),
]


@pytest.mark.parametrize(("spec", "value", "wanted"), REFUSALS)
def test_a_value_is_refused_with_the_messages_of_kube_apiserver(
    spec: dict[str, Any], value: Any, wanted: list[str]
) -> None:
    assert told(of_spec(spec), value) == wanted


def test_unchanged_values_are_not_refused_on_update() -> None:
    schema = of_spec(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "maxLength": 1}, "b": STRING},
        }
    )
    assert told(schema, {"a": "long", "b": "new"}, {"a": "long", "b": "old"}) == []
    assert told(schema, {"a": "longer", "b": "old"}, {"a": "long", "b": "old"}) != []


def test_true_is_no_integer_even_when_it_was_stored_as_one() -> None:
    assert told(of_spec({"type": "integer"}), True, 1) != []


def test_unknown_fields_are_pruned_and_named_unless_preserved() -> None:
    schema = of_spec(
        {
            "type": "object",
            "properties": {
                "known": STRING,
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "additionalProperties": STRING},
                "list": {"type": "array", "items": {"type": "object", "properties": {}}},
            },
        }
    )
    obj = {
        "metadata": {"name": "x", "strange": 1},
        "spec": {
            "known": "a",
            "unknown": 1,
            "free": {"any": {"thing": 1}},
            "map": {"k": "v"},
            "list": [{"x": 1}],
        },
        "other": 1,
    }
    assert schema.prune(obj) == ["other", "spec.list[0].x", "spec.unknown"]
    assert obj == {
        "metadata": {"name": "x", "strange": 1},
        "spec": {"known": "a", "free": {"any": {"thing": 1}}, "map": {"k": "v"}, "list": [{}]},
    }


def test_defaults_fill_absent_fields_and_forbidden_nulls_but_not_allowed_ones() -> None:
    schema = of_spec(
        {
            "type": "object",
            "default": {},
            "properties": {
                "absent": {"type": "string", "default": "a"},
                "null": {"type": "string", "default": "b"},
                "nullable": {"type": "string", "default": "c", "nullable": True},
                "gone": STRING,
            },
        }
    )
    obj: dict[str, Any] = {"spec": {"null": None, "nullable": None, "gone": None}}
    schema.default(obj)
    assert obj == {"spec": {"absent": "a", "null": "b", "nullable": None}}
    empty: dict[str, Any] = {}
    schema.default(empty)
    assert empty == {"spec": {"absent": "a", "null": "b", "nullable": "c"}}


def test_a_default_is_copied_for_each_object() -> None:
    schema = of_spec({"type": "object", "default": {"list": []}})
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    schema.default(one)
    schema.default(other)
    one["spec"]["list"].append(1)
    assert other == {"spec": {"list": []}}


def test_causes_of_a_status_write_have_paths_below_status() -> None:
    schema = structural(
        {
            "type": "object",
            "properties": {"status": {"type": "object", "properties": {"phase": STRING}}},
        }
    )
    causes = schema.validate_status({"status": {"phase": 1}}, {})
    assert [cause.field for cause in causes] == ["status.phase"]
    assert "phase in body must be of type string" in causes[0].message


def definition(schema: dict[str, Any], **changed: Any) -> dict[str, Any]:
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
        },
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        ],
    }
    return {"metadata": {"name": "things.example.com"}, "spec": spec | changed}


GOOD = {"type": "object", "properties": {"spec": {"type": "object"}}}


def test_a_valid_crd_has_no_cause() -> None:
    assert definition_causes(definition(GOOD)) == []


_BELOW = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("crd", "field"),
    [
        (definition(GOOD) | {"metadata": {"name": "other"}}, "metadata.name"),
        (definition(GOOD, scope="Everywhere"), "spec.scope"),
        (definition(GOOD, versions=[]), "spec.versions"),
        (definition({}), f"{_BELOW}.type"),
        (
            definition({"type": "object", "properties": {"spec": {}}}),
            f"{_BELOW}.properties[spec].type",
        ),
        (
            definition({"type": "object", "properties": {"a": {"type": "array"}}}),
            f"{_BELOW}.properties[a].items",
        ),
        (
            definition({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            f"{_BELOW}.properties[a].pattern",
        ),
        (
            definition({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            f"{_BELOW}.properties[a].default",
        ),
        (
            definition({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
            f"{_BELOW}.x-kubernetes-validations[0].rule",
        ),
    ],
)
def test_an_invalid_crd_is_refused_with_the_path(crd: dict[str, Any], field: str) -> None:
    assert field in [cause.field for cause in definition_causes(crd)]
