"""Which devices of a node serve some claims together: the structured allocation of Kubernetes.

Requests are served in order, devices tried in the order of the pool, alternatives best first; when
a later request cannot be served, earlier choices are revised. The search is bounded by a number of
steps, not by time, so the same input gives the same devices everywhere; a claim too tangled for it
counts as not servable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muster.api.bounds import SEARCHED_DEVICES_MAX
from muster.model.claim_needs import ClaimNeed, DeviceNeed, SameAttribute
from muster.model.device_pool import CounterKey, DevicePool
from muster.numerics.arrays import Bools

MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Given:
    """One device given to a request of a claim."""

    request: str
    device: int
    is_admin: bool = False


Allocation = tuple[Given, ...]


@dataclass(frozen=True, slots=True)
class _Task:
    """One request of one claim."""

    claim: int
    alternatives: tuple[DeviceNeed, ...]
    constraints: tuple[SameAttribute, ...]


class _TooManySteps(Exception):
    """The search is given up."""


class DeviceSearch:
    """A depth-first search over requests, among the devices of a node that are free.

    `taken` is bool[D] and is only read.
    """

    def __init__(
        self, pool: DevicePool, taken: Bools, spent: dict[CounterKey, int], node: int
    ) -> None:
        self._pool, self._taken, self._devices = pool, taken, pool.on_node(node)
        self._spent = dict(spent) if pool.counters else {}
        self._used: set[int] = set()
        self._chosen: list[tuple[int, Given]] = []
        self._steps = 0

    def allocations(self, needs: Sequence[ClaimNeed]) -> tuple[Allocation, ...] | None:
        """Devices for each claim, or None if they cannot all be served."""
        tasks = [
            _Task(claim, alternatives, need.constraints)
            for claim, need in enumerate(needs)
            for alternatives in need.requests
        ]
        try:
            if not self._serve(tasks, 0):
                return None
        except _TooManySteps:
            return None
        given: list[list[Given]] = [[] for _ in needs]
        for claim, part in self._chosen:
            given[claim].append(part)
        return tuple(tuple(parts) for parts in given)

    def _serve(self, tasks: Sequence[_Task], at: int) -> bool:
        """Serve the requests from position `at` on."""
        if at == len(tasks):
            return True
        for ask in tasks[at].alternatives:
            fitting = [d for d in self._devices if self._may_serve(ask, d)]
            if ask.takes_all:
                everything = [d for d in self._devices if self._pool.accepted(ask)[d]]
                wanted = fitting if fitting == everything and fitting else None
                if wanted is not None and self._give_all(tasks, at, ask, wanted):
                    return True
            elif len(fitting) >= ask.count and self._give(tasks, at, ask, fitting, 0, ask.count):
                return True
        return False

    def _give(
        self,
        tasks: Sequence[_Task],
        at: int,
        ask: DeviceNeed,
        fitting: list[int],
        first: int,
        left: int,
    ) -> bool:
        """Give `left` more devices to the request, from `first` on; then serve what follows."""
        if left == 0:
            return self._serve(tasks, at + 1)
        for position in range(first, len(fitting) - left + 1):
            self._count_step()
            device = fitting[position]
            if not self._agrees(tasks[at], ask, device) or not self._may_serve(ask, device):
                continue
            self._take(tasks[at], ask, device)
            if self._give(tasks, at, ask, fitting, position + 1, left - 1):
                return True
            self._give_back(ask, device)
        return False

    def _give_all(
        self, tasks: Sequence[_Task], at: int, ask: DeviceNeed, wanted: list[int]
    ) -> bool:
        taken = []
        for device in wanted:
            if not self._agrees(tasks[at], ask, device) or not self._may_serve(ask, device):
                break
            self._take(tasks[at], ask, device)
            taken.append(device)
        if len(taken) == len(wanted) and self._serve(tasks, at + 1):
            return True
        for device in reversed(taken):
            self._give_back(ask, device)
        return False

    def _may_serve(self, ask: DeviceNeed, device: int) -> bool:
        if not self._pool.accepted(ask)[device]:
            return False
        if ask.is_admin:
            return True
        if self._taken[device] or device in self._used:
            return False
        return all(
            self._spent.get(key, 0) + amount <= self._pool.counters.get(key, 0)
            for key, amount in consumed(self._pool, device)
        )

    def _agrees(self, task: _Task, ask: DeviceNeed, device: int) -> bool:
        return all(
            self._keeps(constraint, task.claim, device)
            for constraint in task.constraints
            if constraint.concerns(ask.request)
        )

    def _keeps(self, constraint: SameAttribute, claim: int, device: int) -> bool:
        value = self._pool.attribute(device, constraint.attribute)
        if value is None:
            return False
        others = [
            self._pool.attribute(given.device, constraint.attribute)
            for owner, given in self._chosen
            if owner == claim and constraint.concerns(given.request)
        ]
        if constraint.must_differ:
            return value not in others
        return all(other == value for other in others)

    def _take(self, task: _Task, ask: DeviceNeed, device: int) -> None:
        self._chosen.append((task.claim, Given(ask.request, device, ask.is_admin)))
        if not ask.is_admin:
            self._used.add(device)
            for key, amount in consumed(self._pool, device):
                self._spent[key] = self._spent.get(key, 0) + amount

    def _give_back(self, ask: DeviceNeed, device: int) -> None:
        self._chosen.pop()
        if not ask.is_admin:
            self._used.discard(device)
            for key, amount in consumed(self._pool, device):
                self._spent[key] -= amount

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS or len(self._chosen) > SEARCHED_DEVICES_MAX:
            raise _TooManySteps


def consumed(pool: DevicePool, device: int) -> Iterator[tuple[CounterKey, int]]:
    """What the device takes of counters that it shares with others."""
    name = pool.ids[device]
    for consumption in pool.devices[device].consumes_counters:
        for counter, amount in consumption.counters.items():
            key = (name.driver, name.pool, consumption.counter_set, counter)
            yield key, amount.value.value


def simple_counts(pool: DevicePool, need: ClaimNeed) -> tuple[DeviceNeed, ...] | None:
    """The asks of a claim that is served by counting free devices; None if it takes a search.

    Counting is exact when each request has one form, wants a number of devices, nothing binds the
    devices to each other, and no two requests compete for the same device.
    """
    if need.constraints or pool.counters or pool.roaming:
        return None
    asks = tuple(alternatives[0] for alternatives in need.requests if len(alternatives) == 1)
    if len(asks) < len(need.requests) or any(ask.takes_all or ask.is_admin for ask in asks):
        return None
    if sum(ask.count for ask in asks) > SEARCHED_DEVICES_MAX:
        return None
    masks = [pool.accepted(ask) for ask in asks]
    overlap = np.sum(masks, axis=0) > 1 if len(masks) > 1 else np.zeros(len(pool), np.bool_)
    return None if overlap.any() else asks
