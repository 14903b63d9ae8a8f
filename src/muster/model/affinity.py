"""Affinity between pods: which nodes it allows and how much it likes them, for all nodes at once.

Works on columns: a term means shapes, shapes are counted on nodes, counts are added up in the
domains of a topology key and gathered back to the nodes. The rules are those of Kubernetes'
InterPodAffinity, symmetry included: a pod that is already there may object to the newcomer, and may
like it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.model.constraint_terms import AffinityTerm, PodAffinity
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import (
    NamespaceLabels,
    PeerIndex,
    Presence,
    TermIndex,
    pod_class,
    term_matches,
)
from muster.numerics.interned import Bools
from muster.numerics.segments import Ints

_HARD_WEIGHT = 1
"""What a required affinity of a pod that is there counts in favour of a newcomer it means."""

_NO_AFFINITY = PodAffinity()
_TermsOf = Callable[[PodAffinity], Iterable[tuple[int, AffinityTerm]]]


@dataclass(frozen=True, slots=True)
class AffinityVerdict:
    """bool[N] each: nodes that pass the pod's affinity, its anti-affinity, and that of others."""

    near_wanted: Bools
    away_from_unwanted: Bools
    welcome: Bools

    @property
    def allowed(self) -> Bools:
        """Nodes that pass all three."""
        return self.near_wanted & self.away_from_unwanted & self.welcome


class Affinities:
    """Affinity over one cluster. `shapes` are the constraints of each shape row."""

    def __init__(
        self,
        nodes: NodeIndex,
        shapes: Sequence[Constraints],
        presence: Presence,
        namespaces: NamespaceLabels,
    ) -> None:
        self._nodes, self._presence, self._namespaces = nodes, presence, namespaces
        self._peers = PeerIndex([pod_class(shape) for shape in shapes], namespaces)
        self._refusing = _Carried(shapes, _refusals, nodes, namespaces)
        self._liking = _Carried(shapes, _likings, nodes, namespaces)
        self._known: dict[int, _Reading] = {}

    def concerns(self, constraints: Constraints) -> bool:
        """Whether affinity may refuse such a pod somewhere."""
        affinity = constraints.pod_affinity or _NO_AFFINITY
        return bool(
            affinity.required or affinity.anti_required or self._refusing.meaning(constraints)
        )

    def is_scored(self, constraints: Constraints) -> bool:
        """Whether affinity may like some nodes better than others for such a pod."""
        affinity = constraints.pod_affinity or _NO_AFFINITY
        return bool(affinity.preferred or self._liking.meaning(constraints))

    def verdict(self, constraints: Constraints) -> AffinityVerdict:
        """Where such a pod may go, as things stand."""
        reading = self._reading(constraints)
        near = self._near_wanted(reading)
        return AffinityVerdict(near, self._without(reading.unwanted), self._without(reading.unkind))

    def score(self, constraints: Constraints) -> Ints:
        """int64[N]: the sum of the weights of all preferences that a node serves."""
        total = np.zeros(len(self._nodes), np.int64)
        affinity = constraints.pod_affinity or _NO_AFFINITY
        for wish in affinity.preferred:
            meant = self._peers.meant_by_all((wish.term,))
            total += wish.weight * self._in_domains(wish.term.topology_key, meant)
        for weight, key, carriers in self._liking.meaning(constraints):
            total += weight * self._in_domains(key, carriers)
        return total

    def _near_wanted(self, reading: "_Reading") -> Bools:
        """All terms must find, in the node's domains, pods that every term means.

        When there are none anywhere, a pod that its own terms mean is the first of its kind.
        """
        near = np.ones(len(self._nodes), np.bool_)
        keyed = near.copy()
        is_first = True
        for key in reading.keys:
            counts = self._in_domains(key, reading.wanted)
            near &= counts > 0
            keyed &= self._nodes.label(key).rows_present()
            is_first &= not counts.any()
        return keyed if is_first and reading.means_itself else near & keyed

    def _without(self, unwanted: Mapping[str, Bools]) -> Bools:
        """Nodes in whose domains, by key, there is none of these shapes."""
        free = np.ones(len(self._nodes), np.bool_)
        for key, shapes in unwanted.items():
            free &= self._in_domains(key, shapes) == 0
        return free

    def _reading(self, constraints: Constraints) -> "_Reading":
        """By identity, for hashing a pod's constraints costs as much as reading them."""
        known = self._known.get(id(constraints))
        if known is None:
            affinity, own = constraints.pod_affinity or _NO_AFFINITY, pod_class(constraints)
            terms = affinity.required
            means = (term_matches(term, own, self._namespaces) for term in terms)
            avoided = (
                (term.topology_key, self._peers.meant_by(term))
                for term in affinity.anti_required
                if self._nodes.has_label(term.topology_key)
            )
            carried = ((key, rows) for _, key, rows in self._refusing.meaning(constraints))
            known = self._known[id(constraints)] = _Reading(
                constraints,
                tuple(dict.fromkeys(term.topology_key for term in terms)),
                self._peers.meant_by_all(terms),
                all(means),
                _united(avoided),
                _united(carried),
            )
        return known

    def _in_domains(self, key: str, shapes: Bools) -> Ints:
        """int64[N]: tasks of these shapes in the node's domain of `key`; 0 on nodes without it."""
        return domain_counts(self._nodes, key, self._presence.counts(shapes))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the verdict about a pod is read from: terms with one key are one question."""

    constraints: Constraints
    """Kept, so that its identity stays its own."""
    keys: tuple[str, ...]
    wanted: Bools
    """Shapes that every required term means, and the keys of those terms."""
    means_itself: bool
    unwanted: Mapping[str, Bools]
    """By key: shapes that the pod keeps away from, and those that keep it away."""
    unkind: Mapping[str, Bools]


def _united(shapes: Iterable[tuple[str, Bools]]) -> dict[str, Bools]:
    """By key: the shapes that are in any of its columns."""
    found: dict[str, Bools] = {}
    for key, column in shapes:
        found[key] = found[key] | column if key in found else column
    return found


def domain_counts(nodes: NodeIndex, key: str, counts: Ints) -> Ints:
    """int64[N]: `counts` of the nodes [N] added up over each node's domain of the label `key`."""
    column = nodes.label(key)
    totals = np.zeros(len(column.values), np.int64)
    np.add.at(totals, column.codes, counts)
    totals[0] = 0
    gathered: Ints = totals[column.codes]
    return gathered


