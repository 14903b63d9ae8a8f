"""Volumes: which nodes can reach the claims of a pod, and how many more volumes a node can attach.

A bound claim goes where its volume can be reached. A claim that waits for its first consumer goes
where a free volume, or a new one, could be, by the class's allowed topologies; `storage_capacity`
says whether there is room for it. Once a volume is kept for it, or a node was selected for which
one is made, it goes where that one can be used; `shared_claims` follows this within a cycle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.api.meta import Key
from muster.api.storage import PersistentVolume, PersistentVolumeClaim
from muster.model.constraints import Constraints
from muster.model.from_api import node_selector
from muster.model.ledger import Entries, EntryKind
from muster.model.nearest import nearest
from muster.model.presence import postings
from muster.model.reasons import Reason, Refusal
from muster.model.selectors import NodeTerm, Operator, requirement
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Bools, Ints, Rows

_ONE_POD = "ReadWriteOncePod"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


@dataclass(frozen=True, slots=True)
class _Attached:
    """A volume as a node counts it: the driver, and a name that two pods may share."""

    driver: str
    volume: str


class Volumes:
    """Claims, volumes and classes of one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._around = snapshot.cluster_objects
        self._index = snapshot.nodes.index
        self._free: dict[Key, list[Bools]] = {}
        self._segments_of: dict[str, Ints] = {}

    def unusable(self, constraints: Constraints) -> Refusal | None:
        """What is wrong with a claim of the pod, whatever the node."""
        for name in constraints.volume_claims:
            claim = self._claim(constraints, name)
            if claim is None:
                return Refusal(Reason.VOLUME_MISSING, subject=name)
            if problem := self._problem(claim):
                return Refusal(Reason.VOLUME_CLAIM_UNUSABLE, subject=name, names=(problem,))
        return None

    def _problem(self, claim: PersistentVolumeClaim) -> str:
        volume = claim.spec.volume_name
        if claim.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if volume and volume not in self._around.volumes:
            return f"its volume {volume} is gone"
        if not volume and not self._waits(claim):
            return self._why_unbound(claim)
        return ""

    def reachable(self, constraints: Constraints) -> Bools:
        """bool[N]: nodes from which every claim of the pod can be reached or provisioned."""
        mask = np.ones(len(self._index), np.bool_)
        for name in constraints.volume_claims:
            claim = self._claim(constraints, name)
            if claim is None:
                return np.zeros(len(self._index), np.bool_)
            volume = self._around.volumes.get(claim.spec.volume_name)
            if volume is not None:
                mask &= self._reaches(volume)
            elif (decided := self._decided(claim)) is not None:
                mask &= decided
            elif self._waits(claim):
                mask &= self._finds_free(claim) | self._provisions(claim)
        return mask

    def is_undecided(self, constraints: Constraints, name: str) -> bool:
        """Whether nothing says yet where the volume of the pod's claim will be."""
        claim = self._claim(constraints, name)
        if claim is None or claim.spec.volume_name or not self._waits(claim):
            return False
        return self._decided(claim) is None

    def served_with(self, constraints: Constraints, name: str, node: int) -> Bools:
        """bool[N]: nodes that can use the volume which an undecided claim gets if a pod of it is on
        `node`: whichever of the free ones in reach is taken, or else the one that is made.
        """
        claim = self._claim(constraints, name)
        if claim is None:
            return np.zeros(len(self._index), np.bool_)
        in_reach = [mask for mask in self._free_reaches(claim) if mask[node]]
        return np.logical_and.reduce(in_reach) if in_reach else self._made_for(claim, node)

    def finds_free(self, constraints: Constraints) -> Bools:
        """bool[N]: nodes that reach free volumes for all claims that wait: nothing has to be
        made.
        """
        mask = np.ones(len(self._index), np.bool_)
        for name in constraints.volume_claims:
            claim = self._claim(constraints, name)
            if claim is not None and not claim.spec.volume_name and self._waits(claim):
                mask &= self._finds_free(claim)
        return mask

    def exclusive(self, constraints: Constraints) -> frozenset[str]:
        """Claims of the pod that no second pod may use at the same time."""
        return frozenset(
            name
            for name in constraints.volume_claims
            if (claim := self._claim(constraints, name)) is not None
            and _ONE_POD in claim.spec.access_modes
        )

    def is_limited(self, constraints: Constraints) -> bool:
        """Whether some node limits how many volumes of such a pod it attaches."""
        return bool(constraints.volume_claims) and bool(self._limits)

    def has_slots(self, constraints: Constraints, rows: Rows) -> Bools:
        """bool[len(rows)]: nodes that can attach the pod's volumes beside those they have."""
        wanted = set(self._attached_by(constraints))
        allowed = np.ones(len(rows), np.bool_)
        for position, row in enumerate(rows.tolist()):
            limits = self._limits.get(row)
            if limits is not None:
                held = {v for v, users in self._held.get(row, {}).items() if users > 0}
                allowed[position] = not _exceeded(held | wanted, wanted, limits)
        return allowed

    def on_ledger_change(self, entries: Entries, snapshot: ClusterSnapshot) -> None:
        """Follow the ledger: who attaches what."""
        if not self._limits:
            return
        for task, node, kind in postings(entries):
            if kind in (EntryKind.ALLOCATE, EntryKind.PIPELINE):
                self._attach(snapshot.shape_of(task).constraints, node, entries.sign)

    def _claim(self, constraints: Constraints, name: str) -> PersistentVolumeClaim | None:
        return self._around.volume_claims.get(f"{constraints.namespace}/{name}")

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str:
        name, known = claim.spec.storage_class_name or "", self._around.storage_classes
        if name and name not in known and known:
            meant = nearest(name, known)
            hint = f" (did you mean {meant}?)" if meant else f" (there is {', '.join(known)})"
            return f"it has no volume, and storage class {name} does not exist{hint}"
        return "it is not bound to a volume yet"

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound only once its pod has a node."""
        found = self._around.storage_classes.get(claim.spec.storage_class_name or "")
        return found is not None and found.waits_for_consumer

    def _decided(self, claim: PersistentVolumeClaim) -> Bools | None:
        """Nodes that can use the volume of an unbound claim for which somebody has chosen."""
        for volume in self._around.volumes.values():
            if _is_kept_for(volume, claim):
                return self._reaches(volume)
        chosen = claim.metadata.annotations.get(_SELECTED_NODE, "")
        row = self._snapshot.nodes.row.get(chosen)
        # A node that is gone makes no volume; whoever comes next chooses anew.
        return None if row is None or not self._waits(claim) else self._made_for(claim, row)

    def _made_for(self, claim: PersistentVolumeClaim, node: int) -> Bools:
        """Nodes that can use a volume that is made for `node`.

        Nobody knows before it is there. A claim for many nodes can be used where the driver runs
        and its topology is the same; of others that node alone is certain.
        """
        alone = np.zeros(len(self._index), np.bool_)
        alone[node] = True
        found = self._around.storage_classes.get(claim.spec.storage_class_name or "")
        if found is None or _MANY_NODES.isdisjoint(claim.spec.access_modes):
            return alone
        segment = self._segments(found.provisioner)
        return alone if segment[node] < 0 else segment == segment[node]

    def _segments(self, driver: str) -> Ints:
        """int64[N]: a number for each topology of a driver; -1 where it does not run."""
        known = self._segments_of.get(driver)
        if known is None:
            known = np.full(len(self._index), -1, np.int64)
            numbers: dict[tuple[str, ...], int] = {}
            for name, row in self._snapshot.nodes.row.items():
                runs = self._around.storage_nodes.get(name)
                for one in runs.spec.drivers if runs is not None else ():
                    if one.name == driver:
                        labels = self._snapshot.nodes.records[row].labels
                        place = tuple(f"{key}={labels.get(key)}" for key in one.topology_keys)
                        known[row] = numbers.setdefault(place, len(numbers))
            self._segments_of[driver] = known
        return known

    def _reaches(self, volume: PersistentVolume) -> Bools:
        mask = np.ones(len(self._index), np.bool_)
        affinity = volume.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            mask &= self._index.matching(node_selector(affinity.required))
        for label in _ZONE_LABELS:
            if label in volume.metadata.labels:
                zones = volume.metadata.labels[label].split("__")
                column = self._index.label(label)
                mask &= column.rows_with(zones) | ~column.rows_present()
        return mask

    def _finds_free(self, claim: PersistentVolumeClaim) -> Bools:
        """Nodes that reach a volume nobody has claimed and that suits the claim."""
        mask = np.zeros(len(self._index), np.bool_)
        for reached in self._free_reaches(claim):
            mask |= reached
        return mask

    def _free_reaches(self, claim: PersistentVolumeClaim) -> list[Bools]:
        """For each volume that nobody has claimed and that suits the claim: who reaches it."""
        known = self._free.get(claim.metadata.key)
        if known is None:
            volumes = self._around.volumes.values()
            known = [self._reaches(volume) for volume in volumes if _suits(volume, claim)]
            self._free[claim.metadata.key] = known
        return known

    def _provisions(self, claim: PersistentVolumeClaim) -> Bools:
        """Nodes for which the class can make a new volume."""
        found = self._around.storage_classes[claim.spec.storage_class_name or ""]
        if found.provisioner == _NO_PROVISIONER:
            return np.zeros(len(self._index), np.bool_)
        mask = np.ones(len(self._index), np.bool_)
        if found.allowed_topologies:
            mask = np.zeros(len(self._index), np.bool_)
            for term in found.allowed_topologies:
                needs = tuple(
                    requirement(need.key, Operator.IN, *need.values)
                    for need in term.match_label_expressions
                )
                mask |= self._index.matching_term(NodeTerm(needs)) if needs else True
        return mask

    @cached_property
    def _limits(self) -> dict[int, Mapping[str, int]]:
        """How many volumes of each driver a node attaches, where it says so."""
        limits: dict[int, Mapping[str, int]] = {}
        for name, found in self._around.storage_nodes.items():
            counts = {
                driver.name: driver.allocatable.count
                for driver in found.spec.drivers
                if driver.allocatable is not None and driver.allocatable.count is not None
            }
            row = self._snapshot.nodes.row.get(name)
            if counts and row is not None:
                limits[row] = counts
        return limits

    @cached_property
    def _held(self) -> dict[int, dict[_Attached, int]]:
        """By node: its volumes and how many pods use each."""
        held: dict[int, dict[_Attached, int]] = {}
        snapshot = self._snapshot
        with_volumes = np.fromiter(
            (bool(shape.constraints.volume_claims) for shape in snapshot.shapes), np.bool_
        )
        tasks = snapshot.tasks
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_USED[tasks.status]
        for task in np.flatnonzero(there & with_volumes[tasks.shape]).tolist():
            users = held.setdefault(int(tasks.node[task]), {})
            for volume in self._attached_by(snapshot.shape_of(task).constraints):
                users[volume] = users.get(volume, 0) + 1
        return held

    def _attach(self, constraints: Constraints, node: int, sign: int) -> None:
        users = self._held.setdefault(node, {})
        for volume in self._attached_by(constraints):
            users[volume] = users.get(volume, 0) + sign

    def _attached_by(self, constraints: Constraints) -> Iterable[_Attached]:
        for name in constraints.volume_claims:
            claim = self._claim(constraints, name)
            if claim is None:
                continue
            volume = self._around.volumes.get(claim.spec.volume_name)
            if volume is not None and volume.spec.csi is not None:
                yield _Attached(volume.spec.csi.driver, volume.spec.csi.volume_handle)
            elif volume is None:
                found = self._around.storage_classes.get(claim.spec.storage_class_name or "")
                if found is not None:
                    yield _Attached(found.provisioner, f"{constraints.namespace}/{name}")


def _exceeded(held: set[_Attached], wanted: set[_Attached], limits: Mapping[str, int]) -> bool:
    """Whether a driver of the wanted volumes would have more than it attaches."""
    return any(
        sum(volume.driver == driver for volume in held) > limits[driver]
        for driver in {volume.driver for volume in wanted}
        if driver in limits
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is free, or kept for the claim, and is what the claim asks for."""
    is_free = _is_kept_for(volume, claim) or volume.is_available
    return is_free and volume.satisfies(claim)


def _is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    kept_for = volume.spec.claim_ref
    if kept_for is None or claim.metadata.key != (kept_for.namespace, kept_for.name):
        return False
    return kept_for.uid in ("", claim.metadata.uid)
