"""Topology spread: even numbers of matching pods over domains, for all nodes at once.

Kubernetes' PodTopologySpread in columns. Only nodes that have every key of the pod's hard
constraints, and that its policies include, are counted. Pods that are leaving do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.model.affinity import domain_counts
from muster.model.constraint_terms import AffinityTerm, SpreadConstraint
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import PeerIndex, Presence, pod_class, term_matches
from muster.numerics.interned import Bools, InternedColumn
from muster.numerics.segments import Ints


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a constraint of some pods is read from, for as long as nodes and shapes stay."""

    constraint: SpreadConstraint
    column: InternedColumn[str]
    eligible: Bools
    domains: Ints
    meant: Bools
    means_itself: bool


class Spreads:
    """Spread constraints over one cluster. `presence` counts pods that stay."""

    def __init__(self, nodes: NodeIndex, shapes: Sequence[Constraints], presence: Presence) -> None:
        self._nodes, self._presence = nodes, presence
        self._peers = PeerIndex([pod_class(shape) for shape in shapes], {})
        self._known: dict[int, tuple[Constraints, tuple[_Reading, ...]]] = {}
        """By identity, for hashing a pod's constraints costs as much as reading them; they are
        kept here so that the identities stay theirs."""

    def allowed(self, constraints: Constraints) -> Bools:
        """bool[N]: nodes on which one more such pod keeps every hard constraint."""
        mask = np.ones(len(self._nodes), np.bool_)
        for reading in self._readings(constraints):
            if reading.constraint.is_hard:
                mask &= self._keeps(reading)
        return mask

    def crowding(self, constraints: Constraints) -> Ints:
        """int64[N]: how many matching pods the node's domains hold, over all soft constraints."""
        total = np.zeros(len(self._nodes), np.int64)
        for reading in self._readings(constraints):
            if not reading.constraint.is_hard:
                counts = self._presence.counts(reading.meant)
                total += domain_counts(self._nodes, reading.constraint.topology_key, counts)
        return total

    def _keeps(self, reading: _Reading) -> Bools:
        constraint, column, domains = reading.constraint, reading.column, reading.domains
        counts = np.where(reading.eligible, self._presence.counts(reading.meant), 0)
        totals = np.zeros(len(column.values), np.int64)
        np.add.at(totals, column.codes, counts)
        enough = len(domains) >= constraint.min_domains
        fewest = int(totals[domains].min()) if len(domains) and enough else 0
        skew = totals[column.codes] + reading.means_itself - fewest
        keeps: Bools = skew <= constraint.max_skew
        return keeps & column.rows_present()

    def _readings(self, constraints: Constraints) -> tuple[_Reading, ...]:
        known = self._known.get(id(constraints))
        if known is None:
            keyed = np.ones(len(self._nodes), np.bool_)
            for key in {each.topology_key for each in constraints.spread if each.is_hard}:
                keyed &= self._nodes.label(key).rows_present()
            found = tuple(self._reading(constraints, one, keyed) for one in constraints.spread)
            known = self._known[id(constraints)] = (constraints, found)
        return known[1]

    def _reading(
        self, constraints: Constraints, constraint: SpreadConstraint, keyed: Bools
    ) -> _Reading:
        """`keyed`: nodes that have every key of the pod's hard constraints."""
        eligible = keyed.copy()
        if constraint.honors_affinity:
            eligible &= self._nodes.selected(constraints)
        if constraint.honors_taints:
            eligible &= self._nodes.tolerated(constraints.tolerations)
        term = _as_term(constraints, constraint)
        column = self._nodes.label(constraint.topology_key)
        return _Reading(
            constraint,
            column,
            eligible,
            np.unique(column.codes[eligible]),
            self._peers.meant_by_all((term,)),
            term_matches(term, pod_class(constraints), {}),
        )


def _as_term(constraints: Constraints, constraint: SpreadConstraint) -> AffinityTerm:
    """The pods that a spread constraint counts: those of its own namespace."""
    return AffinityTerm(
        constraint.topology_key, constraint.selector, namespaces=(constraints.namespace,)
    )
