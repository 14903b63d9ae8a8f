"""Validation of a value by its schema, with the causes of the real API server.

The order of the checks, what they count and when they stop mirror the server's, because the faults
that an `anyOf` reports are those of the alternative in which most checks passed. On an update, a
value equal to the one stored before is taken as it is ("ratcheting"): a schema that became stricter
does not refuse objects for what nobody touched.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from muster.sim.apiserver.structural import faults
from muster.sim.apiserver.structural.faults import Fault, go_number
from muster.sim.apiserver.structural.formats import is_formatted
from muster.sim.apiserver.structural.node import SchemaNode
from muster.sim.apiserver.structural.patterns import found_in

ABSENT: Final = object()
_INT64: Final = (-(2**63), 2**63 - 1)
_INT32: Final = (-(2**31), 2**31 - 1)
# What the server calls the numbers it has read, where the schema asks for a format.
_GO_FORMATS: Final = {"integer": "int64", "number": "float64"}
_FLOAT32_MAX: Final = 3.4028234663852886e38


@dataclass(slots=True)
class _Result:
    """Faults, and how many checks passed: what `anyOf` compares its alternatives by."""

    faults: list[Fault] = field(default_factory=list)
    passed: int = 0

    def add(self, *found: Fault | None) -> None:
        for fault in found:
            if fault is not None and fault not in self.faults:
                self.faults.append(fault)

    def merge(self, other: "_Result") -> None:
        self.add(*other.faults)
        self.passed += other.passed


def value_faults(value: Any, node: SchemaNode, old: Any = ABSENT) -> list[Fault]:
    """What is wrong with the value (and with the change from `old`)."""
    return _checked(value, node, "", old).faults


def same(one: Any, other: Any) -> bool:
    """Deep equality in which `1`, `1.0` and `true` differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _checked(value: Any, node: SchemaNode, path: str, old: Any) -> _Result:
    result = _Result()
    if old is not ABSENT and same(value, old):
        return result
    kind = _kind(value)
    if node.types or node.format:
        _check_type(result, value, kind, node, path)
    if value is None:
        _check_enum(result, value, node, path)
        return result
    _check_alternatives(result, value, node, path)
    if kind == "string":
        _check_string(result, value, node, path)
    elif kind in ("integer", "number"):
        _check_number(result, value, node, path)
    elif kind == "array":
        _check_list(result, value, node, path, old)
    _check_enum(result, value, node, path)
    if kind == "object":
        _check_object(result, value, node, path, old)
    result.passed += 1
    return result


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            # What does not fit is read as a floating point number.
            return "integer" if _INT64[0] <= value <= _INT64[1] else "number"
        case float():
            return "number"
        case list():
            return "array"
    return "object"


def _check_type(result: _Result, value: Any, kind: str, node: SchemaNode, path: str) -> None:
    # A string with a format is that format's business, whatever its type says.
    if kind in ("string", "array") and node.format and not {"integer", "number"} & {*node.types}:
        result.passed += 2
        return
    if not node.types or _has_type(value, kind, node):
        result.passed += 2
    elif node.format and kind not in ("string", "array"):
        result.add(faults.wrong_type(path, node.format, _GO_FORMATS.get(kind, "")))
        result.passed += 1
    else:
        result.add(faults.wrong_type(path, ",".join(node.types), kind))
        result.passed += 1


def _has_type(value: Any, kind: str, node: SchemaNode) -> bool:
    match kind:
        case "null":
            return node.nullable
        case "integer":
            return "integer" in node.types or "number" in node.types
        case "number":
            return "number" in node.types or ("integer" in node.types and _is_integer(value))
    return kind in node.types


def _is_integer(value: int | float) -> bool:
    """Whether a floating point number is an integer that it can hold exactly."""
    return abs(value) < 2**53 and float(value).is_integer()


def _check_enum(result: _Result, value: Any, node: SchemaNode, path: str) -> None:
    if node.enum is not None and not any(same(value, item) for item in node.enum):
        result.add(faults.unsupported(path, value, node.enum))
    result.passed += 1


def _check_string(result: _Result, value: str, node: SchemaNode, path: str) -> None:
    """Length, then pattern, stopping at the first that fails; then the format."""
    limits = node.limits
    result.passed += 1
    if "maxLength" in limits and len(value) > limits["maxLength"]:
        result.add(faults.too_long(path, limits["maxLength"]))
    elif "minLength" in limits and len(value) < limits["minLength"]:
        least = f"{path} in body should be at least {limits['minLength']} chars long"
        result.add(faults.invalid(path, least, value))
    elif node.pattern and not found_in(node.pattern, value):
        result.add(faults.invalid(path, f"{path} in body should match '{node.pattern}'", value))
    if node.format and not node.number_format:
        result.passed += 1
        if not is_formatted(node.format, value):
            detail = f"{path} in body must be of type {node.format}: {faults.shown(value)}"
            result.add(Fault("FieldValueTypeInvalid", path, detail, value))


