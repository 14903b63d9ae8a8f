"""DevicePool: the devices of all resource slices as columns, and which of them a request accepts.

A selector is evaluated once per distinct device as far as the expression can tell devices apart, so
a thousand nodes with equal GPUs cost one evaluation; and only if all of its evaluations together
cost what one claim may cost others. One that costs more selects nothing, and `problem` says so.
Anybody may write a thousand selectors that are within that bound, in one claim: of those that were
not met before, each namespace has so many evaluated in a cycle (`begin`), and the rest is looked at
in later ones (`postpones`).
Devices are in the order of driver, pool,
slice and place in the slice: the order in which they are given out. Axes: D devices, N nodes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from muster.api.bounds import (
    CEL_COST_MAX,
    SELECTING_MAX,
    SELECTING_OF_ALL_MAX,
    SELECTIONS_KEPT_MAX,
    SELECTOR_COST_MAX,
    SELECTOR_COST_PER_DEVICE,
)
from muster.api.cel import BadExpression, EvaluationFailed, Program, compiled
from muster.api.devices import Device, DeviceAttribute, ResourceSlice
from muster.model.claim_needs import ClaimNeed, DeviceNeed, about_selector
from muster.model.constraint_terms import Toleration
from muster.model.from_api import node_selector, taints
from muster.model.node_index import NodeIndex, untolerated
from muster.numerics.arrays import Bools, Ints

_K = TypeVar("_K")
_V = TypeVar("_V")

NOWHERE = -1
CounterKey = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""

_COMPILING, _LOOKING, _EVALUATING = 200, 5, 40
"""What it costs beside the steps of CEL, in those: an expression, to tell a device from others by
it, and to ask it about a device. A step takes up to a microsecond."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MACROS = (".all(", ".exists", ".map(", ".filter(", "size(", ".transform")


@dataclass(frozen=True, slots=True)
class _Selected:
    """What an expression selects, or what is wrong with it: then it selects nothing."""

    mask: Bools
    problem: str = ""


class DeviceId(NamedTuple):
    """What names a device in the cluster."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class _Placed:
    """A device and where it can be used."""

    id: DeviceId
    device: Device
    node: int
    nodes: Bools | None
    """For devices that are not of one node."""


class DevicePool:
    """All devices that may be given out."""

    def __init__(
        self, slices: Iterable[ResourceSlice], rows: Mapping[str, int], index: NodeIndex
    ) -> None:
        found = [placed for part in _current(slices) for placed in _placed(part, rows, index)]
        self.ids: Sequence[DeviceId] = [placed.id for placed in found]
        self.devices: Sequence[Device] = [placed.device for placed in found]
        self.row: Mapping[DeviceId, int] = {placed.id: i for i, placed in enumerate(found)}
        self.node: Ints = np.array([placed.node for placed in found], np.int64)
        self.roaming: Mapping[int, Bools] = {
            i: placed.nodes for i, placed in enumerate(found) if placed.nodes is not None
        }
        self._nodes = len(index)
        self.has_postponed = False
        """Whether some selector was not looked at in this cycle."""
        self._spent: Counter[str] = Counter()
        """In this cycle, by namespace."""
        self._masks: dict[tuple[object, ...], Bools] = {}
        self._selections: dict[str, _Selected] = {}
        self.counters = _counters(slices)

    def __len__(self) -> int:
        return len(self.ids)

    def begin(self) -> None:
        """A cycle begins."""
        self._spent.clear()
        self.has_postponed = False

    def postpones(self, need: ClaimNeed, namespace: str) -> bool:
        """Whether the selectors of a claim have to wait for a later cycle. Those for which there is
        time are evaluated now, so the next one gets further.
        """
        for ask in (ask for alternatives in need.requests for ask in alternatives):
            for expression in ask.selectors:
                if not self._is_known(expression):
                    if self._is_spent(namespace):
                        self.has_postponed = True
                        return True
                    self._selected(expression, namespace)
        return False

    def accepted(self, ask: DeviceNeed) -> Bools:
        """bool[D]: devices that pass the selectors, have the capacity, and whose taints are
        tolerated.
        """
        key = (ask.selectors, ask.tolerations, ask.capacity)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._tolerated(ask.tolerations)
            for expression in ask.selectors:
                mask = mask & self._selected(expression).mask
            for name, nano in ask.capacity:
                mask = mask & self._has_capacity(name, nano)
            _remember(self._masks, key, mask)
        return mask

    def problem(self, need: ClaimNeed) -> str:
        """What is wrong with the selectors of a request none of whose alternatives can be used,
        for these devices; "".
        """
        for alternatives in need.requests:
            problems = [problem for one in alternatives if (problem := self._problem(one))]
            if problems and len(problems) == len(alternatives):
                return problems[0]
        return ""

    def on_node(self, node: int) -> list[int]:
        """Devices that a pod on the node can use, in the order in which they are given out."""
        local = self._by_node.get(node, [])
        if not self.roaming:
            return local
        return sorted([*local, *(d for d, nodes in self.roaming.items() if nodes[node])])

    def nodes_of(self, devices: Iterable[int]) -> Bools:
        """bool[N]: nodes that can use all of these devices."""
        mask = np.ones(self._nodes, np.bool_)
        for device in devices:
            roams = self.roaming.get(device)
            mask &= np.arange(self._nodes) == self.node[device] if roams is None else roams
        return mask

    def attribute(self, device: int, name: str) -> object | None:
        """The value of a fully qualified attribute; None if the device has none."""
        domain, _, bare = name.rpartition("/")
        attributes = self.devices[device].attributes
        found = attributes.get(name)
        if found is None and domain in ("", self.ids[device].driver):
            found = attributes.get(bare)
        return None if found is None else _value(found)

    @cached_property
    def _by_node(self) -> dict[int, list[int]]:
        by_node: dict[int, list[int]] = {}
        for device, node in enumerate(self.node.tolist()):
            if node != NOWHERE:
                by_node.setdefault(node, []).append(device)
        return by_node

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> Bools:
        held = (taints(device.taints) for device in self.devices)
        return np.fromiter((untolerated(each, tolerations) is None for each in held), np.bool_)

    def _has_capacity(self, name: str, nano: int) -> Bools:
        """Devices with so much of a capacity; one that they do not have is none."""
        held = (device.capacity.get(name) for device in self.devices)
        return np.fromiter((one is not None and one.value.nano >= nano for one in held), np.bool_)

    def _problem(self, ask: DeviceNeed) -> str:
        for expression in ask.selectors:
            if problem := self._selected(expression).problem:
                return about_selector(ask, expression, problem)
        return ""

    def _is_known(self, expression: str) -> bool:
        """Whether it was evaluated; then it is one of those that are forgotten last."""
        known = self._selections.pop(expression, None)
        if known is not None:
            self._selections[expression] = known
        return known is not None

    def _is_spent(self, namespace: str) -> bool:
        return (
            self._spent[namespace] >= SELECTING_MAX or self._spent.total() >= SELECTING_OF_ALL_MAX
        )

    def _selected(self, expression: str, namespace: str = "") -> _Selected:
        known = self._selections.get(expression)
        if known is None:
            known = self._evaluated(expression, namespace)
            _remember(self._selections, expression, known)
        return known

    def _evaluated(self, expression: str, namespace: str) -> _Selected:
        """Which devices it selects; one that it cannot be evaluated for is not selected."""
        mask = np.zeros(len(self), np.bool_)
        self._spent[namespace] += _COMPILING + _LOOKING * len(self)
        try:
            program = compiled(expression, ("device",))
        except BadExpression as refused:
            return _Selected(mask, str(refused))
        spent, kinds = 0, self._distinct(expression)
        spent_max = max(SELECTOR_COST_MAX, SELECTOR_COST_PER_DEVICE * len(kinds))
        for rows in kinds.values():
            device = {"device": _as_json(self.ids[rows[0]].driver, self.devices[rows[0]])}
            cost = program.cost(device)
            spent += cost
            self._spent[namespace] += _EVALUATING + cost
            if cost > CEL_COST_MAX or spent > spent_max:
                return _Selected(
                    np.zeros(len(self), np.bool_), _too_costly(cost, len(kinds), spent_max)
                )
            mask[rows] = _holds(program, device)
        return _Selected(mask)

    def _distinct(self, expression: str) -> dict[object, list[int]]:
        """Rows of the devices that the expression cannot tell apart."""
        words = frozenset(_WORD.findall(expression))
        sees_all = any(macro in expression for macro in _MACROS)
        kinds: dict[object, list[int]] = {}
        for row, (name, device) in enumerate(zip(self.ids, self.devices, strict=True)):
            seen = row if sees_all else _seen(name.driver, device, words)
            kinds.setdefault(seen, []).append(row)
        return kinds


def _remember(known: dict[_K, _V], key: _K, value: _V) -> None:
    """As long as there is room: users may ask ever anew. Who came first goes first."""
    while len(known) >= SELECTIONS_KEPT_MAX:
        del known[next(iter(known))]
    known[key] = value


def _too_costly(cost: int, kinds: int, spent_max: int) -> str:
    return (
        f"it may cost {cost} steps for a device, of which there are {kinds} kinds; at most "
        f"{CEL_COST_MAX} are allowed, and {spent_max} in all: use fewer loops, "
        "and build no long texts or lists"
    )


def _current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Slices of the newest generation of each pool; pools that are being rewritten are left out."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for part in slices:
        pools.setdefault((part.spec.driver, part.spec.pool.name), []).append(part)
    current = []
    for _, parts in sorted(pools.items()):
        newest = max(part.spec.pool.generation for part in parts)
        alive = [part for part in parts if part.spec.pool.generation == newest]
        if len(alive) >= alive[0].spec.pool.resource_slice_count:
            current.extend(sorted(alive, key=lambda part: part.metadata.name))
    return current


def _placed(part: ResourceSlice, rows: Mapping[str, int], index: NodeIndex) -> Iterable[_Placed]:
    spec = part.spec
    for device in spec.devices:
        holder = device if spec.per_device_node_selection else spec
        name = DeviceId(spec.driver, spec.pool.name, device.name)
        if holder.node_name:
            if holder.node_name in rows:
                yield _Placed(name, device, rows[holder.node_name], None)
        elif holder.node_selector is not None:
            yield _Placed(
                name, device, NOWHERE, index.matching(node_selector(holder.node_selector))
            )
        elif holder.all_nodes:
            yield _Placed(name, device, NOWHERE, np.ones(len(index), np.bool_))


def _counters(slices: Iterable[ResourceSlice]) -> dict[CounterKey, int]:
    """What devices that are parts of one another share."""
    return {
        (part.spec.driver, part.spec.pool.name, group.name, name): counter.value.value
        for part in _current(slices)
        for group in part.spec.shared_counters
        for name, counter in group.counters.items()
    }


def _seen(driver: str, device: Device, words: frozenset[str]) -> object:
    """What an expression made of these words can tell about the device."""

    def is_named(name: str) -> bool:
        return name.rpartition("/")[2] in words

    return (
        driver,
        tuple(sorted((n, str(a)) for n, a in device.attributes.items() if is_named(n))),
        tuple(sorted((n, str(c.value)) for n, c in device.capacity.items() if is_named(n))),
        device.allow_multiple_allocations,
    )


def _holds(program: Program, device: Mapping[str, object]) -> bool:
    try:
        return program.is_true(device)
    except EvaluationFailed:
        return False


def _as_json(driver: str, device: Device) -> dict[str, object]:
    attributes: dict[str, dict[str, object]] = {driver: {}}
    capacity: dict[str, dict[str, object]] = {driver: {}}
    for name, attribute in device.attributes.items():
        domain, _, bare = name.rpartition("/")
        value = _value(attribute)
        shown = {"semver": value} if attribute.version is not None else value
        attributes.setdefault(domain or driver, {})[bare] = shown
    for name, amount in device.capacity.items():
        domain, _, bare = name.rpartition("/")
        quantity = {"quantity": str(amount.value.nano)}
        capacity.setdefault(domain or driver, {})[bare] = quantity
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _value(attribute: DeviceAttribute) -> object:
    values = (attribute.string, attribute.version, attribute.int, attribute.bool)
    return next((value for value in values if value is not None), None)
