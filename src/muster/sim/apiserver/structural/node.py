"""A structural schema, read once into nodes that the checks walk beside the value.

`node_of(openapi)` never fails: what a CRD may not say is found by `definition`, before a schema is
ever used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.sim.apiserver.structural.formats import is_known

_NUMBERS: Final = (("integer",), ("number",))


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One entry of `x-kubernetes-validations`."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old: bool = False


@dataclass(slots=True, eq=False)
class SchemaNode:
    """One schema: what a value at this place may be."""

    types: tuple[str, ...] = ()
    format: str = ""
    nullable: bool = False
    properties: dict[str, "SchemaNode"] = field(default_factory=dict)
    additional: "SchemaNode | None" = None
    allows_additional: bool = False  # additionalProperties: true, or a schema
    forbids_additional: bool = False  # additionalProperties: false
    items: "SchemaNode | None" = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] | None = None
    pattern: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)  # minLength, maximum, uniqueItems, ...
    all_of: tuple["SchemaNode", ...] = ()
    any_of: tuple["SchemaNode", ...] = ()
    one_of: tuple["SchemaNode", ...] = ()
    negated: "SchemaNode | None" = None
    has_default: bool = False
    default: Any = None
    preserves: bool = False
    embedded: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    rules: tuple[ValidationRule, ...] = ()

    @property
    def number_format(self) -> str:
        """The format, where it bounds a number."""
        return self.format if self.types in _NUMBERS else ""

    def child(self, name: str) -> "SchemaNode | None":
        """The schema of a field, named or additional."""
        return self.properties.get(name) or self.additional

    def has_rules(self) -> bool:
        return bool(self.rules) or any(node.has_rules() for node in self._children())

    def _children(self) -> Sequence["SchemaNode"]:
        others = [node for node in (self.items, self.additional) if node is not None]
        return [*self.properties.values(), *others, *self.all_of]


_LIMITS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)


def node_of(openapi: Mapping[str, Any]) -> SchemaNode:
    """The nodes of one `openAPIV3Schema` (or a part of it)."""
    additional = openapi.get("additionalProperties")
    return SchemaNode(
        types=_types(openapi),
        format=_format(openapi),
        nullable=bool(openapi.get("nullable")),
        properties={name: node_of(part) for name, part in _map(openapi, "properties").items()},
        additional=node_of(additional) if isinstance(additional, dict) else None,
        allows_additional=additional is True or isinstance(additional, dict),
        forbids_additional=additional is False,
        items=node_of(openapi["items"]) if isinstance(openapi.get("items"), dict) else None,
        required=tuple(openapi.get("required") or ()),
        enum=tuple(openapi["enum"]) if openapi.get("enum") is not None else None,
        pattern=openapi.get("pattern") or "",
        limits={name: openapi[name] for name in _LIMITS if openapi.get(name) is not None},
        all_of=_parts(openapi, "allOf"),
        any_of=_parts(openapi, "anyOf"),
        one_of=_parts(openapi, "oneOf"),
        negated=node_of(openapi["not"]) if isinstance(openapi.get("not"), dict) else None,
        has_default="default" in openapi and openapi["default"] is not None,
        default=openapi.get("default"),
        preserves=bool(openapi.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(openapi.get("x-kubernetes-embedded-resource")),
        list_type=openapi.get("x-kubernetes-list-type") or "",
        map_keys=tuple(openapi.get("x-kubernetes-list-map-keys") or ()),
        rules=tuple(_rule(entry) for entry in openapi.get("x-kubernetes-validations") or ()),
    )


def _types(openapi: Mapping[str, Any]) -> tuple[str, ...]:
    if openapi.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    named = openapi.get("type")
    return (named,) if named else ()


def _format(openapi: Mapping[str, Any]) -> str:
    """The format, if it is one that Kubernetes checks for the type."""
    named = str(openapi.get("format") or "")
    match openapi.get("type"):
        case "integer":
            return named if named in ("int32", "int64") else ""
        case "number":
            return named if named in ("float", "double") else ""
        case None | "" | "string":
            return named if is_known(named) else ""
    return ""


def _map(openapi: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return openapi.get(name) or {}


def _parts(openapi: Mapping[str, Any], name: str) -> tuple[SchemaNode, ...]:
    return tuple(node_of(part) for part in openapi.get(name) or ())


def _rule(entry: Mapping[str, Any]) -> ValidationRule:
    return ValidationRule(
        text=entry.get("rule") or "",
        message=entry.get("message") or "",
        message_expression=entry.get("messageExpression") or "",
        reason=entry.get("reason") or "",
        field_path=entry.get("fieldPath") or "",
        optional_old=bool(entry.get("optionalOldSelf")),
    )
