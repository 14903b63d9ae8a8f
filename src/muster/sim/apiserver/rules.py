"""CEL rules of custom resources (`x-kubernetes-validations`).

`rule_faults(value, node, old)` walks the value beside its schema and evaluates each rule where it
stands, with `self` (and, for transition rules, `oldSelf`) bound to the value there. A rule that
speaks of `oldSelf` is skipped when there is nothing to compare with, unless it asks for an optional
one. A rule that fails for a value nobody changed is forgiven ("ratcheting").
"""

import re
from functools import lru_cache
from typing import Any, Final

from muster.api import cel
from muster.sim.apiserver.structural import faults
from muster.sim.apiserver.structural.faults import Fault, placed
from muster.sim.apiserver.structural.node import SchemaNode, ValidationRule
from muster.sim.apiserver.structural.values import ABSENT, same

_VARIABLES: Final = ("self", "oldSelf")
_MESSAGE_LENGTH_MAX: Final = 5120
# Kubernetes shows a rule at the root of a resource only these of the metadata.
_ROOT_META: Final = ("name", "generateName")
_KEYWORDS: Final = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def rule_faults(
    value: Any, node: SchemaNode, old: Any = ABSENT, path: str = "", *, is_root: bool = True
) -> list[Fault]:
    """The faults that the rules at this value and below find."""
    if value is None:
        return []
    found = _own_faults(value, node, old, path, is_root=is_root) if node.rules else []
    for part in node.all_of:
        found += rule_faults(value, part, old, path, is_root=is_root)
    if isinstance(value, list) and node.items is not None:
        before = _items_by_key(old, node)
        for at, item in enumerate(value):
            matched = before.get(_item_key(item, node), ABSENT)
            found += rule_faults(item, node.items, matched, f"{path}[{at}]", is_root=False)
    elif isinstance(value, dict):
        found += _field_faults(value, node, old, path)
    return found


def bad_rules(node: SchemaNode) -> list[tuple[ValidationRule, str]]:
    """The rules of this node alone that do not compile, with the compiler's message."""
    refused = []
    for rule in node.rules:
        try:
            _program(rule)
        except cel.BadExpression as error:
            refused.append((rule, str(error)))
    return refused


