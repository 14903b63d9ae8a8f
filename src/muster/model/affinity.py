"""Affinity between pods: which nodes it allows and how much it likes them, for all nodes at once.

Works on columns: a term means shapes, shapes are counted on nodes, counts are added up in the
domains of a topology key and gathered back to the nodes. The rules are those of Kubernetes'
InterPodAffinity, symmetry included: a pod that is already there may object to the newcomer, and may
like it.
"""

from collections.abc import Callable, Iterable, Sequence
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
        self._refusing = _Carried(shapes, _refusals, namespaces)
        self._liking = _Carried(shapes, _likings, namespaces)

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
        affinity = constraints.pod_affinity or _NO_AFFINITY
        apart = np.ones(len(self._nodes), np.bool_)
        for term in affinity.anti_required:
            apart &= self._in_domains(term.topology_key, self._peers.meant_by_all((term,))) == 0
        welcome = np.ones(len(self._nodes), np.bool_)
        for _, term, carriers in self._refusing.meaning(constraints):
            welcome &= self._in_domains(term.topology_key, carriers) == 0
        return AffinityVerdict(self._near_wanted(constraints, affinity.required), apart, welcome)

    def score(self, constraints: Constraints) -> Ints:
        """int64[N]: the sum of the weights of all preferences that a node serves."""
        total = np.zeros(len(self._nodes), np.int64)
        affinity = constraints.pod_affinity or _NO_AFFINITY
        for wish in affinity.preferred:
            meant = self._peers.meant_by_all((wish.term,))
            total += wish.weight * self._in_domains(wish.term.topology_key, meant)
        for weight, term, carriers in self._liking.meaning(constraints):
            total += weight * self._in_domains(term.topology_key, carriers)
        return total

    def _near_wanted(self, constraints: Constraints, terms: tuple[AffinityTerm, ...]) -> Bools:
        """All terms must find, in the node's domains, pods that every term means.

        When there are none anywhere, a pod that its own terms mean is the first of its kind.
        """
        near = np.ones(len(self._nodes), np.bool_)
        keyed = near.copy()
        is_first = True
        for term in terms:
            counts = self._in_domains(term.topology_key, self._peers.meant_by_all(terms))
            near &= counts > 0
            keyed &= self._nodes.label(term.topology_key).rows_present()
            is_first &= not counts.any()
        if is_first and self._means_itself(constraints, terms):
            return keyed
        return near & keyed

    def _means_itself(self, constraints: Constraints, terms: tuple[AffinityTerm, ...]) -> bool:
        own = pod_class(constraints)
        return all(term_matches(term, own, self._namespaces) for term in terms)

    def _in_domains(self, key: str, shapes: Bools) -> Ints:
        """int64[N]: tasks of these shapes in the node's domain of `key`; 0 on nodes without it."""
        return domain_counts(self._nodes, key, self._presence.counts(shapes))


def domain_counts(nodes: NodeIndex, key: str, counts: Ints) -> Ints:
    """int64[N]: `counts` of the nodes [N] added up over each node's domain of the label `key`."""
    column = nodes.label(key)
    totals = np.zeros(len(column.values), np.int64)
    np.add.at(totals, column.codes, counts)
    totals[0] = 0
    gathered: Ints = totals[column.codes]
    return gathered


class _Carried:
    """Weighted terms that pods which are already there carry with them."""

    def __init__(
        self,
        shapes: Sequence[Constraints],
        terms_of: _TermsOf,
        namespaces: NamespaceLabels,
    ) -> None:
        self._carriers: dict[AffinityTerm, dict[int, list[int]]] = {}
        for row, constraints in enumerate(shapes):
            if constraints.pod_affinity is not None:
                for term, weight in _added_up(terms_of(constraints.pod_affinity)).items():
                    by_weight = self._carriers.setdefault(term, {})
                    by_weight.setdefault(weight, []).append(row)
        self._size = len(shapes)
        self._index = TermIndex(self._carriers, namespaces)
        self._known: dict[Constraints, list[tuple[int, AffinityTerm, Bools]]] = {}

    def meaning(self, constraints: Constraints) -> list[tuple[int, AffinityTerm, Bools]]:
        """(weight, term, shapes that carry it) of the terms that mean such a pod."""
        if not self._carriers:
            return []
        found = self._known.get(constraints)
        if found is None:
            found = self._known[constraints] = [
                (weight, term, self._mask(rows))
                for term in self._index.meaning(pod_class(constraints))
                for weight, rows in self._carriers[term].items()
            ]
        return found

    def _mask(self, rows: list[int]) -> Bools:
        mask = np.zeros(self._size, np.bool_)
        mask[rows] = True
        return mask


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
