"""Whether a schema is one at all: every keyword has a value of its own type.

Looked at before anything reads the schema, so that whatever reads it may rely on the types.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.sim.apiserver.structural import faults
from muster.sim.apiserver.structural.faults import Fault


def grammar_faults(openapi: Any, place: str) -> Iterator[Fault]:
    """Keywords with values that they cannot have, here and below."""
    if not isinstance(openapi, dict):
        yield faults.invalid(place, "must be an object", openapi)
        return
    for word, value in openapi.items():
        wanted = _KEYWORDS.get(word)
        if wanted is not None and value is not None and not wanted[1](value):
            yield faults.invalid(f"{place}.{word}", f"must be {wanted[0]}", value)
        elif value is not None:
            yield from _below(word, value, f"{place}.{word}")


def _below(word: str, value: Any, place: str) -> Iterator[Fault]:
    if word == "properties":
        for name, part in value.items():
            yield from grammar_faults(part, f"{place}[{name}]")
    elif word in ("allOf", "anyOf", "oneOf"):
        for at, part in enumerate(value):
            yield from grammar_faults(part, f"{place}[{at}]")
    elif word in ("items", "not") or (
        word == "additionalProperties" and value not in (True, False)
    ):
        yield from grammar_faults(value, place)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _rules(value: Any) -> bool:
    words = ("rule", "message", "messageExpression", "reason", "fieldPath")
    return _objects(value) and all(
        isinstance(item.get(word), str | None) for item in value for word in words
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Check = tuple[str, Callable[[Any], bool]]

_TEXT: Final[Check] = ("a string", lambda value: isinstance(value, str))
_FLAG: Final[Check] = ("true or false", lambda value: isinstance(value, bool))
_OBJECT: Final[Check] = ("an object", lambda value: isinstance(value, dict))
_EITHER: Final[Check] = ("an object or a boolean", lambda value: isinstance(value, dict | bool))
_NUMBER: Final[Check] = ("a number", _number)
_COUNT: Final[Check] = ("an integer", _count)
_LIST: Final[Check] = ("a list", lambda value: isinstance(value, list))
_TEXTS: Final[Check] = ("a list of strings", _texts)
_OBJECTS: Final[Check] = ("a list of objects", _objects)
_RULES: Final[Check] = ("a list of rules", _rules)
_KEYWORDS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("type", "format", "pattern", "description", "title", "$ref"), _TEXT),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _TEXT),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), _FLAG),
    **dict.fromkeys(("x-kubernetes-preserve-unknown-fields",), _FLAG),
    **dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), _FLAG),
    **dict.fromkeys(("properties", "items", "not"), _OBJECT),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _TEXTS),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _OBJECTS),
    "additionalProperties": _EITHER,
    "enum": _LIST,
    "x-kubernetes-validations": _RULES,
}
