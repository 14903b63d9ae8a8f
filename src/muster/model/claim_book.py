"""ClaimBook: which claim holds which devices, through a cycle, with exact undo.

A claim that nobody holds yet is given devices when the first task that uses it is placed, and gives
them back when the last one leaves; a task whose eviction is taken back has the same devices again.
Counts of free devices per node follow, so that the common question is answered for all nodes
at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from muster.api.devices import AllocationResult, ResourceClaim
from muster.model.claim_needs import ClaimNeed, DeviceNeed
from muster.model.device_allocator import Allocation, DeviceSearch, Given, consumed, simple_counts
from muster.model.device_pool import NOWHERE, CounterKey, DeviceId, DevicePool
from muster.model.from_api import node_selector
from muster.model.node_index import NodeIndex
from muster.model.presence import Turn
from muster.numerics.arrays import Bools, Ints, Rows

MOST_CONSUMERS = 256


@dataclass(slots=True)
class _Held:
    """The state of one claim."""

    allocation: Allocation | None = None
    nodes: Bools | None = None
    """Where it can be used once it is allocated."""
    consumers: set[str] = field(default_factory=set)
    is_of_group: bool = False
    """Held by a PodGroup, however many pods of it come: it has one consumer, which stays when the
    pods leave."""
    left: list["_Left"] = field(default_factory=list)
    """What it held when its last consumer was evicted, each time."""


class _Left(NamedTuple):
    consumer: str
    allocation: Allocation
    nodes: Bools | None


class ClaimBook:
    """Claims and devices of one cycle. Axes: D devices, N nodes."""

    def __init__(self, pool: DevicePool, index: NodeIndex) -> None:
        self.pool = pool
        self._index = index
        self._taken: Bools = np.zeros(len(pool), np.bool_)
        self._spent: dict[CounterKey, int] = {}
        self._held: dict[str, _Held] = {}
        self._free: dict[tuple[object, ...], tuple[Bools, Ints]] = {}
        self._version: Ints = np.zeros(len(index), np.int64)
        self._searched: dict[tuple[tuple[ClaimNeed, ...], int], tuple[int, bool]] = {}

    def open(self, claims: Mapping[str, ResourceClaim]) -> None:
        """Enter what claims hold when the cycle begins."""
        for key in sorted(claims):
            status = claims[key].status
            held = self._held.setdefault(key, _Held())
            held.consumers = {consumer.uid for consumer in status.reserved_for}
            held.is_of_group = claims[key].pod_group is not None or any(
                consumer.is_pod_group for consumer in status.reserved_for
            )
            if status.allocation is not None:
                self._allocate(held, self._known(status.allocation))
                held.nodes = self._where(status.allocation, held.nodes)

    def enter(self, key: str, consumer: str, allocation: AllocationResult) -> None:
        """Devices that were decided for a claim which does not show them yet."""
        held = self._held.setdefault(key, _Held())
        held.consumers.add(consumer)
        known = self._known(allocation)
        if held.allocation is None and self._is_free(known):
            self._allocate(held, known)
            held.nodes = self._where(allocation, held.nodes)

    def usable(self, key: str) -> Bools | None:
        """bool[N]: where an allocated claim can be used; None if it is not allocated."""
        held = self._held.get(key)
        return None if held is None or held.allocation is None else held.nodes

    def is_full(self, key: str) -> bool:
        """Whether the claim has as many consumers as it may have."""
        held = self._held.get(key)
        if held is None or held.is_of_group:
            return False
        return len(held.consumers) >= MOST_CONSUMERS

    def servable(self, needs: Sequence[ClaimNeed], rows: Rows) -> Bools:
        """bool[len(rows)]: nodes whose free devices serve all these claims together."""
        together = ClaimNeed(
            tuple(request for need in needs for request in need.requests),
            tuple(constraint for need in needs for constraint in need.constraints),
        )
        asks = simple_counts(self.pool, together)
        if asks is not None:
            return self._have_enough(asks, rows)
        searched = np.zeros(len(rows), np.bool_)
        for position in np.flatnonzero(self._may_have_enough(together, rows)).tolist():
            searched[position] = self._search(tuple(needs), int(rows[position]))
        return searched

    def exist(self, need: ClaimNeed, rows: Rows) -> Bools:
        """bool[len(rows)]: nodes with enough devices for each request alone, whoever holds them."""
        found = np.ones(len(rows), np.bool_)
        if self.pool.roaming:
            return found
        for alternatives in need.requests:
            some = np.zeros(len(rows), np.bool_)
            for ask in alternatives:
                there = self.pool.node[self.pool.accepted(ask) & (self.pool.node != NOWHERE)]
                counts = np.bincount(there, minlength=len(self._index))
                some |= counts[rows] >= _least(ask)
            found &= some
        return found

    def post(self, turn: Turn, consumer: str, node: int, needs: Mapping[str, ClaimNeed]) -> None:
        """What happens to a task that uses these claims on a node."""
        if turn is Turn.COMES:
            self.join(consumer, node, needs)
        elif turn in (Turn.RESTORED, Turn.NOT_EVICTED):
            self._return(consumer, needs, for_good=turn is Turn.NOT_EVICTED)
        else:
            self.leave(consumer, needs, may_return=turn is Turn.EVICTED)

    def can_return(self, keys: Iterable[str]) -> bool:
        """Whether an evicted task with these claims would have the devices again that it left."""
        for held in (self._held[key] for key in keys if key in self._held):
            if not held.left:
                continue
            before = held.left[-1].allocation
            is_there = before == held.allocation
            if not is_there and (held.allocation is not None or not self._is_free(before)):
                return False
        return True

    def join(self, consumer: str, node: int, needs: Mapping[str, ClaimNeed]) -> None:
        """A task that uses these claims is placed on a node."""
        fresh = []
        for key in needs:
            held = self._held.setdefault(key, _Held())
            if held.allocation is None:
                fresh.append(key)
            held.consumers.add(consumer)
        found = self._allocations(node, [needs[key] for key in fresh])
        for key, allocation in zip(fresh, found or (), strict=False):
            self._allocate(self._held[key], allocation)

    def leave(self, consumer: str, keys: Iterable[str], may_return: bool = False) -> None:
        """The task leaves, or was never placed."""
        for key in keys:
            held = self._held.setdefault(key, _Held())
            held.consumers.discard(consumer)
            if not held.consumers and held.allocation is not None:
                if may_return:
                    held.left.append(_Left(consumer, held.allocation, held.nodes))
                self._change(held.allocation, taken=False)
                held.allocation, held.nodes = None, None

    def _return(self, consumer: str, keys: Iterable[str], for_good: bool) -> None:
        """To what was left; `for_good`, as if it had never been."""
        for key in keys:
            held = self._held.setdefault(key, _Held())
            held.consumers.add(consumer)
            if held.allocation is not None or not held.left:
                continue
            left = held.left[-1]
            if for_good and left.consumer == consumer:
                held.left.pop()
            self._allocate(held, left.allocation)
            held.nodes = left.nodes

    def allocation(self, key: str) -> Allocation:
        """The devices that a claim holds now."""
        held = self._held.get(key)
        return () if held is None or held.allocation is None else held.allocation

    def _allocate(self, held: _Held, allocation: Allocation) -> None:
        held.allocation = allocation
        held.nodes = self.pool.nodes_of(given.device for given in allocation)
        self._change(allocation, taken=True)

    def _change(self, allocation: Allocation, taken: bool) -> None:
        """Take devices or give them back, in every count that includes them."""
        sign = 1 if taken else -1
        for given in allocation:
            if given.is_admin:
                continue
            device, node = given.device, int(self.pool.node[given.device])
            self._taken[device] = taken
            for key, amount in consumed(self.pool, device):
                self._spent[key] = self._spent.get(key, 0) + sign * amount
            if node == NOWHERE:
                self._version += 1
                continue
            self._version[node] += 1
            for accepted, counts in self._free.values():
                counts[node] -= sign * int(accepted[device])

    def _is_free(self, allocation: Allocation) -> bool:
        return not any(self._taken[given.device] for given in allocation if not given.is_admin)

    def _known(self, allocation: AllocationResult) -> Allocation:
        """Devices of a recorded allocation, as far as their slices still exist."""
        found = []
        for result in allocation.devices.results:
            device = self.pool.row.get(DeviceId(result.driver, result.pool, result.device))
            if device is not None:
                found.append(Given(result.request, device, bool(result.admin_access)))
        return tuple(found)

    def _where(self, allocation: AllocationResult, nodes: Bools | None) -> Bools | None:
        if allocation.node_selector is None:
            return nodes
        selected = self._index.matching(node_selector(allocation.node_selector))
        return selected if nodes is None else nodes & selected

    def _have_enough(self, asks: Sequence[DeviceNeed], rows: Rows) -> Bools:
        enough = np.ones(len(rows), np.bool_)
        for ask in asks:
            enough &= self._free_counts(ask)[rows] >= ask.count
        return enough

    def _may_have_enough(self, need: ClaimNeed, rows: Rows) -> Bools:
        """A bound: every request alone finds enough devices, roaming ones always."""
        possible = np.ones(len(rows), np.bool_)
        if self.pool.roaming:
            return possible
        for alternatives in need.requests:
            some = np.zeros(len(rows), np.bool_)
            for ask in alternatives:
                some |= self._free_counts(ask)[rows] >= (0 if ask.is_admin else _least(ask))
            possible &= some
        return possible

    def _free_counts(self, ask: DeviceNeed) -> Ints:
        """int64[N]: free devices of each node that the request accepts."""
        key = (ask.selectors, ask.tolerations)
        known = self._free.get(key)
        if known is None:
            accepted = self.pool.accepted(ask)
            free = accepted & ~self._taken & (self.pool.node != NOWHERE)
            counts = np.bincount(self.pool.node[free], minlength=len(self._index))
            known = self._free[key] = (accepted, counts.astype(np.int64))
        return known[1]

    def _search(self, needs: tuple[ClaimNeed, ...], node: int) -> bool:
        version, key = int(self._version[node]), (needs, node)
        known = self._searched.get(key)
        if known is None or known[0] != version:
            known = self._searched[key] = (version, self._allocations(node, needs) is not None)
        return known[1]

    def _allocations(self, node: int, needs: Sequence[ClaimNeed]) -> tuple[Allocation, ...] | None:
        return DeviceSearch(self.pool, self._taken, self._spent, node).allocations(needs)


def _least(ask: DeviceNeed) -> int:
    """How many devices there must be for it."""
    return 1 if ask.takes_all else ask.count
