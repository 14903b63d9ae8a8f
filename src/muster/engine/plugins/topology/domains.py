"""Which domains of a topology can hold a group, the tightest of the lowest level first.

Works on the tree's columns alone. Amounts are int64 in the axis's units; a shared GPU counts with
its part. Axes: N nodes, D domains, R resources.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.model.topology import TopologyTree
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import PODS
from muster.numerics.tree import path

_MISSING_RATIO = 1000.0
"""How full a domain would be that has nothing of what is asked for."""

_SCORE_STEP = 100_000.0
_SCORE_STEPS = 10


@dataclass(frozen=True, slots=True)
class SubGroupDemand:
    """What the tasks of a group ask for.

    `columns` are the resources that count beside pod slots. `largest` is the element-wise largest
    task, where all tasks ask for the same kinds of things, so that tasks can be counted; None where
    only sums can be compared.
    """

    tasks: int
    total: Ints  # [R]
    largest: Ints | None  # [R]
    columns: Ints


@dataclass(frozen=True, slots=True)
class Levels:
    """Depths in the tree: the one that must be kept and the one that should be; 0 is none."""

    required: int
    preferred: int

    @property
    def lowest(self) -> int:
        """The depth of the smallest domains worth trying."""
        return self.preferred or self.required


@dataclass(frozen=True, slots=True)
class DomainResources:
    """What nodes have free, or will have: int64[N, R] each.

    Domains are ordered by `whole` GPUs; whether tasks fit also counts `parts` of shared ones.
    """

    whole: Ints
    parts: Ints


class DomainChoice:
    """The domains of one tree, judged for one group. `nodes` are those that the group may use."""

    def __init__(
        self, tree: TopologyTree, demand: SubGroupDemand, resources: DomainResources, nodes: Bools
    ) -> None:
        self._tree, self._demand, self._resources = tree, demand, resources
        self.nodes: Bools = nodes & tree.members

    def candidates(self, levels: Levels, held: Ints) -> list[int]:
        """Domains that can hold the group: deepest level first, in each the tightest first."""
        common = self.common(levels)
        if not self.fits[common]:
            return []
        # Above the common domain the nodes are the same again: one level of it is enough.
        widest = max(levels.required, min(levels.lowest, int(self._tree.depth[common])))
        homes = self._homes(levels, held)
        ordered = self._ordered(common)
        return [
            domain
            for depth in range(levels.lowest, widest - 1, -1)
            for domain in ordered.get(depth, ())
            if homes[domain] and self.fits[domain]
        ]

    def scores(self, levels: Levels) -> Floats | None:
        """float64[N]: nodes of roomier preferred domains score higher; None without preference."""
        if not levels.preferred:
            return None
        domains = self._ordered(self.common(levels)).get(levels.preferred, [])
        score = np.zeros(len(self.nodes))
        for position, domain in enumerate(domains, start=1):
            step = np.floor(position / len(domains) * _SCORE_STEPS)
            score[self._tree.nodes_in(domain)] = step * _SCORE_STEP
        return score

    def common(self, levels: Levels) -> int:
        """The smallest domain that holds all the nodes, not below the preferred level."""
        return self._tree.common_domain(self.nodes, levels.preferred or len(self._tree.levels))

    @cached_property
    def free(self) -> Ints:
        """int64[D, R]: what each domain has free, or will have."""
        return self._tree.sums(self._resources.whole)

    @cached_property
    def places(self) -> Ints | None:
        """int64[D]: how many of the largest task each domain can take, if tasks can be counted."""
        largest = self._demand.largest
        if largest is None:
            return None
        columns = self._demand.columns[largest[self._demand.columns] > 0]
        if not len(columns):
            each = np.full(len(self.nodes), self._demand.tasks, np.int64)
        else:
            columns = np.append(columns, PODS) if largest[PODS] else columns
            free = np.maximum(self._resources.parts[:, columns], 0)
            each = (free // largest[columns]).min(axis=1)
        return self._tree.sums(each)

    @cached_property
    def ratio(self) -> Floats:
        """float64[D]: how full the domain's scarcest resource would be."""
        asked = self._demand.columns[self._demand.total[self._demand.columns] > 0]
        if not len(asked):
            return np.zeros(len(self._tree.ids))
        total, free = self._demand.total[asked].astype(np.float64), self.free[:, asked]
        ratios = np.where(free > 0, total / np.maximum(free, 1), _MISSING_RATIO)
        most: Floats = ratios.max(axis=1)
        return most

    @cached_property
    def fits(self) -> Bools:
        """bool[D]: domains that can hold the whole group."""
        if self.places is not None:
            counted: Bools = self.places >= self._demand.tasks
            return counted
        summed: Bools = self.ratio <= 1.0
        return summed

    def _homes(self, levels: Levels, held: Ints) -> Bools:
        """bool[D]: where the group may be, given the nodes that tasks of it already hold."""
        tree = self._tree
        if not levels.required or not len(held):
            return np.ones(len(tree.ids), np.bool_)
        homes = np.zeros(len(tree.ids), np.bool_)
        for home in np.unique(tree.of_node[levels.required, held]).tolist():
            if home >= 0:
                homes |= tree.under(home)
        return homes

    def _ordered(self, top: int) -> dict[int, list[int]]:
        """By depth: domains under `top`, siblings by ratio, the tightest first; and its
        ancestors.
        """
        tree = self._tree
        ordered = {int(tree.depth[d]): [d] for d in path(tree.parent, top)}
        position = np.full(len(tree.ids), -1, np.int64)
        for depth in range(int(tree.depth[top]), len(tree.levels)):
            parents = ordered[depth]
            position[parents] = np.arange(len(parents))
            below = np.flatnonzero((tree.depth == depth + 1) & (position[tree.parent] >= 0))
            order = np.lexsort((below, -self.ratio[below], position[tree.parent[below]]))
            ordered[depth + 1] = below[order].tolist()
        return ordered
