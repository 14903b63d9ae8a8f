"""NodeIndex: which nodes satisfy a selector, a toleration list, a condition; for all nodes at once.

Label columns are made on first use of a key, so a cycle pays for the keys that some pod asks about
and for no others. Rows are the node rows of the snapshot. `selectors.py` holds the obvious
versions; the two agree.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from muster.api.selectors import compares
from muster.model.constraint_terms import Effect, Taint, Toleration
from muster.model.constraints import Constraints
from muster.model.selectors import NodeSelector, NodeTerm, Operator, Requirement
from muster.numerics.interned import Bools, InternedColumn

_REMEMBERED_BYTES_MAX = 32 << 20
_REFUSING = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


class NodeFacts(Protocol):
    """What selectors, taints and conditions read of a node: a node record has it."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def taints(self) -> tuple[Taint, ...]: ...


class NodeIndex:
    """Columns over the nodes: one per label key, of taint lists, of names, of fields."""

    def __init__(self, nodes: Sequence[NodeFacts]) -> None:
        self._nodes = nodes
        self._labels: dict[str, InternedColumn[str]] = {}
        self._fields: dict[tuple[str, object], Bools] = {}
        self._selected: dict[tuple[tuple[Requirement, ...], NodeSelector | None], Bools] = {}

    def where(self, field: str, value: object = True) -> Bools:
        """Nodes with this value in a field of their records. Do not write to it: others read it."""
        key = (field, value)
        if key not in self._fields:
            found = [getattr(node, field) == value for node in self._nodes]
            self._fields[key] = np.array(found, dtype=np.bool_)
        return self._fields[key]

    @cached_property
    def _names(self) -> InternedColumn[str]:
        return InternedColumn([node.name for node in self._nodes])

    @cached_property
    def _taints(self) -> InternedColumn[tuple[Taint, ...]]:
        return InternedColumn([node.taints or None for node in self._nodes])

    def __len__(self) -> int:
        return len(self._nodes)

    def label(self, key: str) -> InternedColumn[str]:
        """The column of one label key."""
        column = self._labels.get(key)
        if column is None:
            if key not in self._label_keys:
                return self._no_label
            column = InternedColumn([node.labels.get(key) for node in self._nodes])
            self._labels[key] = column
        return column

    def has_label(self, key: str) -> bool:
        """Whether any node has a label of this key."""
        return key in self._label_keys

    @cached_property
    def _label_keys(self) -> frozenset[str]:
        return frozenset(key for node in self._nodes for key in node.labels)

    @cached_property
    def _no_label(self) -> InternedColumn[str]:
        """Serves every key that no node has: pods may ask about thousands of those."""
        return InternedColumn([None] * len(self._nodes))

    def selected(self, constraints: Constraints) -> Bools:
        """Nodes that the node selector and the required node affinity accept.

        Remembered for as long as the nodes stay as they are: read it, do not change it.
        """
        key = (constraints.node_labels, constraints.node_affinity)
        mask = self._selected.get(key)
        if mask is None:
            mask = self._all_of(constraints.node_labels)
            if constraints.node_affinity is not None:
                mask &= self.matching(constraints.node_affinity)
            if (len(self._selected) + 1) * len(self) > _REMEMBERED_BYTES_MAX:
                self._selected.clear()
            self._selected[key] = mask
        return mask

    def matching(self, selector: NodeSelector) -> Bools:
        """Nodes that some term of the selector accepts."""
        mask = np.zeros(len(self), np.bool_)
        for term in selector.terms:
            mask |= self.matching_term(term)
        return mask

    def matching_term(self, term: NodeTerm) -> Bools:
        """Nodes that meet every condition of the term; none if it has no condition."""
        if not term.labels and not term.fields:
            return np.zeros(len(self), np.bool_)
        mask = self._all_of(term.labels)
        for field in term.fields:
            if field.key == "metadata.name":
                mask &= _rows(self._names, field)
            else:
                mask &= field.matches({})
        return mask

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Bools:
        """Nodes without a taint that keeps such a pod away."""
        return self._taints.rows_where(
            lambda taints: untolerated(taints or (), tolerations) is None
        )

    def taint_in_the_way(self, tolerations: tuple[Toleration, ...], among: Bools) -> str:
        """The taint that keeps such a pod away from most of these nodes, as kubectl writes it; with
        "and others" where it is not the only one. Empty: none does.
        """
        nodes: Counter[str] = Counter()
        for code, count in Counter(self._taints.codes[among].tolist()).items():
            taint = untolerated(self._taints.values[code] or (), tolerations)
            if taint is not None:
                nodes[_written(taint)] += count
        if not nodes:
            return ""
        most = min(nodes, key=lambda text: (-nodes[text], text))
        return most if len(nodes) == 1 else f"{most} and others"

    @cached_property
    def has_preferring_taints(self) -> bool:
        """Whether some node has a PreferNoSchedule taint."""
        return any(
            taint.effect is Effect.PREFER_NO_SCHEDULE
            for taints in self._taints.values
            for taint in taints or ()
        )

    def unwelcome(
        self, tolerations: tuple[Toleration, ...]
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """int64[N]: how many PreferNoSchedule taints of each node the pod does not tolerate."""
        counts = [
            sum(
                taint.effect is Effect.PREFER_NO_SCHEDULE and not _tolerated(taint, tolerations)
                for taint in taints or ()
            )
            for taints in self._taints.values
        ]
        return np.asarray(counts, np.int64)[self._taints.codes]

    def _all_of(self, requirements: tuple[Requirement, ...]) -> Bools:
        mask = np.ones(len(self), np.bool_)
        for requirement in requirements:
            mask &= _rows(self.label(requirement.key), requirement)
        return mask


def _written(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect.value}"


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations away, if any."""
    for taint in taints:
        if taint.effect in _REFUSING and not _tolerated(taint, tolerations):
            return taint
    return None


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return bool(toleration.key) and toleration.value == taint.value
        case "Gt" | "Lt":
            return compares(toleration.operator, taint.value, (toleration.value,))
    return False


def _rows(column: InternedColumn[str], requirement: Requirement) -> Bools:
    match requirement.operator:
        case Operator.IN:
            return column.rows_with(requirement.values)
        case Operator.NOT_IN:
            return ~column.rows_with(requirement.values)
        case Operator.EXISTS:
            return column.rows_present()
        case Operator.DOES_NOT_EXIST:
            return ~column.rows_present()
    return column.rows_where(
        lambda value: value is not None and requirement.matches({requirement.key: value})
    )
