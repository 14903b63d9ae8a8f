"""Checks whose answer moves with every placement: ports, other pods, spread, slots, volume
limits.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property

import numpy as np

from muster.engine.hooks import Dependence, View
from muster.model.affinity import Affinities
from muster.model.constraint_terms import HostPort
from muster.model.constraints import Constraints
from muster.model.ledger import Entries, EntryKind
from muster.model.presence import postings, presence
from muster.model.reasons import Reason
from muster.model.shapes import Shape
from muster.model.shared_claims import SharedClaims
from muster.model.spread import Spreads
from muster.model.status import IS_ACTIVE_ALLOCATED, IS_ACTIVE_USED
from muster.model.storage_capacity import StorageCapacities
from muster.model.volumes import Volumes
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_SPREAD_SCORE = 100.0
"""Most that soft spread constraints count: above packing, below starting at once."""

_EVERYWHERE = "0.0.0.0"

# By kind of ledger entry: how many more tasks are on the node, and how many more that stay there.
_COME: Mapping[int, int] = {EntryKind.ALLOCATE: 1, EntryKind.PIPELINE: 1}
_STAY = {**_COME, EntryKind.EVICT: -1, EntryKind.RESTORE: 1}


class DynamicFilters:
    """Reasons that depend on what is placed. Knows only as much as some shape asks for."""

    def __init__(
        self,
        view: View,
        volumes: Volumes,
        there: Bools = IS_ACTIVE_USED,
        off: AbstractSet[Reason] = frozenset(),
    ) -> None:
        """`there`: bool[STATUSES], who counts as being on his node; `off`: reasons that do not
        count.
        """
        self._view, self._volumes, self._off = view, volumes, off
        self._capacities = StorageCapacities(view.snapshot)
        self._shared = SharedClaims(view.snapshot, volumes)
        shapes = [shape.constraints for shape in view.snapshot.shapes]
        self._shapes = shapes
        distinct = view.snapshot.constraints
        self._reads_pods = any(c.pod_affinity is not None or c.spread for c in distinct)
        self._reads_ports = any(c.host_ports for c in distinct) or any(
            volumes.exclusive(c) for c in distinct if c.volume_claims
        )
        self._conflicts: dict[tuple[HostPort, ...], Bools] = {}
        if self._reads_pods or self._reads_ports:
            self._present = presence(view.ledger, there)
            self._staying = presence(view.ledger, IS_ACTIVE_ALLOCATED)

    @property
    def follows(self) -> bool:
        """Whether some answer depends on what is placed."""
        objects = self._view.snapshot.cluster_objects
        is_limited = bool(objects.storage_capacities or objects.storage_nodes)
        has_volumes = is_limited and any(c.volume_claims for c in self._view.snapshot.constraints)
        return self._reads_pods or self._reads_ports or has_volumes or bool(self._shared)

    def dependence(self, shape: Shape) -> Dependence:
        """What the answers about a shape depend on."""
        constraints = shape.constraints
        if self._reads_pods and (constraints.spread or self._affinities.concerns(constraints)):
            return Dependence.CLUSTER
        if self._volumes.exclusive(constraints) or self._capacities.concerns(constraints):
            return Dependence.CLUSTER
        if self._shared.concerns(constraints):
            return Dependence.CLUSTER
        if constraints.host_ports or self._volumes.is_limited(constraints):
            return Dependence.NODE
        return Dependence.STATIC

    def reasons(self, shape: Shape, rows: Rows) -> Ints:
        """int64[len(rows)]: why the node may not run it as things stand."""
        found = np.zeros(len(rows), np.int64)

        def refuse(reason: Reason, allowed: Bools) -> None:
            if reason not in self._off:
                found[(found == 0) & ~allowed] = reason

        constraints = shape.constraints
        if constraints.host_ports:
            refuse(Reason.HOST_PORT, self._free_ports(constraints)[rows])
        if self._reads_pods:
            if self._affinities.concerns(constraints):
                verdict = self._affinities.verdict(constraints)
                refuse(Reason.POD_AFFINITY, verdict.near_wanted[rows])
                refuse(Reason.POD_ANTI_AFFINITY, verdict.away_from_unwanted[rows])
                refuse(Reason.OTHERS_ANTI_AFFINITY, verdict.welcome[rows])
            if constraints.spread:
                refuse(Reason.SPREAD, self._spreads.allowed(constraints)[rows])
        if exclusive := self._volumes.exclusive(constraints):
            is_unused = self._is_unused(constraints, exclusive)
            refuse(Reason.VOLUME_IN_USE, np.full(len(rows), is_unused))
        if self._shared.concerns(constraints):
            refuse(Reason.SHARED_VOLUME, self._shared.allowed(constraints)[rows])
        if self._capacities.concerns(constraints):
            is_there = self._volumes.finds_free(constraints)[rows]
            has_capacity = self._capacities.fits(constraints, rows)
            refuse(Reason.STORAGE_CAPACITY, is_there | has_capacity)
        if self._volumes.is_limited(constraints):
            refuse(Reason.VOLUME_LIMIT, self._volumes.has_slots(constraints, rows))
        return found

    def score(self, shape: Shape, rows: Rows) -> Floats:
        """How well soft spread constraints are kept: the emptiest domain scores highest."""
        if all(constraint.is_hard for constraint in shape.constraints.spread):
            return np.zeros(len(rows))
        crowding = self._spreads.crowding(shape.constraints)
        most = int(crowding.max(initial=0))
        if most == 0:
            return np.zeros(len(rows))
        return _SPREAD_SCORE * (1.0 - crowding[rows] / most)

    def node_sets(self, tasks: Rows, within: Bools) -> list[Bools]:
        """Sets of nodes in which one volume can serve tasks that share a claim; see
        `SharedClaims`.
        """
        if not self._shared:
            return []
        ledger = self._view.ledger
        return self._shared.node_sets(tasks, within, ledger.idle + ledger.releasing)

    def on_ledger_change(self, entries: Entries) -> None:
        """Follow the ledger."""
        self._volumes.on_ledger_change(entries, self._view.snapshot)
        self._post_storage(entries)
        self._post_shared(entries)
        if not (self._reads_pods or self._reads_ports):
            return
        shape_of_task = self._view.snapshot.tasks.shape
        for task, node, kind in postings(entries):
            shape = int(shape_of_task[task])
            if come := _COME.get(kind, 0):
                self._present.post(shape, node, come * entries.sign)
            if stay := _STAY.get(kind, 0):
                self._staying.post(shape, node, stay * entries.sign)

    def _post_storage(self, entries: Entries) -> None:
        """Room that the claims of placed pods will take."""
        snapshot = self._view.snapshot
        if not snapshot.cluster_objects.storage_capacities:
            return
        for task, node, kind in postings(entries):
            constraints = snapshot.shape_of(task).constraints
            if (stay := _STAY.get(kind, 0)) and self._capacities.concerns(constraints):
                self._capacities.post(constraints, node, stay * entries.sign)

    def _post_shared(self, entries: Entries) -> None:
        """Where volumes of shared claims will be."""
        if not self._shared:
            return
        for task, node, kind in postings(entries):
            if stay := _STAY.get(kind, 0):
                constraints = self._view.snapshot.shape_of(task).constraints
                self._shared.post(constraints, node, stay * entries.sign)

    @cached_property
    def _affinities(self) -> Affinities:
        namespaces = self._view.snapshot.cluster_objects.namespaces
        index = self._view.snapshot.nodes.index
        return Affinities(index, self._shapes, self._present, namespaces)

    @cached_property
    def _spreads(self) -> Spreads:
        return Spreads(self._view.snapshot.nodes.index, self._shapes, self._staying)

    def _is_unused(self, constraints: Constraints, claims: frozenset[str]) -> bool:
        """Whether no pod on any node uses one of these claims."""
        users = np.fromiter(
            (
                other.namespace == constraints.namespace
                and not claims.isdisjoint(other.volume_claims)
                for other in self._shapes
            ),
            np.bool_,
        )
        return not self._present.counts(users).any()

    def _free_ports(self, constraints: Constraints) -> Bools:
        wanted = constraints.host_ports
        rivals = self._conflicts.get(wanted)
        if rivals is None:
            taken = _addresses(wanted)
            rivals = np.fromiter((_clash(taken, s.host_ports) for s in self._shapes), np.bool_)
            self._conflicts[wanted] = rivals
        free: Bools = self._present.counts(rivals) == 0
        return free


_Addresses = Mapping[tuple[int, str], set[str]]
"""By port and protocol."""


def _addresses(ports: tuple[HostPort, ...]) -> _Addresses:
    found: dict[tuple[int, str], set[str]] = {}
    for port in ports:
        found.setdefault((port.port, port.protocol), set()).add(port.address)
    return found


def _clash(wanted: _Addresses, held: tuple[HostPort, ...]) -> bool:
    """Whether two sets of host ports cannot be on one node."""
    return any(
        addresses is not None
        and (
            theirs.address == _EVERYWHERE or not addresses.isdisjoint((theirs.address, _EVERYWHERE))
        )
        for theirs in held
        for addresses in (wanted.get((theirs.port, theirs.protocol)),)
    )