def cel_value(value: Any, node: SchemaNode | None, *, is_root: bool = False) -> Any:
    """A JSON value as rules see it: fields by their CEL names, numbers by their declared type."""
    if isinstance(value, dict):
        return _cel_object(value, node, is_root=is_root)
    if isinstance(value, list):
        return [cel_value(item, node.items if node else None) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if node is not None and node.types == ("number",) else value
    if isinstance(value, float) and node is not None and node.types == ("integer",):
        return int(value)
    return value


def escaped(name: str) -> str | None:
    """The name by which CEL selects a field; None when there is no such name."""
    if name in _KEYWORDS:
        return f"__{name}__"
    for plain, word in (("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")):
        name = name.replace(plain, f"__{word}__")
    return name if _IDENTIFIER.fullmatch(name) else None


def _cel_object(value: dict[str, Any], node: SchemaNode | None, *, is_root: bool) -> dict[str, Any]:
    if node is None or not (node.properties or is_root or node.embedded):
        additional = node.additional if node else None
        return {key: cel_value(child, additional) for key, child in value.items()}
    shown: dict[str, Any] = {}
    for key, child in value.items():
        name = escaped(key)
        if name is None:
            continue
        if (is_root or node.embedded) and key == "metadata" and isinstance(child, dict):
            shown[name] = {part: child[part] for part in _ROOT_META if part in child}
        elif key in node.properties or key in ("apiVersion", "kind"):
            shown[name] = cel_value(child, node.properties.get(key))
    return shown


def _own_faults(value: Any, node: SchemaNode, old: Any, path: str, *, is_root: bool) -> list[Fault]:
    variables = {"self": cel_value(value, node, is_root=is_root), "oldSelf": None, "hasOld": False}
    if old is not ABSENT and old is not None:
        variables["oldSelf"] = cel_value(old, node, is_root=is_root)
        variables["hasOld"] = True
    unchanged = old is not ABSENT and same(value, old)
    found = []
    for rule in node.rules:
        speaks_of_old = _uses_old_self(rule.text)
        if speaks_of_old and not variables["hasOld"] and not rule.optional_old:
            continue
        fault = _fault_of(rule, value, variables, path)
        if fault is not None and (speaks_of_old or not unchanged):
            found.append(fault)
    return found


def _fault_of(
    rule: ValidationRule, value: Any, variables: dict[str, Any], path: str
) -> Fault | None:
    try:
        if _program(rule).is_true(variables):
            return None
    except cel.BadExpression as error:
        return faults.invalid(path, f"rule compile error: {error}", _type_name(value))
    except cel.EvaluationFailed as error:
        return faults.invalid(path, _failure(error, rule), _type_name(value))
    where = placed(path, rule.field_path) if rule.field_path else path
    return _refusal(rule, where, value, _message(rule, variables))


def _failure(error: cel.EvaluationFailed, rule: ValidationRule) -> str:
    words = rule.message.strip() or rule.text.strip()
    if str(error).startswith("no such overload"):
        told = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {told} for rule: {words}"
    return f"{error} evaluating rule: {words}"


def _refusal(rule: ValidationRule, where: str, value: Any, message: str) -> Fault:
    match rule.reason:
        case "FieldValueForbidden" | "FieldValueRequired":
            return Fault(rule.reason, where, message)
        case "FieldValueDuplicate":
            return faults.duplicate(where, value)
    if isinstance(value, dict | list):
        return faults.omitted(where, message)
    return faults.invalid(where, message, value)


def _message(rule: ValidationRule, variables: dict[str, Any]) -> str:
    computed = _computed_message(rule, variables)
    if computed:
        return computed
    return rule.message.strip() or f"failed rule: {rule.text.strip()}"


def _computed_message(rule: ValidationRule, variables: dict[str, Any]) -> str:
    """The result of the message expression, if it is usable."""
    if not rule.message_expression:
        return ""
    try:
        text = cel.compiled(rule.message_expression, (*_VARIABLES, "hasOld")).evaluate(variables)
    except (cel.BadExpression, cel.EvaluationFailed):
        return ""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text) > _MESSAGE_LENGTH_MAX else text


@lru_cache(maxsize=2048)
def _program(rule: ValidationRule) -> cel.Program:
    text = rule.text
    if rule.optional_old:
        # CEL's optionals exist only inside the language: bind one there.
        wrapped = "hasOld ? optional.of(oldSelf) : optional.none()"
        text = f"cel.bind(oldSelf, {wrapped}, ({text}))"
    return cel.compiled(text, (*_VARIABLES, "hasOld"))


@lru_cache(maxsize=2048)
def _uses_old_self(text: str) -> bool:
    return cel.names(text, "oldSelf", ("self",))


def _field_faults(value: dict[str, Any], node: SchemaNode, old: Any, path: str) -> list[Fault]:
    found: list[Fault] = []
    before = old if isinstance(old, dict) else {}
    for key, child in value.items():
        part = node.child(key)
        if part is not None:
            place = placed(path, key) if key in node.properties else f"{path}[{key}]"
            matched = before.get(key, ABSENT)
            found += rule_faults(child, part, matched, place, is_root=part.embedded)
    return found


def _items_by_key(old: Any, node: SchemaNode) -> dict[str, Any]:
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_item_key(item, node): item for item in old}


def _item_key(item: Any, node: SchemaNode) -> str:
    if not isinstance(item, dict):
        return repr(item)
    return repr([item.get(name) for name in node.map_keys])


def _type_name(value: Any) -> str:
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
    return "number"
