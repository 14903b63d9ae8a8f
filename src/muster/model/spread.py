"""Topology spread: even numbers of matching pods over domains, for all nodes at once.

Kubernetes' PodTopologySpread in columns. Only nodes that have every key of the pod's hard
constraints, and that its policies include, are counted. Pods that are leaving do not count.
"""

from collections.abc import Sequence

import numpy as np

from muster.model.affinity import domain_counts
from muster.model.constraint_terms import AffinityTerm, SpreadConstraint
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import PeerIndex, Presence, pod_class, term_matches
from muster.numerics.interned import Bools
from muster.numerics.segments import Ints


class Spreads:
    """Spread constraints over one cluster. `presence` counts pods that stay."""

    def __init__(self, nodes: NodeIndex, shapes: Sequence[Constraints], presence: Presence) -> None:
        self._nodes, self._presence = nodes, presence
        self._peers = PeerIndex([pod_class(shape) for shape in shapes], {})
        self._eligible: dict[tuple[Constraints, SpreadConstraint], Bools] = {}

    def allowed(self, constraints: Constraints) -> Bools:
        """bool[N]: nodes on which one more such pod keeps every hard constraint."""
        mask = np.ones(len(self._nodes), np.bool_)
        for constraint in constraints.spread:
            if constraint.is_hard:
                mask &= self._keeps(constraints, constraint)
        return mask

    def crowding(self, constraints: Constraints) -> Ints:
        """int64[N]: how many matching pods the node's domains hold, over all soft constraints."""
        total = np.zeros(len(self._nodes), np.int64)
        for constraint in constraints.spread:
            if not constraint.is_hard:
                counts = self._counts(constraints, constraint)
                total += domain_counts(self._nodes, constraint.topology_key, counts)
        return total

    def _keeps(self, constraints: Constraints, constraint: SpreadConstraint) -> Bools:
        column = self._nodes.label(constraint.topology_key)
        eligible = self._eligible_nodes(constraints, constraint)
        counts = np.where(eligible, self._counts(constraints, constraint), 0)
        totals = np.zeros(len(column.values), np.int64)
        np.add.at(totals, column.codes, counts)
        domains = np.unique(column.codes[eligible])
        enough = len(domains) >= constraint.min_domains
        fewest = int(totals[domains].min()) if len(domains) and enough else 0
        own = term_matches(_as_term(constraints, constraint), pod_class(constraints), {})
        keeps: Bools = totals[column.codes] + own - fewest <= constraint.max_skew
        return keeps & column.rows_present()

    def _counts(self, constraints: Constraints, constraint: SpreadConstraint) -> Ints:
        meant = self._peers.meant_by_all((_as_term(constraints, constraint),))
        return self._presence.counts(meant)

    def _eligible_nodes(self, constraints: Constraints, constraint: SpreadConstraint) -> Bools:
        key = (constraints, constraint)
        eligible = self._eligible.get(key)
        if eligible is None:
            eligible = np.ones(len(self._nodes), np.bool_)
            for other in constraints.spread:
                if other.is_hard:
                    eligible &= self._nodes.label(other.topology_key).rows_present()
            if constraint.honors_affinity:
                eligible &= self._nodes.selected(constraints)
            if constraint.honors_taints:
                eligible &= self._nodes.tolerated(constraints.tolerations)
            self._eligible[key] = eligible
        return eligible


def _as_term(constraints: Constraints, constraint: SpreadConstraint) -> AffinityTerm:
    """The pods that a spread constraint counts: those of its own namespace."""
    return AffinityTerm(
        constraint.topology_key, constraint.selector, namespaces=(constraints.namespace,)
    )
