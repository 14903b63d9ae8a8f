"""Peers: which pods a selector means, and how many of them are on each node.

Selectors of affinity terms and spread constraints are answered per class of pods (namespace and
visible labels), found through an index of label pairs, so that a thousand jobs which each keep away
from themselves do not cost a million comparisons. Counts are columns over nodes that follow every
posting; a posting and its inverse cancel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.model.constraint_terms import AffinityTerm
from muster.model.constraints import Constraints, Labels
from muster.model.selectors import LabelSelector, Operator
from muster.numerics.interned import Bools
from muster.numerics.segments import Ints

NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Labels of namespaces by name; one that is missing has none."""


@dataclass(frozen=True, slots=True)
class PodClass:
    """What selectors see of a pod."""

    namespace: str
    labels: Labels


def pod_class(constraints: Constraints) -> PodClass:
    """The class of a pod with these constraints."""
    return PodClass(constraints.namespace, constraints.labels)


def term_matches(term: AffinityTerm, peer: PodClass, namespaces: NamespaceLabels) -> bool:
    """Whether the term means pods of this class."""
    if term.selector is None or not term.selector.matches(dict(peer.labels)):
        return False
    return peer.namespace in term.namespaces or (
        term.namespace_selector is not None
        and term.namespace_selector.matches(namespaces.get(peer.namespace, {}))
    )


class PeerIndex:
    """Which shapes a selector means. Axes: S shapes, C classes."""

    def __init__(self, shapes: Sequence[PodClass], namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._code: dict[PodClass, int] = {}
        codes = [self._code.setdefault(peer, len(self._code)) for peer in shapes]
        self._codes = np.array(codes, np.int64)
        self._classes = list(self._code)
        self._known: dict[tuple[AffinityTerm, ...], Bools] = {}
        self._having: dict[tuple[str, str], list[int]] = {}
        for code, peer in enumerate(self._classes):
            for pair in peer.labels:
                self._having.setdefault(pair, []).append(code)

    def meant_by(self, term: AffinityTerm) -> Bools:
        """bool[S]: shapes whose pods the term means."""
        if term.selector is None:
            return np.zeros(len(self._codes), np.bool_)
        return self._shapes(
            code
            for code in self._candidates(term.selector)
            if term_matches(term, self._classes[code], self._namespaces)
        )

    def meant_by_all(self, terms: tuple[AffinityTerm, ...]) -> Bools:
        """bool[S]: shapes whose pods every term means. Remembered: read it, do not change it."""
        mask = self._known.get(terms)
        if mask is None:
            mask = np.ones(len(self._codes), np.bool_)
            for term in terms:
                mask &= self.meant_by(term)
            self._known[terms] = mask
        return mask

    def _candidates(self, selector: LabelSelector) -> Iterable[int]:
        """Classes that can match: those with a pair that some requirement insists on."""
        insisting = [r for r in selector.requirements if r.operator is Operator.IN]
        if not insisting:
            return range(len(self._classes))
        narrow = min(insisting, key=lambda r: sum(self._breadth(r.key, v) for v in r.values))
        return sorted({c for v in narrow.values for c in self._having.get((narrow.key, v), ())})

    def _breadth(self, key: str, value: str) -> int:
        return len(self._having.get((key, value), ()))

    def _shapes(self, codes: Iterable[int]) -> Bools:
        matched = np.zeros(len(self._classes), np.bool_)
        matched[list(codes)] = True
        shapes: Bools = matched[self._codes]
        return shapes


class TermIndex:
    """Which of many terms mean a class: the question in the other direction."""

    def __init__(self, terms: Iterable[AffinityTerm], namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._by_pair: dict[tuple[str, str], list[AffinityTerm]] = {}
        self._others: list[AffinityTerm] = []
        for term in dict.fromkeys(terms):
            self._file(term)

    def meaning(self, peer: PodClass) -> list[AffinityTerm]:
        """The terms that mean pods of this class."""
        found = [t for pair in peer.labels for t in self._by_pair.get(pair, ())] + self._others
        return [t for t in dict.fromkeys(found) if term_matches(t, peer, self._namespaces)]

    def _file(self, term: AffinityTerm) -> None:
        if term.selector is None:
            return
        for requirement in term.selector.requirements:
            if requirement.operator is Operator.IN:
                for value in requirement.values:
                    self._by_pair.setdefault((requirement.key, value), []).append(term)
                return
        self._others.append(term)


class Presence:
    """How many tasks of chosen shapes are on each node, kept up to date.

    Built from columns over tasks: `shape`, and `node` with -1 for a task that is on none. Counters
    are made on first use and follow `post` from then on.
    """

    def __init__(self, shape: Ints, node: Ints, nodes: int, shapes: int) -> None:
        on_node = np.flatnonzero(node >= 0)
        self._shape, self._node = shape[on_node], node[on_node]
        self._nodes, self._shapes = nodes, shapes
        self._posted: dict[tuple[int, int], int] = {}
        self._counters: dict[bytes, Ints] = {}
        self._of_shape: dict[int, list[Ints]] = {}

    def counts(self, shapes: Bools) -> Ints:
        """int64[N]: tasks of these shapes on each node. The array is live: read it, do not keep
        it.
        """
        key = np.packbits(shapes).tobytes()
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._count(shapes)
            for row in np.flatnonzero(shapes):
                self._of_shape.setdefault(int(row), []).append(counter)
        return counter

    def post(self, shape: int, node: int, change: int) -> None:
        """So many more (or, if negative, fewer) tasks of a shape are on a node."""
        self._posted[shape, node] = self._posted.get((shape, node), 0) + change
        for counter in self._of_shape.get(shape, ()):
            counter[node] += change

    def _count(self, shapes: Bools) -> Ints:
        rows = shapes[self._shape]
        counter = np.bincount(self._node[rows], minlength=self._nodes).astype(np.int64)
        for (shape, node), change in self._posted.items():
            if shapes[shape]:
                counter[node] += change
        return counter
