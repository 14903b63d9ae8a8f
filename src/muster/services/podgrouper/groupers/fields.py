"""Fields of objects whose shape is somebody else's: absent is None, a wrong type is said."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.services.podgrouper.groupers.group import GroupingError, Object

_GO_TYPES = {str: "string", int: "int64", float: "float64", bool: "bool", type(None): "<nil>"}
_INT32 = range(-(2**31), 2**31)
_INT32_DIGITS = 10


def labels(thing: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = (thing.get("metadata") or {}).get("labels") or {}
    return found


def annotations(thing: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = (thing.get("metadata") or {}).get("annotations") or {}
    return found


def name_of(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def namespace_of(thing: Object) -> str:
    return str(thing["metadata"].get("namespace") or "")


def key_of(thing: Object) -> str:
    return f"{namespace_of(thing)}/{name_of(thing)}"


def uid_of(thing: Object) -> str:
    return str(thing["metadata"].get("uid") or "")


def group_version(thing: Object) -> tuple[str, str]:
    """The API group (empty for core) and version of an object."""
    group, _, version = str(thing.get("apiVersion") or "").rpartition("/")
    return group, version


def mapping(thing: Object, *path: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = _typed(thing, path, Mapping, "map[string]interface {}")
    return found


def items(thing: Object, *path: str) -> Sequence[Any]:
    """A list, empty when absent."""
    found = _typed(thing, path, list, "[]interface {}")
    return found if found is not None else []


def objects(thing: Object, *path: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects, empty when absent."""
    found = items(thing, *path)
    for number, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise _wrong_type((*path, str(number)), one, "map[string]interface {}")
    return found


def text(thing: Object, *path: str) -> str | None:
    found: str | None = _typed(thing, path, str, "string")
    return found


def integer(thing: Object, *path: str) -> int | None:
    value: int | None = _typed(thing, path, int, "int64")
    if isinstance(value, bool):
        raise _wrong_type(path, value, "int64")
    return value


def parsed_int(value: str, what: str = "strconv.ParseInt") -> int:
    """A whole number of 32 bits as an annotation writes it: no spaces, no underscores."""
    digits = value[1:] if value[:1] in ("+", "-") else value
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f'{what}: parsing "{value}": invalid syntax')
    if len(digits) > _INT32_DIGITS or int(value) not in _INT32:
        raise ValueError(f'{what}: parsing "{value}": value out of range')
    return int(value)


def whole_number_fix(key: str, where: str) -> str:
    """What to write where an annotation, or a label, holds what is no number."""
    return f'write a whole number, such as "2", in {key} of {where}'


def _typed(thing: Object, path: Sequence[str], wanted: type, wanted_name: str) -> Any:
    value: Any = thing
    for depth, part in enumerate(path):
        if not isinstance(value, Mapping):
            raise _wrong_type(path[:depth], value, "map[string]interface {}")
        value = value.get(part)
        if value is None:
            return None
    if not isinstance(value, wanted):
        raise _wrong_type(path, value, wanted_name)
    return value


def _wrong_type(path: Sequence[str], value: Any, wanted: str) -> GroupingError:
    seen = _GO_TYPES.get(type(value), "map" if isinstance(value, Mapping) else "list")
    return GroupingError(
        f".{'.'.join(path)} accessor error: {value} is of the type {seen}, expected {wanted}"
    )
