"""Label and field selectors of list, watch and deletecollection: parse and match.

Parsing is cached and gives a predicate over objects; a syntax error is a 400, as on a real server.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.refusal import bad_request

Predicate = Callable[[Object], bool]

_EXISTS = re.compile(r"^(!?)\s*([^\s=!,()<>]+)$")
_EQUAL = re.compile(r"^([^\s=!,()<>]+)\s*(==|!=|=|<|>)\s*([^\s=!,()<>]*)$")
_SET = re.compile(r"^([^\s=!,()<>]+)\s+(in|notin)\s*\(([^()]*)\)$")
_NAME = re.compile(r"^(?=.{1,63}$)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_PREFIX = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")


def label_predicate(text: str) -> Predicate | None:
    """None when the selector matches everything."""
    matches = _labels(text)
    if matches is None:
        return None
    return lambda obj: matches(obj["metadata"].get("labels") or {})


def field_predicate(kind: ServedKind, text: str) -> Predicate | None:
    """None when the selector matches everything."""
    terms = [part for part in text.split(",") if part]
    if not terms:
        return None
    tests = [_field_test(kind, term) for term in terms]
    return lambda obj: all(test(obj) for test in tests)


def matches_label_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector of an object (`matchLabels`, `matchExpressions`). None matches nothing."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_expression_holds(e, labels) for e in selector.get("matchExpressions") or ())


def value_at(obj: Object, path: str) -> str:
    """The value of a dotted path as field selectors compare it; missing is the empty string."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.match(name)) and (not slash or bool(_PREFIX.match(prefix)))


def is_label_value(value: str) -> bool:
    return value == "" or bool(_NAME.match(value))


def _expression_holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


@lru_cache(maxsize=1024)
def _labels(text: str) -> Callable[[Mapping[str, str]], bool] | None:
    tests = [_label_test(term, text) for term in _terms(text)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _terms(text: str) -> list[str]:
    terms, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            terms.append(current.strip())
            current = ""
        else:
            current += letter
    if current.strip() or terms:
        terms.append(current.strip())
    return terms


def _label_test(term: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.match(term):
        key, operator = found[1], found[2]
        values = frozenset(part.strip() for part in found[3].split(","))
        _check(key, values, text)
        if operator == "in":
            return lambda labels: labels.get(key) in values and key in labels
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(term):
        return _comparison(found[1], found[2], found[3], text)
    if found := _EXISTS.match(term):
        key = found[2]
        _check(key, (), text)
        if found[1]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f"unable to parse requirement: found '{term}', in selector \"{text}\"")


def _comparison(
    key: str, operator: str, value: str, text: str
) -> Callable[[Mapping[str, str]], bool]:
    _check(key, (value,), text)
    if operator in ("<", ">"):
        if not value.lstrip("-").isdigit():
            raise bad_request(f"for '{operator}' operators, the value must be an integer: {value}")
        bound, larger = int(value), operator == ">"
        return lambda labels: _compares(labels.get(key, ""), bound, larger)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _compares(value: str, bound: int, larger: bool) -> bool:
    if not value.lstrip("-").isdigit():
        return False
    return int(value) > bound if larger else int(value) < bound


def _check(key: str, values: Any, text: str) -> None:
    if not is_label_key(key):
        raise bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must consist '
            "of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )
    for value in values:
        if not is_label_value(value):
            raise bad_request(
                f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": a valid '
                "label must be an empty string or consist of alphanumeric characters, '-', '_' or "
                "'.', and must start and end with an alphanumeric character"
            )


def selected_name(text: str) -> str:
    """The one name that a field selector leaves, or nothing."""
    for term in text.split(","):
        path, operator, value = term.replace("==", "=").partition("=")
        if operator and path.strip() == "metadata.name":
            return value
    return ""


def _field_test(kind: ServedKind, term: str) -> Predicate:
    for operator in ("!=", "==", "="):
        path, found, value = term.partition(operator)
        if found:
            break
    else:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    wanted = path.strip()
    if wanted not in ("metadata.name", "metadata.namespace", *kind.selectable):
        raise bad_request(f"field label not supported: {wanted}")
    if kind.plural == "events":
        wanted = wanted.replace("regarding.", "involvedObject.", 1)
    if operator == "!=":
        return lambda obj: value_at(obj, wanted) != value
    return lambda obj: value_at(obj, wanted) == value