class _Carried:
    """Weighted terms that pods which are already there carry with them.

    Terms whose topology key no node has say nothing about any node, and are left out. Entries are
    columns: whoever carries the same term has one each.
    """

    def __init__(
        self,
        shapes: Sequence[Constraints],
        terms_of: _TermsOf,
        nodes: NodeIndex,
        namespaces: NamespaceLabels,
    ) -> None:
        carriers: dict[AffinityTerm, list[tuple[int, int]]] = {}
        for row, constraints in enumerate(shapes):
            if constraints.pod_affinity is not None:
                for term, weight in _added_up(terms_of(constraints.pod_affinity)).items():
                    if nodes.has_label(term.topology_key):
                        carriers.setdefault(term, []).append((row, weight))
        self._size = len(shapes)
        self._index = TermIndex(carriers, namespaces)
        self._keys = list(dict.fromkeys(term.topology_key for term in self._index.terms))
        code = {key: at for at, key in enumerate(self._keys)}
        entries = [
            (at, code[term.topology_key], row, weight)
            for at, term in enumerate(self._index.terms)
            for row, weight in carriers[term]
        ]
        columns = np.array(entries, np.int64).reshape(-1, 4)
        self._term, self._key, self._row, self._weight = columns.T
        self._known: dict[int, tuple[Constraints, list[tuple[int, str, Bools]]]] = {}
        """By identity, beside what keeps it."""

    def meaning(self, constraints: Constraints) -> list[tuple[int, str, Bools]]:
        """(weight, topology key, shapes that carry terms of that weight in sum) of the terms that
        mean such a pod.
        """
        if not self._keys:
            return []
        known = self._known.get(id(constraints))
        if known is None:
            found = list(self._found(self._index.meaning(pod_class(constraints))))
            known = self._known[id(constraints)] = (constraints, found)
        return known[1]

    def _found(self, terms: Ints) -> Iterator[tuple[int, str, Bools]]:
        if not len(terms):
            return
        is_meant = np.zeros(len(self._index.terms), np.bool_)
        is_meant[terms] = True
        meant = np.flatnonzero(is_meant[self._term])
        for key in np.unique(self._key[meant]).tolist():
            of_key = meant[self._key[meant] == key]
            rows, places = np.unique(self._row[of_key], return_inverse=True)
            sums = np.bincount(places, self._weight[of_key]).astype(np.int64)
            for weight in np.unique(sums[sums != 0]).tolist():
                mask = np.zeros(self._size, np.bool_)
                mask[rows[sums == weight]] = True
                yield weight, self._keys[key], mask


def _added_up(terms: Iterable[tuple[int, AffinityTerm]]) -> dict[AffinityTerm, int]:
    """Each term once: a pod may state the same wish twice."""
    weights: dict[AffinityTerm, int] = {}
    for weight, term in terms:
        weights[term] = weights.get(term, 0) + weight
    return weights


def _refusals(affinity: PodAffinity) -> Iterable[tuple[int, AffinityTerm]]:
    return ((1, term) for term in affinity.anti_required)


def _likings(affinity: PodAffinity) -> Iterable[tuple[int, AffinityTerm]]:
    yield from ((wish.weight, wish.term) for wish in affinity.preferred)
    yield from ((_HARD_WEIGHT, term) for term in affinity.required)
