"""Zones of many nodes as arrays: what is free in them, who holds what, where a pod would go.

Nodes of one kind (same policy, scope and reported resources) are judged together. Axes of a kind: M
its nodes, Z zones, K reported resources.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from muster.engine.plugins.numa.needs import Needs, container_needs, pod_needs
from muster.model.records import NodeRecord, NumaShare, NumaTopology
from muster.model.shapes import Shape
from muster.numerics import numa
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import ResourceAxis

_ALIGNERS: Mapping[str, numa.Aligner] = {
    "single-numa-node": numa.single_zone,
    "restricted": numa.restricted,
    "best-effort": numa.best_effort,
}
REFUSING = ("single-numa-node", "restricted")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where a pod would go on some nodes."""

    is_feasible: Bools  # [M]
    taken: Ints  # [M, Z, K]

    @property
    def span(self) -> Ints:
        """int64[M]: how many zones it would use; 0 where it needs none."""
        zones: Ints = self.taken.any(axis=2).sum(axis=1, dtype=np.int64)
        return zones


class ZoneKind:
    """Nodes with equal policy, scope and resources. `rows` are their node rows, ascending."""

    def __init__(
        self,
        rows: Rows,
        records: Sequence[NodeRecord],
        axis: ResourceAxis,
        uses_reported: bool,
    ) -> None:
        topologies = [record.numa for record in records if record.numa is not None]
        self.rows = rows
        self.policy, self.scope = topologies[0].policy, topologies[0].scope
        self.columns = _reported(topologies[0], axis)
        self.zone_names = [[zone.name for zone in found.zones] for found in topologies]
        self._axis = axis
        shape = (len(rows), max(map(len, self.zone_names)), len(self.columns))
        self.allocatable: Ints = np.zeros(shape, np.int64)
        self.available: Ints = np.zeros(shape, np.int64)
        self.exists: Bools = np.zeros(shape[:2], np.bool_)
        for m, found in enumerate(topologies):
            for z, zone in enumerate(found.zones):
                self.exists[m, z] = True
                self.allocatable[m, z] = self._vector(zone.allocatable)
                free = zone.available if uses_reported else zone.allocatable
                self.available[m, z] = self._vector(free)

    def copied(self) -> "ZoneKind":
        """The same nodes with numbers of their own for what is available."""
        twin = copy(self)
        twin.available = self.available.copy()
        return twin

    def place(self, m: int, shares: Sequence[NumaShare]) -> Ints | None:
        """int64[Z, K] of a recorded place; None if it names a zone that the node does not have."""
        names = self.zone_names[m]
        taken = np.zeros(self.available.shape[1:], np.int64)
        for share in shares:
            if share.zone not in names:
                return None
            taken[names.index(share.zone)] += self._vector(share.amounts)
        return taken if shares else None

    def needs(self, shape: Shape, devices: Ints) -> Needs:
        """What of the pod is aligned on these nodes, as vectors [K]."""
        of_scope = pod_needs if self.scope == "pod" else container_needs
        found = of_scope(shape, self._axis, devices)
        return Needs(
            tuple(need[self.columns] for need in found.together),
            tuple(need[self.columns] for need in found.alone),
        )

    def align(self, needs: Needs, at: Ints) -> Alignment:
        """Where the pod would go on the nodes `at` (positions in `rows`)."""
        available, allocatable = self.available[at], self.allocatable[at]
        exists = self.exists[at]
        total = np.zeros_like(available)
        feasible = np.ones(len(at), np.bool_)
        aligner = _ALIGNERS.get(self.policy)
        if aligner is None:
            return Alignment(feasible, total)
        for need in needs.alone:
            if need.any():
                feasible &= aligner(need, available, allocatable, exists).any(axis=1)
        for need in needs.together:
            if need.any():
                chosen = aligner(need, available - total, allocatable, exists)
                feasible &= chosen.any(axis=1)
                total += numa.drawn(need, available - total, chosen)
        return Alignment(feasible | (self.policy not in REFUSING), total)

    def shares(self, m: int, taken: Ints) -> list[tuple[str, dict[str, int]]]:
        """A place in words: zone names and amounts."""
        found = []
        for z in np.flatnonzero(taken.any(axis=1)).tolist():
            amounts = {
                self._axis.names[column]: int(amount)
                for column, amount in zip(self.columns.tolist(), taken[z].tolist(), strict=True)
                if amount
            }
            found.append((self.zone_names[m][z], amounts))
        return found

    def _vector(self, amounts: Mapping[str, int]) -> Ints:
        known = {name: amount for name, amount in amounts.items() if name in self._axis.column}
        return self._axis.vector(known)[self.columns]


def zone_kinds(
    records: Sequence[NodeRecord], axis: ResourceAxis, uses_reported: bool
) -> list[ZoneKind]:
    """The nodes that have zones, by kind."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, record in enumerate(records):
        if record.numa is not None:
            key = (record.numa.policy, record.numa.scope, *_reported(record.numa, axis).tolist())
            groups.setdefault(key, []).append(row)
    return [
        ZoneKind(np.array(rows, np.int64), [records[row] for row in rows], axis, uses_reported)
        for rows in groups.values()
    ]


def _reported(topology: NumaTopology, axis: ResourceAxis) -> Ints:
    names = {name for zone in topology.zones for name in zone.allocatable}
    return np.array(sorted(axis.column[name] for name in names if name in axis.column), np.int64)
