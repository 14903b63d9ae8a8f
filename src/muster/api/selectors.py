"""Label and node selectors as structs, matched against objects.

A selector that Kubernetes would refuse (an unknown operator, `In` without values) matches nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Final

from muster.api.meta import Struct
from muster.api.schema import ATOMIC, Schema


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


class NodeSelectorRequirement(LabelSelectorRequirement):
    operator: Annotated[str, Schema("In, NotIn, Exists, DoesNotExist, Gt or Lt.")]

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator in _COMPARISONS:
            return compares(self.operator, labels.get(self.key), self.values)
        return super().matches(labels)


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


class BadSelector(ValueError):
    """No selector is written like this; the text says which part, and how one is."""


def label_selector(text: str) -> LabelSelector:
    """As kubectl's `-l`: app=x,tier!=web,env in (a, b),!old. Empty selects everything."""
    terms = [term.strip() for term in _BETWEEN_TERMS.split(text)] if text.strip() else []
    return LabelSelector(match_expressions=tuple(map(_requirement, terms)))


def _requirement(term: str) -> LabelSelectorRequirement:
    if found := _SET.fullmatch(term):
        values = tuple(value.strip() for value in found[3].split(","))
        return LabelSelectorRequirement(key=found[1], operator=_WRITTEN[found[2]], values=values)
    if found := _EQUAL.fullmatch(term):
        return LabelSelectorRequirement(
            key=found[1], operator=_WRITTEN[found[2]], values=(found[3],)
        )
    if found := _PRESENT.fullmatch(term):
        operator = "DoesNotExist" if found[1] else "Exists"
        return LabelSelectorRequirement(key=found[2], operator=operator)
    raise BadSelector(f"{term[:80]!r}: write KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY or !KEY")


def integer(text: str | None) -> int | None:
    """The whole number of 64 bits that a text spells, as Go reads it, or None."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def compares(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    """`Gt` or `Lt`: whether the value is above, or below, the one bound."""
    number, bound = integer(value), integer(values[0]) if len(values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


_Holds = Callable[[str | None, tuple[str, ...]], bool]
_OPERATORS: Final[Mapping[str, _Holds]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}
_COMPARISONS: Final = ("Gt", "Lt")
# Labels have at most 63 characters; what they are compared with is as long as anybody writes it.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,62}", re.ASCII)

_WORD = r"([^\s=!<>,()]+)"
_BETWEEN_TERMS: Final = re.compile(r",(?![^()]*\))")
"""A comma that is not inside of brackets."""
_SET: Final = re.compile(rf"{_WORD}\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(rf"{_WORD}\s*(==|!=|=)\s*([^\s=!,()]*)")
_PRESENT: Final = re.compile(rf"(!?)\s*{_WORD}")
_WRITTEN: Final = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn"}