def _check_number(result: _Result, value: int | float, node: SchemaNode, path: str) -> None:
    result.passed += 2
    result.add(_range_fault(value, node, path))
    limits = node.limits
    factor = limits.get("multipleOf")
    if factor and (value / factor) % 1 != 0:
        detail = f"{path} in body should be a multiple of {_bound(factor, value)}"
        result.add(faults.invalid(path, detail, value))
    least, most = limits.get("minimum"), limits.get("maximum")
    if least is not None:
        is_open = bool(limits.get("exclusiveMinimum"))
        if value < least or (is_open and value == least):
            words = "greater than" if is_open else "greater than or equal to"
            detail = f"{path} in body should be {words} {_bound(least, value)}"
            result.add(faults.invalid(path, detail, value))
    if most is not None:
        is_open = bool(limits.get("exclusiveMaximum"))
        if value > most or (is_open and value == most):
            words = "less than" if is_open else "less than or equal to"
            detail = f"{path} in body should be {words} {_bound(most, value)}"
            result.add(faults.invalid(path, detail, value))


def _range_fault(value: int | float, node: SchemaNode, path: str) -> Fault | None:
    """Does the number fit its type and format? Kubernetes names no field when it does not."""
    if node.types == ("integer",):
        least, most = _INT32 if node.number_format == "int32" else _INT64
        if float(value).is_integer() and least <= value <= most:
            return None
    elif node.number_format != "float" or abs(value) <= _FLOAT32_MAX:
        return None
    form = f"with format {node.number_format}" if node.number_format else "(default format)"
    return faults.invalid(None, f"Checked value must be of type {node.types[0]} {form} in {path}")


def _bound(limit: int | float, value: int | float) -> str:
    return str(int(limit)) if isinstance(value, int) else go_number(float(limit))


def _check_list(result: _Result, value: list[Any], node: SchemaNode, path: str, old: Any) -> None:
    result.passed += 2
    if node.items is not None:
        before = _keyed(old, node)
        for at, item in enumerate(value):
            matched = before.get(_key(item, node), ABSENT) if before else ABSENT
            result.merge(_checked(item, node.items, f"{path}[{at}]", matched))
    limits = node.limits
    if "minItems" in limits and len(value) < limits["minItems"]:
        detail = f"{path} in body should have at least {limits['minItems']} items"
        result.add(faults.invalid(path, detail, len(value)))
    if "maxItems" in limits and len(value) > limits["maxItems"]:
        result.add(faults.too_many(path, len(value), limits["maxItems"]))
    if limits.get("uniqueItems") and _has_twins(value):
        result.add(faults.invalid(path, f"{path} in body shouldn't contain duplicates"))


def _keyed(old: Any, node: SchemaNode) -> dict[str, Any]:
    """The old items by key. Only lists of type map can tell which item was which."""
    if node.list_type != "map" or not isinstance(old, list):
        return {}
    return {_key(item, node): item for item in old if isinstance(item, dict)}


def _key(item: Any, node: SchemaNode) -> str:
    if not isinstance(item, dict):
        return ""
    return repr([item.get(name) for name in node.map_keys])


def _has_twins(items: list[Any]) -> bool:
    return any(same(item, other) for at, item in enumerate(items) for other in items[:at])


def _check_object(
    result: _Result, value: dict[str, Any], node: SchemaNode, path: str, old: Any
) -> None:
    result.passed += 1
    limits, before = node.limits, old if isinstance(old, dict) else {}
    if "minProperties" in limits and len(value) < limits["minProperties"]:
        detail = f"{path} in body should have at least {limits['minProperties']} properties"
        result.add(faults.invalid(path, detail, len(value)))
    if "maxProperties" in limits and len(value) > limits["maxProperties"]:
        result.add(faults.too_many(path, len(value), limits["maxProperties"]))
    for key, child in value.items():
        part = node.child(key)
        if part is not None:
            place = f"{path}.{key}" if path or key not in node.properties else key
            result.merge(_checked(child, part, place, before.get(key, ABSENT)))
        elif node.forbids_additional:
            detail = f"{path}.{key} in body is a forbidden property"
            result.add(faults.invalid(path, detail, key))
    for name in node.required:
        if name not in value:
            result.add(faults.required(f"{path}.{name}"))


def _check_alternatives(result: _Result, value: Any, node: SchemaNode, path: str) -> None:
    if node.any_of:
        _check_any(result, value, node, path)
    if node.one_of:
        _check_one(result, value, node, path)
    if node.all_of:
        tried = [_checked(value, part, path, ABSENT) for part in node.all_of]
        for each in tried:
            result.merge(each)
        if any(each.faults for each in tried):
            note = ". None validated" if all(each.faults for each in tried) else ""
            text = f'"{path}" must validate all the schemas (allOf){note}'
            result.add(faults.invalid(None, text))
    if node.negated is not None and not _checked(value, node.negated, path, ABSENT).faults:
        result.add(faults.invalid(None, f'"{path}" must not validate the schema (not)'))
    result.passed += 2


def _check_any(result: _Result, value: Any, node: SchemaNode, path: str) -> None:
    best: _Result | None = None
    for part in node.any_of:
        tried = _checked(value, part, path, ABSENT)
        if not tried.faults:
            result.merge(tried)
            return
        if best is None or tried.passed > best.passed:
            best = tried
    result.add(faults.invalid(None, f'"{path}" must validate at least one schema (anyOf)'))
    if best is not None:
        result.merge(best)


def _check_one(result: _Result, value: Any, node: SchemaNode, path: str) -> None:
    tried = [_checked(value, part, path, ABSENT) for part in node.one_of]
    valid = [each for each in tried if not each.faults]
    if len(valid) == 1:
        result.merge(valid[0])
        return
    found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    text = f'"{path}" must validate one and only one schema (oneOf). {found}'
    result.add(faults.invalid(None, text))
    if not valid:
        result.merge(max(tried, key=lambda each: each.passed))
