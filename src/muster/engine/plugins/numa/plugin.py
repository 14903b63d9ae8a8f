"""KAI's `numa`: predicts the kubelet's Topology Manager, so that no pod is sent where it would be
refused.

Nodes that insist on alignment (restricted, single-numa-node) are filtered; all nodes score 100
divided by the number of zones the pod would span. Placements are charged to zones and told to the
binder.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muster.api.bindrequest import NUMAZone
from muster.api.kinds import NODE_RESOURCE_TOPOLOGY, Kind
from muster.api.names import RESOURCE_NVIDIA_GPU
from muster.api.quantity import Quantity, from_milli, from_value
from muster.engine.config.reader import Reader
from muster.engine.held_places import HeldPlaces
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import Bind
from muster.engine.plugins.numa.needs import Needs, is_device
from muster.engine.plugins.numa.zones import REFUSING, ZoneKind, zone_kinds
from muster.model.ledger import Entries
from muster.model.reasons import Reason
from muster.model.records import NodeRecord
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import GPU_UNIT, ResourceAxis

_SCORE = 100.0


class Numa:
    """KAI's `numa`. `ignoreList`: devices not to align; `reconstructAvailable`: sum up what pods
    hold instead of believing what nodes report."""

    name = "numa"
    watches: tuple[Kind[Any], ...] = (NODE_RESOURCE_TOPOLOGY,)

    def __init__(self, arguments: Reader, weight: float = 1.0) -> None:
        arguments.allow_only(("ignoreList", "reconstructAvailable"))
        self._weight = weight
        listed = arguments.key("ignoreList").text("")
        self._ignored = frozenset(name.strip() for name in listed.split(",") if name.strip())
        self._reconstructs = arguments.key("reconstructAvailable").flag(True)
        self._known: tuple[Sequence[NodeRecord], ResourceAxis, list[ZoneKind]] | None = None

    def open(self, view: View) -> SessionPlugin:
        kinds = self.kinds(view)
        if not kinds:
            return SessionPlugin()
        return Zones(view, kinds, self._ignored, self._reconstructs, self._weight)

    def kinds(self, view: View) -> list[ZoneKind]:
        """Zones before anybody holds them. They follow from the nodes: kept while these are."""
        records, axis = view.snapshot.nodes.records, view.snapshot.axis
        if self._known is None or self._known[0] is not records or self._known[1] != axis:
            kinds = zone_kinds(records, axis, uses_reported=not self._reconstructs)
            self._known = (records, axis, kinds)
        return [kind.copied() for kind in self._known[2]]


class Zones(SessionPlugin):
    def __init__(
        self,
        view: View,
        kinds: list[ZoneKind],
        ignored: frozenset[str],
        reconstructs: bool,
        weight: float,
    ) -> None:
        self._snapshot, self._weight = view.snapshot, weight
        self._kinds = kinds
        self._most_zones = max(kind.exists.shape[1] for kind in kinds)
        names = view.snapshot.axis.names
        reported = {column for kind in kinds for column in kind.columns.tolist()}
        self._devices: Ints = np.array(
            [c for c in sorted(reported) if is_device(names[c], ignored)], np.int64
        )
        self._kind_of = {row: kind for kind in kinds for row in kind.rows.tolist()}
        self._needs: dict[tuple[int, ZoneKind], Needs] = {}
        self._held: HeldPlaces[Ints] = HeldPlaces(self)
        self._ledger = view.ledger
        self._enter_running(view, charges=reconstructs)

    def dependence(self, shape: Shape) -> Dependence:
        concerned = shape.constraints.is_guaranteed or bool(shape.request[self._devices].any())
        return Dependence.NODE if concerned else Dependence.IRRELEVANT

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        fits = np.ones(len(rows), np.bool_)
        for kind in self._kinds:
            if kind.policy in REFUSING:
                where, at = _shared(rows, kind.rows)
                fits[where] = kind.align(self._needs_of(shape, kind), at).is_feasible
        return fits

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        return np.where(self.fits(shape, rows), 0, int(Reason.NUMA))

    def score(self, shape: Shape, rows: Rows) -> Floats:
        span = np.full(len(rows), self._most_zones, np.float64)
        feasible = np.ones(len(rows), np.bool_)
        for kind in self._kinds:
            where, at = _shared(rows, kind.rows)
            found = kind.align(self._needs_of(shape, kind), at)
            zones = kind.exists[at].sum(axis=1)
            is_aligned = kind.policy != "none" and not self._needs_of(shape, kind).is_nothing
            span[where] = np.maximum(found.span, 1) if is_aligned else zones
            feasible[where] = found.is_feasible
        return np.where(feasible, self._weight * _SCORE / span, 0.0)

    def on_ledger_change(self, entries: Entries) -> None:
        self._held.on_ledger_change(entries)

    def can_return(self, tasks: Rows) -> Bools:
        nodes = self._ledger.node[tasks].tolist()
        return np.fromiter(map(self._is_free, tasks.tolist(), nodes), np.bool_, len(tasks))

    def annotate(self, binds: Sequence[Bind]) -> Sequence[Mapping[str, object]]:
        uids = {self._snapshot.tasks.records[task].uid: task for task in self._held.by_task}
        return [self._details(uids.get(bind.task)) for bind in binds]

    def _enter_running(self, view: View, charges: bool) -> None:
        tasks = view.snapshot.tasks
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_ALLOCATED[tasks.status]
        for task in np.flatnonzero(there).tolist():
            node, record = int(tasks.node[task]), tasks.records[task]
            kind = self._kind_of.get(node)
            if kind is None or not record.numa:
                continue
            m = int(np.searchsorted(kind.rows, node))
            taken = kind.place(m, record.numa)
            if charges:
                self._held.take(task, node, taken)
            elif taken is not None:
                self._held.by_task[task] = (node, taken)

    # -- what tasks hold -------------------------------------------------------------------

    def counts(self, node: int) -> bool:
        return node in self._kind_of

    def chosen(self, task: int, node: int) -> Ints | None:
        """Where the kubelet would put it now; None: it does not care."""
        shape, kind = self._snapshot.shape_of(task), self._kind_of[node]
        if self.dependence(shape) is Dependence.IRRELEVANT:
            return None
        at = np.searchsorted(kind.rows, [node])
        found: Ints = kind.align(self._needs_of(shape, kind), at).taken[0]
        return found

    def charge(self, node: int, place: Ints, sign: int) -> None:
        kind = self._kind_of[node]
        kind.available[np.searchsorted(kind.rows, node)] -= sign * place

    def _is_free(self, task: int, node: int) -> bool:
        """Whether the zones that an evicted task held have room for it still."""
        kind, left = self._kind_of.get(node), self._held.last_left(task, node)
        if kind is None or left is None:
            return True
        free = kind.available[np.searchsorted(kind.rows, node)]
        return bool(((free >= left) | (left == 0)).all())

    def _needs_of(self, shape: Shape, kind: ZoneKind) -> Needs:
        key = (shape.row, kind)
        needs = self._needs.get(key)
        if needs is None:
            needs = self._needs[key] = kind.needs(shape, self._devices)
        return needs

    def _details(self, task: int | None) -> Mapping[str, object]:
        if task is None:
            return {}
        node, taken = self._held.by_task[task]
        kind = self._kind_of[node]
        shares = kind.shares(int(np.searchsorted(kind.rows, node)), taken)
        zones = tuple(
            NUMAZone(zone=zone, amount={_resource(n): _quantity(n, a) for n, a in amounts.items()})
            for zone, amounts in shares
        )
        return {"predictedNUMAZones": zones} if zones else {}


def _shared(rows: Rows, of_kind: Rows) -> tuple[Ints, Ints]:
    """Positions in `rows` and in `of_kind` of the nodes that are in both; both ascend."""
    _, where, at = np.intersect1d(rows, of_kind, assume_unique=True, return_indices=True)
    return where, at


def _resource(name: str) -> str:
    return RESOURCE_NVIDIA_GPU if name == "gpu" else name


def _quantity(name: str, amount: int) -> Quantity:
    if name == "cpu":
        return from_milli(amount)
    return from_value(amount // GPU_UNIT if name == "gpu" else amount)
