"""Selectors over labels as frozen values: what is asked of labels, and the obvious answer.

`matches` here is the reference: the tables of `numerics` compile the same values to columns and
must agree with it. A requirement that cannot be evaluated (Gt on a word) matches nothing, as in
Kubernetes.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from muster.api.selectors import compares


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. Values are sorted, so that equal conditions are equal values."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and self._lists(value)
            case Operator.NOT_IN:
                return value is None or not self._lists(value)
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        return compares(self.operator.value, value, self.values)

    def _lists(self, value: str) -> bool:
        """Whether it is one of the values: an object has room for a hundred thousand of them."""
        at = bisect_left(self.values, value)
        return at < len(self.values) and self.values[at] == value


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements together; without any it matches everything.

    The absent selector, which matches nothing, is `None` wherever a selector may be absent.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a node selector: conditions on labels and on fields (`metadata.name`).

    A term without any condition matches no node, as in Kubernetes.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node of this name with these labels meets every condition."""
        if not self.labels and not self.fields:
            return False
        fields = {"metadata.name": node_name}
        return all(r.matches(labels) for r in self.labels) and all(
            r.matches(fields) for r in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Alternatives, of which one must match; without any, no node matches."""

    terms: tuple[NodeTerm, ...]

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether some alternative accepts the node."""
        return any(term.matches(node_name, labels) for term in self.terms)


def requirement(key: str, operator: Operator, *values: str) -> Requirement:
    """A requirement in its normal form: values sorted, each once."""
    return Requirement(key, operator, tuple(sorted(set(values))))


def equalities(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The requirements that `matchLabels` or a node selector map stands for."""
    return tuple(Requirement(key, Operator.IN, (labels[key],)) for key in sorted(labels))
