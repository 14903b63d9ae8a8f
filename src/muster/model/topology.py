"""TopologyTree: the domains of a topology over the nodes, as columns.

Domain 0 is the whole cluster, at depth 0; level k of the topology is depth k + 1. A node belongs to
the tree only if it has the labels of every level. Domains are numbered by depth, then by id (label
values joined by dots), so that the lower number wins a tie.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.numerics.interned import Bools, InternedColumn
from muster.numerics.segments import Ints, Segments

ROOT_DOMAIN = 0
OUTSIDE = -1


@dataclass(frozen=True)
class TopologyTree:
    """Axes: N nodes, D domains, K levels."""

    levels: tuple[str, ...]
    ids: tuple[str, ...]
    parent: Ints  # [D], -1 for the root
    depth: Ints  # [D]
    of_node: Ints  # [K + 1, N]: the domain of each node at each depth, OUTSIDE where it has none
    unlabelled: tuple[str, ...] = ()
    """Levels whose label no node carries: without one of them there is no domain at all."""

    @property
    def members(self) -> Bools:
        """bool[N]: nodes that belong to the topology."""
        inside: Bools = self.of_node[0] != OUTSIDE
        return inside

    @cached_property
    def _leaves(self) -> Segments:
        return Segments(self.of_node[-1], len(self.ids))

    def depth_of(self, level: str) -> int | None:
        """The depth of a level by its node label; None if the topology has no such level."""
        return self.levels.index(level) + 1 if level in self.levels else None

    def sums(self, values: Ints) -> Ints:
        """int64[D, ...]: `values` [N, ...] added up in every domain."""
        total = self._leaves.sums(values)
        for depth in range(len(self.levels), 0, -1):
            domains = np.flatnonzero(self.depth == depth)
            np.add.at(total, self.parent[domains], total[domains])
        return total

    def nodes_in(self, domain: int) -> Bools:
        """bool[N]: the nodes of a domain."""
        inside: Bools = self.of_node[self.depth[domain]] == domain
        return inside

    def common_domain(self, nodes: Bools, deepest: int) -> int:
        """The smallest domain that holds all these nodes, not below depth `deepest`."""
        common = ROOT_DOMAIN
        for depth in range(1, deepest + 1):
            domains = self.of_node[depth][nodes]
            if not len(domains) or (domains != domains[0]).any():
                break
            common = int(domains[0])
        return common

    def under(self, domain: int) -> Bools:
        """bool[D]: the domain and everything below it."""
        below = np.zeros(len(self.ids), np.bool_)
        below[domain] = True
        for depth in range(int(self.depth[domain]) + 1, len(self.levels) + 1):
            domains = self.depth == depth
            below[domains] = below[self.parent[domains]]
        return below


def topology_tree(levels: Sequence[str], columns: Sequence[InternedColumn[str]]) -> TopologyTree:
    """The tree over nodes whose label columns, one per level, are given outermost first."""
    codes = np.array([column.codes for column in columns], np.int64)
    members = np.flatnonzero((codes != 0).all(axis=0))
    of_node = np.full((len(levels) + 1, codes.shape[1]), OUTSIDE, np.int64)
    of_node[0, members] = ROOT_DOMAIN
    ids, parents, depths = ["root"], [-1], [0]
    for depth, column in enumerate(columns, start=1):
        above = of_node[depth - 1, members]
        pairs, which = np.unique(
            np.stack([above, codes[depth - 1, members]]), axis=1, return_inverse=True
        )
        named = [
            (_domain_id(ids[int(parent)], depth, str(column.values[int(code)])), int(parent))
            for parent, code in pairs.T
        ]
        order = sorted(range(len(named)), key=lambda i: named[i])
        number = np.empty(len(named), np.int64)
        number[order] = np.arange(len(ids), len(ids) + len(named))
        of_node[depth, members] = number[which.ravel()]
        for position in order:
            ids.append(named[position][0])
            parents.append(named[position][1])
            depths.append(depth)
    bare = tuple(level for level, row in zip(levels, codes, strict=True) if not row.any())
    parent, depth_of = np.array(parents, np.int64), np.array(depths, np.int64)
    return TopologyTree(tuple(levels), tuple(ids), parent, depth_of, of_node, bare)


def _domain_id(above: str, depth: int, value: str) -> str:
    return value if depth == 1 else f"{above}.{value}"
