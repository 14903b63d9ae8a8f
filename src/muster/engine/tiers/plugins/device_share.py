"""`deviceshare`: parts of cards, as Volcano's device plugins give them.

Cards and their memory are those that the device plugin writes on its node (vGPUs), or counts as
resources (`volcano.sh/gpu-memory`, `gpu-number`). A pod is told its cards by annotations, which
reach it in the same write as its node: the device plugin reads them when the kubelet starts it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.held_places import HeldPlaces
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import POD_ANNOTATIONS, Bind
from muster.engine.tiers.plugins.card_table import BINPACK, SPREAD, Ask, CardTable
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model import cards
from muster.model.cards import Parts, parts_held, written
from muster.model.constraint_terms import ContainerKind
from muster.model.ledger import Entries
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_FULL = 100.0
_WHOLE = 100
_VGPU, _MEMORY, _NUMBER = "VGPUEnable", "GPUSharingEnable", "GPUNumberEnable"
_SWITCH_OF = {
    cards.VGPU_NUMBER: _VGPU,
    cards.VGPU_MEMORY: _VGPU,
    cards.VGPU_CORES: _VGPU,
    cards.GPU_MEMORY: _MEMORY,
    cards.GPU_NUMBER: _NUMBER,
}
_USE, _NO_USE, _MODE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "volcano.sh/vgpu-mode"
_SHARED_MODE = "hami-core"
_UNUSED = {
    "NodeLockEnable": "a pod's cards are written with its node in one write, nodes are not locked",
    "VGPUPodGroupDeviceSpread": "pods of a group may share a card",
    "GPUExclusiveRules": "pods of the same labels may share a card: "
    "those that must not ask for whole ones",
    "AscendMindClusterVNPUEnable": "parts of NPUs are not served",
    "AscendHAMiVNPUEnable": "parts of NPUs are not served",
    "KnownGeometriesCMName": "cards in MIG mode are not cut into parts here",
    "KnownGeometriesCMNamespace": "cards in MIG mode are not cut into parts here",
}


class DeviceShare:
    """Volcano's `deviceshare` for NVIDIA's cards."""

    name = "deviceshare"

    def __init__(self, arguments: Reader) -> None:
        known = (_VGPU, _MEMORY, _NUMBER, "SchedulePolicy", "ScheduleWeight", *_UNUSED)
        arguments.allow_only(f"deviceshare.{name}" for name in known)
        switches = [n for n in (_VGPU, _MEMORY, _NUMBER) if _key(arguments, n).flag(False)]
        self._on = frozenset(switches[:1])
        for extra in switches[1:]:
            _key(arguments, extra).has_no_effect(f"only one may be on, and {switches[0]} is")
        self._policy = _key(arguments, "SchedulePolicy").choice(("", BINPACK, SPREAD), "")
        self._weight = _key(arguments, "ScheduleWeight").integer(0)
        for name, why in _UNUSED.items():
            if not _key(arguments, name).is_absent:
                _key(arguments, name).has_no_effect(why)

    def open(self, view: View) -> SessionPlugin:
        return _Cards(view, self._on, self._policy, float(max(self._weight, 0)))


def _key(arguments: Reader, name: str) -> Reader:
    return arguments.key(f"deviceshare.{name}")


class _Cards(TieredPlugin):
    def __init__(self, view: View, on: frozenset[str], policy: str, weight: float) -> None:
        self._view, self._on, self._weight = view, on, weight
        self._snapshot = view.snapshot
        self._table = CardTable([node.cards for node in view.snapshot.nodes.records], policy)
        self._columns = {
            column: name
            for column, name in enumerate(view.snapshot.axis.names)
            if name in cards.PARTS
        }
        self._asks: dict[int, tuple[Ask, ...]] = {}
        self._held: HeldPlaces[Parts] = HeldPlaces(self)
        self._enter_placed()

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    # -- nodes ---------------------------------------------------------------------------

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        for column, name in self._columns.items():
            if shape.request[column] <= 0:
                continue
            if name == cards.VGPU_PERCENTAGE:
                instead = f"write {cards.VGPU_MEMORY} in MiB"
                return Refusal(Reason.BAD_REQUEST, subject=f"{name} is not served: {instead}")
            if _SWITCH_OF[name] not in self._on:
                instead = f"deviceshare.{_SWITCH_OF[name]}: true in the configuration serves it"
                return Refusal(Reason.BAD_REQUEST, subject=f"{name} is not served: {instead}")
        return None

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.NODE if self._asks_of(shape) else Dependence.IRRELEVANT

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        return self._table.fit(self._asks_of(shape), rows).is_feasible

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        return np.where(self.fits(shape, rows), 0, int(Reason.PLUGIN))

    def score(self, shape: Shape, rows: Rows) -> Floats:
        if not self._weight:
            return np.zeros(len(rows))
        return _FULL * self._weight * self._table.fit(self._asks_of(shape), rows).score

    def looks_at_tasks(self, job: int) -> bool:
        tasks = self._groups.tasks(job).tolist()
        return any(not _WISHES.isdisjoint(self._groups.pod(task).notes) for task in tasks)

    def task_nodes(self, task: int) -> Bools:
        """Nodes that have no card of a kind that the pod does not want."""
        notes = self._groups.pod(task).notes
        nodes = self._table.cards
        if _WISHES.isdisjoint(notes):
            return np.ones(len(nodes), np.bool_)
        is_shared = notes.get(_MODE, _SHARED_MODE) == _SHARED_MODE
        found = [is_shared and all(_is_wanted(c.maker, notes) for c in each) for each in nodes]
        return np.array(found, np.bool_)

    # -- what pods hold ------------------------------------------------------------------

    def on_ledger_change(self, entries: Entries) -> None:
        self._held.on_ledger_change(entries)

    def counts(self, node: int) -> bool:
        return bool(self._table.cards[node])

    def chosen(self, task: int, node: int) -> Parts | None:
        asks = self._asks_of(self._snapshot.shape_of(task))
        return self._table.place(asks, node) if asks else None

    def charge(self, node: int, place: Parts, sign: int) -> None:
        self._table.charge(node, place, sign)

    def annotate(self, binds: Sequence[Bind]) -> Sequence[Mapping[str, object] | None]:
        row = self._snapshot.tasks.row
        return [self._details(row[bind.task]) for bind in binds]

    def _details(self, task: int) -> Mapping[str, object] | None:
        """None while somebody who leaves is on a card that has no room for both."""
        if task not in self._held.by_task:
            return {}
        node, parts = self._held.by_task[task]
        if self._table.is_overfull(node, parts, self._leaving(node)):
            return None
        name = self._snapshot.nodes.records[node].name
        notes = written(parts, self._table.cards[node], name, self._view.now_s)
        return {POD_ANNOTATIONS: notes}

    def _leaving(self, node: int) -> list[Parts]:
        """What those have there who are asked to go, and have not gone."""
        status, tasks = self._view.ledger.status, self._snapshot.tasks
        leaves = (status == TaskStatus.RELEASING) | (status == TaskStatus.STUCK_IN_RELEASING)
        rows = np.flatnonzero(tasks.live & (tasks.node == node) & leaves)
        found = (self._parts_of(task, node) for task in rows.tolist())
        return [parts for parts in found if parts is not None]

    def _enter_placed(self) -> None:
        tasks = self._snapshot.tasks
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_ALLOCATED[tasks.status]
        for task in np.flatnonzero(there).tolist():
            node = int(tasks.node[task])
            if self.counts(node):
                self._held.take(task, node, self._parts_of(task, node))

    def _parts_of(self, task: int, node: int) -> Parts | None:
        """What is written on a placed pod."""
        record = self._snapshot.tasks.records[task]
        if record.terms is None:
            return None
        return parts_held(record.terms.notes, self._table.cards[node], record.request)

    def _asks_of(self, shape: Shape) -> tuple[Ask, ...]:
        found = self._asks.get(shape.row)
        if found is None:
            found = self._asks[shape.row] = self._read(shape)
        return found

    def _read(self, shape: Shape) -> tuple[Ask, ...]:
        if not any(shape.request[column] > 0 for column in self._columns):
            return ()
        pod = self._snapshot.axis.amounts(shape.request)
        if _MEMORY in self._on:
            memory = pod.get(cards.GPU_MEMORY, 0)
            return (Ask(1, memory),) if memory else ()
        if _NUMBER in self._on:
            count = pod.get(cards.GPU_NUMBER, 0)
            return (Ask(count, 0, _WHOLE),) if count else ()
        containers = shape.containers(self._snapshot.axis)
        asks = (_ask(dict(c.amounts)) for c in containers if c.kind is ContainerKind.APP)
        return tuple(ask for ask in asks if ask is not None)


_WISHES = frozenset((_USE, _NO_USE, _MODE))


def _ask(amounts: Mapping[str, int]) -> Ask | None:
    """A container that names no number of cards has one; one that names no memory has all of it."""
    number, memory = amounts.get(cards.VGPU_NUMBER, 0), amounts.get(cards.VGPU_MEMORY, 0)
    if not number and not memory:
        return None
    cores = min(amounts.get(cards.VGPU_CORES, 0), _WHOLE)
    return Ask(number or 1, memory, cores)


def _is_wanted(maker: str, notes: Mapping[str, str]) -> bool:
    kind = maker.upper()
    if _USE in notes:
        return any(one in kind for one in notes[_USE].upper().split(","))
    return not any(one in kind for one in notes.get(_NO_USE, "").upper().split(",") if one)
