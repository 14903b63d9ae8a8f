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
from muster.engine.tiers.plugins.card_table import BINPACK, SPREAD, Ask, CardPlace, CardTable
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model import cards
from muster.model.cards import parts_held, written
from muster.model.constraint_terms import ContainerKind
from muster.model.ledger import Entries
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Ints, Rows

Labels = Mapping[str, str]
_FULL = 100.0
_WHOLE = 100
_VGPU, _MEMORY, _NUMBER = "VGPUEnable", "GPUSharingEnable", "GPUNumberEnable"
_RULES = "GPUExclusiveRules"
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
    "AscendMindClusterVNPUEnable": "parts of NPUs are not served",
    "AscendHAMiVNPUEnable": "parts of NPUs are not served",
    "KnownGeometriesCMName": "cards in MIG mode are not cut into parts here",
    "KnownGeometriesCMNamespace": "cards in MIG mode are not cut into parts here",
}


class DeviceShare:
    """Volcano's `deviceshare` for NVIDIA's cards."""

    name = "deviceshare"

    def __init__(self, arguments: Reader) -> None:
        known = (_VGPU, _MEMORY, _NUMBER, _RULES, "SchedulePolicy", "ScheduleWeight", *_UNUSED)
        arguments.allow_only(f"deviceshare.{name}" for name in known)
        switches = [n for n in (_VGPU, _MEMORY, _NUMBER) if _key(arguments, n).flag(False)]
        self._on = frozenset(switches[:1])
        for extra in switches[1:]:
            _key(arguments, extra).has_no_effect(f"only one may be on, and {switches[0]} is")
        self._policy = _key(arguments, "SchedulePolicy").choice(("", BINPACK, SPREAD), "")
        self._weight = _key(arguments, "ScheduleWeight").integer(0)
        self._rules = _exclusive_rules(_key(arguments, _RULES))
        if self._rules and _VGPU not in self._on:
            _key(arguments, _RULES).has_no_effect(f"only parts that deviceshare.{_VGPU} serves")
        for name, why in _UNUSED.items():
            if not _key(arguments, name).is_absent:
                _key(arguments, name).has_no_effect(why)

    def open(self, view: View) -> SessionPlugin:
        rules = self._rules if _VGPU in self._on else ()
        return _Cards(view, self._on, self._policy, float(max(self._weight, 0)), rules)


def _key(arguments: Reader, name: str) -> Reader:
    return arguments.key(f"deviceshare.{name}")


def _exclusive_rules(reader: Reader) -> tuple[Labels, ...]:
    """Labels of the pods of which no two share a card, rule by rule."""
    rules = []
    for each in reader.elements():
        labels = {name: value.text() for name, value in each.items()}
        if not labels:
            raise each.wrong("must name a label and its value, such as {workload: training}")
        rules.append(labels)
    return tuple(rules)


class _Cards(TieredPlugin):
    def __init__(
        self,
        view: View,
        on: frozenset[str],
        policy: str,
        weight: float,
        rules: Sequence[Labels],
    ) -> None:
        self._view, self._on, self._weight, self._rules = view, on, weight, rules
        self._snapshot = view.snapshot
        nodes = [node.cards for node in view.snapshot.nodes.records]
        self._table = CardTable(nodes, policy, len(rules))
        self._columns = {
            column: name
            for column, name in enumerate(view.snapshot.axis.names)
            if name in cards.PARTS
        }
        self._asks: dict[int, tuple[Ask, ...]] = {}
        self._held: HeldPlaces[CardPlace] = HeldPlaces(self)
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
        return any(
            not _WISHES.isdisjoint(self._groups.pod(task).notes) or self._rules_of(task)
            for task in tasks
        )

    def task_nodes(self, task: int) -> Bools:
        """Nodes that have no card of a kind that the pod does not want, and enough of those that
        no pod of a rule of its own has.
        """
        notes, nodes = self._groups.pod(task).notes, self._table.cards
        open_to = self._open_nodes(task)
        if _WISHES.isdisjoint(notes):
            return open_to
        is_shared = notes.get(_MODE, _SHARED_MODE) == _SHARED_MODE
        found = [is_shared and all(_is_wanted(c.maker, notes) for c in each) for each in nodes]
        return open_to & np.array(found, np.bool_)

    def _open_nodes(self, task: int) -> Bools:
        rules, rows = self._rules_of(task), np.arange(len(self._table.cards))
        asks = self._asks_of(self._snapshot.shape_of(task)) if rules else ()
        return self._table.fit(asks, rows, rules).is_feasible

    def _rules_of(self, task: int) -> tuple[int, ...]:
        """The rules of which the pod has every label."""
        if not self._rules:
            return ()
        labels = self._snapshot.tasks.records[task].labels.items()
        return tuple(at for at, rule in enumerate(self._rules) if rule.items() <= labels)

    # -- what pods hold ------------------------------------------------------------------

    def on_ledger_change(self, entries: Entries) -> None:
        self._held.on_ledger_change(entries)

    def counts(self, node: int) -> bool:
        return bool(self._table.cards[node])

    def chosen(self, task: int, node: int) -> CardPlace | None:
        asks = self._asks_of(self._snapshot.shape_of(task))
        return self._table.place(asks, node, self._rules_of(task)) if asks else None

    def charge(self, node: int, place: CardPlace, sign: int) -> None:
        self._table.charge(node, place, sign)

    def annotate(self, binds: Sequence[Bind]) -> Sequence[Mapping[str, object] | None]:
        row = self._snapshot.tasks.row
        return [self._details(row[bind.task]) for bind in binds]

    def _details(self, task: int) -> Mapping[str, object] | None:
        """None while somebody who leaves is on a card that has no room for both."""
        if task not in self._held.by_task:
            return {}
        node, place = self._held.by_task[task]
        if self._table.is_overfull(node, place, self._leaving(node)):
            return None
        name = self._snapshot.nodes.records[node].name
        notes = written(place.parts, self._table.cards[node], name, self._view.now_s)
        return {POD_ANNOTATIONS: notes}

    def _leaving(self, node: int) -> list[CardPlace]:
        """What those have there who are asked to go, and have not gone."""
        status, tasks = self._view.ledger.status, self._snapshot.tasks
        leaves = (status == TaskStatus.RELEASING) | (status == TaskStatus.STUCK_IN_RELEASING)
        rows = np.flatnonzero(tasks.live & (tasks.node == node) & leaves)
        found = (self._place_of(task, node) for task in rows.tolist())
        return [place for place in found if place is not None]

    def _enter_placed(self) -> None:
        tasks = self._snapshot.tasks
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_ALLOCATED[tasks.status]
        for task in np.flatnonzero(there).tolist():
            node = int(tasks.node[task])
            if self.counts(node):
                self._held.take(task, node, self._place_of(task, node))

    def _place_of(self, task: int, node: int) -> CardPlace | None:
        """What is written on a placed pod."""
        record = self._snapshot.tasks.records[task]
        if record.terms is None:
            return None
        parts = parts_held(record.terms.notes, self._table.cards[node], record.request)
        return None if parts is None else CardPlace(parts, self._rules_of(task))

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
