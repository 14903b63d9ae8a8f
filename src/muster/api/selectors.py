"""Label, node and field selectors: as structs, parsed from text, matched against objects.

A selector that Kubernetes would refuse (an unknown operator, `In` without values) matches nothing;
`parse_*` raises BadSelector for text that is not a selector.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Final

from muster.api.meta import Struct
from muster.api.schema import ATOMIC, Schema


class BadSelector(ValueError):
    """The text is not a selector."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"not a selector: {text!r}: {why}")


class LabelSelectorRequirement(Struct):
    key: str
    operator: Annotated[str, Schema("In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[tuple[str, ...], ATOMIC] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        holds = _OPERATORS.get(self.operator)
        return holds is not None and holds(labels.get(self.key), self.values)


class LabelSelector(Struct):
    """All of `match_labels` and all of `match_expressions`; empty selects everything."""

    SCHEMA: ClassVar = {"x-kubernetes-map-type": "atomic"}

    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], ATOMIC] = ()
    match_labels: Mapping[str, str] = {}

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


class NodeSelectorRequirement(Struct):
    key: str
    operator: Annotated[str, Schema("In, NotIn, Exists, DoesNotExist, Gt or Lt.")]
    values: Annotated[tuple[str, ...], ATOMIC] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        holds = _OPERATORS.get(self.operator) or _COMPARISONS.get(self.operator)
        return holds is not None and holds(labels.get(self.key), self.values)


class NodeSelectorTerm(Struct):
    """All requirements together; a term without any selects nothing."""

    SCHEMA: ClassVar = {"x-kubernetes-map-type": "atomic"}

    match_expressions: Annotated[tuple[NodeSelectorRequirement, ...], ATOMIC] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], ATOMIC] = ()

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        return all(need.matches(labels) for need in self.match_expressions) and all(
            need.matches(fields) for need in self.match_fields
        )


class NodeSelector(Struct):
    """Any one of the terms."""

    SCHEMA: ClassVar = {"x-kubernetes-map-type": "atomic"}

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], ATOMIC]

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        fields = {"metadata.name": node_name}
        return any(term.matches(labels, fields) for term in self.node_selector_terms)


class FieldRequirement(Struct):
    """One `path=value` or `path!=value` of a field selector."""

    path: str
    value: str
    negated: bool = False


def parse_labels(text: str) -> LabelSelector:
    """`a=b,c!=d,e in (x,y),f notin (z),g,!h` as a selector; empty text selects everything."""
    parts = _split(text)
    return LabelSelector(match_expressions=tuple(_requirement(text, part) for part in parts))


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """`spec.nodeName=n1,status.phase!=Running` as requirements, all of which must hold."""
    return tuple(_field(text, part) for part in text.split(",") if part.strip())


def printed(selector: LabelSelector) -> str:
    """The selector as text, for a query string."""
    equal = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    return ",".join(equal + [_printed(need) for need in selector.match_expressions])


def _in(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and value in values


def _not_in(value: str | None, values: tuple[str, ...]) -> bool:
    return value is None or value not in values


def _exists(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None


def _does_not_exist(value: str | None, values: tuple[str, ...]) -> bool:
    return value is None


def _number(text: str) -> int | None:
    """A 64-bit integer as Go reads it, or None."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _compared(value: str | None, values: tuple[str, ...]) -> tuple[int, int] | None:
    if value is None or len(values) != 1:
        return None
    left, right = _number(value), _number(values[0])
    return None if left is None or right is None else (left, right)


def _greater(value: str | None, values: tuple[str, ...]) -> bool:
    pair = _compared(value, values)
    return pair is not None and pair[0] > pair[1]


def _less(value: str | None, values: tuple[str, ...]) -> bool:
    pair = _compared(value, values)
    return pair is not None and pair[0] < pair[1]


_Holds = Callable[[str | None, tuple[str, ...]], bool]
_OPERATORS: Final[Mapping[str, _Holds]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _does_not_exist,
}
_COMPARISONS: Final[Mapping[str, _Holds]] = {"Gt": _greater, "Lt": _less}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_SET: Final = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!(),]*)")
_PRESENT: Final = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s=!(),]+)")


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside parentheses."""
    parts = re.split(r",(?![^(]*\))", text)
    return [part.strip() for part in parts if part.strip()] if text.strip() else []


def _requirement(text: str, part: str) -> LabelSelectorRequirement:
    if match := _SET.fullmatch(part):
        values = tuple(value.strip() for value in match["values"].split(","))
        operator = "In" if match["operator"] == "in" else "NotIn"
        return LabelSelectorRequirement(key=match["key"], operator=operator, values=values)
    if match := _EQUAL.fullmatch(part):
        operator = "NotIn" if match["operator"] == "!=" else "In"
        return LabelSelectorRequirement(
            key=match["key"], operator=operator, values=(match["value"],)
        )
    if match := _PRESENT.fullmatch(part):
        operator = "DoesNotExist" if match["absent"] else "Exists"
        return LabelSelectorRequirement(key=match["key"], operator=operator)
    raise BadSelector(text, f"cannot read {part!r}")


def _field(text: str, part: str) -> FieldRequirement:
    match = _EQUAL.fullmatch(part.strip())
    if match is None:
        raise BadSelector(text, f"cannot read {part!r} (write path=value or path!=value)")
    return FieldRequirement(
        path=match["key"], value=match["value"], negated=match["operator"] == "!="
    )


def _printed(need: LabelSelectorRequirement) -> str:
    match need.operator:
        case "In" | "NotIn":
            return f"{need.key} {need.operator.lower()} ({','.join(need.values)})"
        case "Exists":
            return need.key
        case "DoesNotExist":
            return f"!{need.key}"
        case operator:
            raise BadSelector(str(need), f"unknown operator {operator!r}")
