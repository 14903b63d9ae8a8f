"""Peers: which pods a selector means, and how many of them are on each node.

Selectors of affinity terms and spread constraints are answered per class of pods (namespace and
visible labels), found through an index of label pairs, so that a thousand jobs which each keep away
from themselves do not cost a million comparisons. Counts are columns over nodes that follow every
posting; a posting and its inverse cancel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.model.constraint_terms import AffinityTerm
from muster.model.constraints import Constraints, Labels
from muster.model.selectors import LabelSelector, Operator, Requirement
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
    return _is_in(_scope_of(term), peer.namespace, namespaces)


class PeerIndex:
    """Which shapes a selector means. Axes: S shapes, C classes.

    A requirement is answered for all classes at once: selectors that insist on nothing mean most of
    them, and anybody may write a hundred of those in each of a thousand pods.
    """

    def __init__(self, shapes: Sequence[PodClass], namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._code: dict[PodClass, int] = {}
        codes = [self._code.setdefault(peer, len(self._code)) for peer in shapes]
        self._codes = np.array(codes, np.int64)
        self._classes = list(self._code)
        self._known: dict[tuple[AffinityTerm, ...], Bools] = {}
        self._having = _Lists()
        """Classes by label pair, by label key, and by namespace."""
        for code, peer in enumerate(self._classes):
            for pair in peer.labels:
                self._having.add(pair, code)
                self._having.add(pair[0], code)
            self._having.add((peer.namespace,), code)
        self._spaces = list(dict.fromkeys(peer.namespace for peer in self._classes))
        self._in_scope: dict[_Scope, Bools] = {}

    def meant_by(self, term: AffinityTerm) -> Bools:
        """bool[S]: shapes whose pods the term means."""
        if term.selector is None:
            return np.zeros(len(self._codes), np.bool_)
        matched = self._scope(_scope_of(term)).copy()
        for requirement in term.selector.requirements:
            self._narrow(matched, requirement)
        shapes: Bools = matched[self._codes]
        return shapes

    def meant_by_all(self, terms: tuple[AffinityTerm, ...]) -> Bools:
        """bool[S]: shapes whose pods every term means. Remembered: read it, do not change it."""
        mask = self._known.get(terms)
        if mask is None:
            mask = np.ones(len(self._codes), np.bool_)
            for term in terms:
                mask &= self.meant_by(term)
            self._known[terms] = mask
        return mask

    def _scope(self, scope: "_Scope") -> Bools:
        """bool[C]: classes of the namespaces that a term is about. Read it, do not change it."""
        mask = self._in_scope.get(scope)
        if mask is None:
            if len(self._in_scope) >= _SCOPES_KEPT_MAX:
                self._in_scope.clear()
            mask = self._in_scope[scope] = np.zeros(len(self._classes), np.bool_)
            for space in self._spaces:
                if _is_in(scope, space, self._namespaces):
                    mask[self._having[(space,)]] = True
        return mask

    def _narrow(self, matched: Bools, requirement: Requirement) -> None:
        """Leave those that meet the requirement."""
        key, values = requirement.key, requirement.values
        match requirement.operator:
            case Operator.NOT_IN:
                for value in values:
                    matched[self._having[key, value]] = False
                return
            case Operator.DOES_NOT_EXIST:
                matched[self._having[key]] = False
                return
        meets = np.zeros(len(self._classes), np.bool_)
        match requirement.operator:
            case Operator.EXISTS:
                meets[self._having[key]] = True
            case Operator.IN:
                for value in values:
                    meets[self._having[key, value]] = True
            case _:
                for code in np.flatnonzero(matched).tolist():
                    meets[code] = requirement.matches(dict(self._classes[code].labels))
        matched &= meets


class TermIndex:
    """Which of many terms mean a class: the question in the other direction.

    Terms are rows. Those that insist on labels are found by these, and count their requirements;
    of the others all are meant but those that a label of the class bars.
    """

    def __init__(self, terms: Iterable[AffinityTerm], namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self.terms = [term for term in dict.fromkeys(terms) if term.selector is not None]
        self._insisting, self._barring = _Lists(), _Lists()
        self._scopes: dict[_Scope, int] = {}
        self._in_scope: dict[str, Bools] = {}
        """By namespace: scopes that take it in."""
        filed = [self._file(row, term) for row, term in enumerate(self.terms)]
        self._insists = np.array([insists for insists, _ in filed], np.int64)
        """How many requirements of a term must be found in the labels."""
        self._scope = np.array([scope for _, scope in filed], np.int64)
        self._open = np.flatnonzero(self._insists == 0)

    def meaning(self, peer: PodClass) -> Ints:
        """Rows of the terms that mean pods of this class, each once."""
        marks = [mark for key, value in peer.labels for mark in (key, (key, value))]
        met = np.concatenate([self._insisting[mark] for mark in marks] or [_NONE])
        rows, times = np.unique(met, return_counts=True)
        rows = np.concatenate([self._open, rows[times == self._insists[rows]]])
        barred = np.concatenate([self._barring[mark] for mark in marks] or [_NONE])
        if len(barred):
            is_free = np.ones(len(self.terms), np.bool_)
            is_free[barred] = False
            rows = rows[is_free[rows]]
        found: Ints = rows[self._scopes_of(peer.namespace)[self._scope[rows]]]
        return self._judged(found, peer)

    def _file(self, row: int, term: AffinityTerm) -> tuple[int, int]:
        """How many requirements insist on a label, and the scope."""
        assert term.selector is not None
        insists = 0
        for requirement in term.selector.requirements:
            key, values = requirement.key, requirement.values
            match requirement.operator:
                case Operator.IN:
                    insists += 1
                    for value in values:
                        self._insisting.add((key, value), row)
                case Operator.EXISTS:
                    insists += 1
                    self._insisting.add(key, row)
                case Operator.NOT_IN:
                    for value in values:
                        self._barring.add((key, value), row)
                case Operator.DOES_NOT_EXIST:
                    self._barring.add(key, row)
        return insists, self._scopes.setdefault(_scope_of(term), len(self._scopes))

    def _scopes_of(self, space: str) -> Bools:
        mask = self._in_scope.get(space)
        if mask is None:
            found = [_is_in(scope, space, self._namespaces) for scope in self._scopes]
            mask = self._in_scope[space] = np.array(found, np.bool_)
        return mask

    def _judged(self, rows: Ints, peer: PodClass) -> Ints:
        """Without those of which a comparison of numbers says no."""
        if not self._compares:
            return rows
        labels = dict(peer.labels)
        return np.array([row for row in rows.tolist() if self._agrees(row, labels)], np.int64)

    def _agrees(self, row: int, labels: Mapping[str, str]) -> bool:
        selector = self.terms[row].selector
        return row not in self._compares or (selector is not None and selector.matches(labels))

    @cached_property
    def _compares(self) -> frozenset[int]:
        """Terms with requirements that Kubernetes has for nodes only."""
        return frozenset(
            row
            for row, term in enumerate(self.terms)
            if term.selector is not None
            and any(r.operator in _COMPARISONS for r in term.selector.requirements)
        )


_SCOPES_KEPT_MAX = 256
"""Every term may have one of its own."""
_COMPARISONS = (Operator.GREATER, Operator.LESS)
_NONE: Ints = np.zeros(0, np.int64)
_Scope = tuple[tuple[str, ...], LabelSelector | None]
"""Namespaces by name, and by their labels."""


def _scope_of(term: AffinityTerm) -> _Scope:
    return term.namespaces, term.namespace_selector


def _is_in(scope: _Scope, space: str, namespaces: NamespaceLabels) -> bool:
    named, selector = scope
    return space in named or (selector is not None and selector.matches(namespaces.get(space, {})))


class _Lists:
    """Numbers filed under marks: added one by one, read as arrays once all are there."""

    def __init__(self) -> None:
        self._filed: dict[object, list[int]] = {}
        self._read: dict[object, Ints] = {}

    def add(self, mark: object, number: int) -> None:
        self._filed.setdefault(mark, []).append(number)

    def __getitem__(self, mark: object) -> Ints:
        found = self._read.get(mark)
        if found is None:
            listed = self._filed.get(mark)
            if listed is None:
                return _NONE
            found = self._read[mark] = np.array(listed, np.int64)
        return found


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
