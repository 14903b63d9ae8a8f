"""The least that has to go, where everybody who might go is on one node: exactly, node by node.

Among dozens of candidates not all sets can be looked at. But what a set frees on one node does not
depend on the others, so the least for one, two, ... slots is found on each node by itself, and then
how many slots to take where.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Cost = tuple[int, int]


class Giver(NamedTuple):
    """A job on one node: what it frees, and costs, by how much of it goes; first nothing of it."""

    job: int
    node: int
    freed: Sequence[int]
    cost: Sequence[Cost]


class _Choice(NamedTuple):
    cost: Cost
    taken: tuple[tuple[int, int], ...]
    """Jobs, and how much of each goes."""


_NOTHING = _Choice((0, 0), ())


def least_by_node(
    givers: Iterable[Giver], free: Sequence[int], need: int, wanted: int
) -> tuple[tuple[int, int], ...] | None:
    """Who gives how much so that `wanted` slots of size `need` are free; None: there are not as
    many. `free` is what nodes have.
    """
    by_node: dict[int, list[Giver]] = {}
    for giver in givers:
        by_node.setdefault(giver.node, []).append(giver)
    best = {0: _NOTHING}
    for node, there in enumerate(free):
        slots = _slots(by_node.get(node, ()), there, need, wanted)
        after: dict[int, _Choice] = {}
        for have, choice in best.items():
            for count, more in slots.items():
                _keep(after, min(have + count, wanted), _both(choice, more))
        best = after
    found = best.get(wanted)
    return found.taken if found else None


def _slots(givers: Iterable[Giver], free: int, need: int, wanted: int) -> dict[int, _Choice]:
    """The least for each number of slots on one node."""
    most = wanted * need
    best = {min(max(free, 0), most): _NOTHING}
    for giver in givers:
        after: dict[int, _Choice] = {}
        for have, choice in best.items():
            for count, (freed, cost) in enumerate(zip(giver.freed, giver.cost, strict=True)):
                taken = ((giver.job, count),) if count else ()
                _keep(after, min(have + freed, most), _both(choice, _Choice(cost, taken)))
        best = after
    slots: dict[int, _Choice] = {}
    for have, choice in best.items():
        _keep(slots, have // need, choice)
    return slots


def _both(one: _Choice, other: _Choice) -> _Choice:
    cost = (one.cost[0] + other.cost[0], one.cost[1] + other.cost[1])
    return _Choice(cost, one.taken + other.taken)


def _keep(best: dict[int, _Choice], at: int, choice: _Choice) -> None:
    if at not in best or choice.cost < best[at].cost:
        best[at] = choice
