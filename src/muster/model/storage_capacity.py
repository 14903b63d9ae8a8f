"""Storage that drivers report per class and topology, and what of it pods of this cycle will take.

A claim that waits for its first consumer takes its size from every reported capacity that its node
can see, as soon as its pod has a node and until the volume is bound and the driver reports anew.
Claims that two pods share are taken once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from muster.api.storage import CSIStorageCapacity, PersistentVolumeClaim
from muster.model.constraints import Constraints
from muster.model.from_api import label_selector
from muster.model.selectors import NodeTerm
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Rows


@dataclass(slots=True)
class _Reported:
    """One reported capacity: who sees it, how much it has, who takes of it."""

    nodes: Bools
    bytes: int
    largest_bytes: int
    users: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By claim: its size, and how many pods use it."""

    def has_room(self, wanted: Mapping[str, int]) -> bool:
        """Whether these claims fit beside those that are not among them already."""
        taken = sum(
            size for key, (size, users) in self.users.items() if users and key not in wanted
        )
        fits_each = all(size <= self.largest_bytes for size in wanted.values())
        return fits_each and taken + sum(wanted.values()) <= self.bytes


class StorageCapacities:
    """Reported capacities of one snapshot, by storage class."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._around = snapshot.cluster_objects

    def concerns(self, constraints: Constraints) -> bool:
        """Whether the pod has a claim whose room is reported and not taken yet."""
        return bool(constraints.volume_claims) and bool(self._wanted(constraints))

    def fits(self, constraints: Constraints, rows: Rows) -> Bools:
        """bool[len(rows)]: nodes that see, for each class, a capacity with room for all claims."""
        fits = np.ones(len(rows), np.bool_)
        for storage_class, wanted in self._wanted(constraints).items():
            seen = np.zeros(len(rows), np.bool_)
            for reported in self._reported.get(storage_class, ()):
                if reported.has_room(wanted):
                    seen |= reported.nodes[rows]
            fits &= seen
        return fits

    def post(self, constraints: Constraints, node: int, sign: int) -> None:
        """A pod takes its claims' room on what its node sees, or gives it back."""
        _take(self._reported, self._wanted(constraints), node, sign)

    @cached_property
    def _reported(self) -> dict[str, list[_Reported]]:
        found: dict[str, list[_Reported]] = {}
        for _, capacity in sorted(self._around.storage_capacities.items()):
            found.setdefault(capacity.storage_class_name, []).append(self._read(capacity))
        self._enter_placed(found)
        return found

    def _enter_placed(self, found: dict[str, list[_Reported]]) -> None:
        """Pods that have a node and whose volumes are not made yet."""
        snapshot = self._snapshot
        with_claims = np.fromiter((self.concerns(s.constraints) for s in snapshot.shapes), np.bool_)
        tasks = snapshot.tasks
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_ALLOCATED[tasks.status]
        for task in np.flatnonzero(there & with_claims[tasks.shape]).tolist():
            _take(
                found, self._wanted(snapshot.shape_of(task).constraints), int(tasks.node[task]), 1
            )

    def _read(self, capacity: CSIStorageCapacity) -> _Reported:
        index = self._snapshot.nodes.index
        selector = label_selector(capacity.node_topology)
        if selector is None:
            nodes = np.zeros(len(index), np.bool_)
        elif not selector.requirements:
            nodes = np.ones(len(index), np.bool_)
        else:
            nodes = index.matching_term(NodeTerm(selector.requirements))
        size = 0 if capacity.capacity is None else capacity.capacity.value
        largest = capacity.maximum_volume_size
        return _Reported(nodes, size, size if largest is None else largest.value)

    def _wanted(self, constraints: Constraints) -> dict[str, dict[str, int]]:
        """By class: claims that are not bound and whose driver reports capacity, with sizes."""
        wanted: dict[str, dict[str, int]] = {}
        for key, claim in self._waiting(constraints):
            wanted.setdefault(claim.spec.storage_class_name or "", {})[key] = claim.size.value
        return wanted

    def _waiting(self, constraints: Constraints) -> Iterator[tuple[str, PersistentVolumeClaim]]:
        for name in constraints.volume_claims:
            key = f"{constraints.namespace}/{name}"
            claim = self._around.volume_claims.get(key)
            if claim is None or claim.spec.volume_name:
                continue
            found = self._around.storage_classes.get(claim.spec.storage_class_name or "")
            if found is None or not found.waits_for_consumer:
                continue
            driver = self._around.storage_drivers.get(found.provisioner)
            if driver is not None and driver.spec.storage_capacity:
                yield key, claim


def _take(
    found: Mapping[str, list[_Reported]],
    wanted: Mapping[str, Mapping[str, int]],
    node: int,
    sign: int,
) -> None:
    for storage_class, claims in wanted.items():
        for reported in found.get(storage_class, ()):
            if reported.nodes[node]:
                for key, size in claims.items():
                    users = reported.users.get(key, (size, 0))[1]
                    reported.users[key] = (size, users + sign)
