"""What placed tasks hold of something that only a plugin counts: zones, cards.

A plugin chooses a place when the ledger gives a task a node, and has it back when the ledger takes
that back; what an evicted task held is remembered, so that it may return to the same.
"""

from typing import Generic, Protocol, TypeVar

from muster.model.ledger import Entries
from muster.model.presence import Turn, moves

Place = TypeVar("Place")


class Keeper(Protocol[Place]):
    """Who counts what is held."""

    def counts(self, node: int) -> bool:
        """Whether the node has anything to hold."""
        ...

    def chosen(self, task: int, node: int) -> Place | None:
        """What the task would get there now; None: nothing that counts."""
        ...

    def charge(self, node: int, place: Place, sign: int) -> None:
        """Count the place as held (1), or as free (-1)."""
        ...


class HeldPlaces(Generic[Place]):
    """By task: its node and what it holds there."""

    def __init__(self, keeper: Keeper[Place]) -> None:
        self._keeper = keeper
        self.by_task: dict[int, tuple[int, Place]] = {}
        self._left: dict[tuple[int, int], list[Place | None]] = {}
        """What evicted tasks held on a node, each time; None where nobody knew."""

    def on_ledger_change(self, entries: Entries) -> None:
        for task, node, turn in moves(entries):
            if not self._keeper.counts(node):
                continue
            if turn is Turn.COMES:
                self.take(task, node, self._keeper.chosen(task, node))
            elif turn is Turn.WITHDRAWN:
                self._give_back(task)
            elif turn is Turn.EVICTED:
                self._left.setdefault((task, node), []).append(self._give_back(task))
            elif turn is Turn.RESTORED:
                self.take(task, node, self._left[task, node][-1])
            else:
                self.take(task, node, self._left[task, node].pop())

    def take(self, task: int, node: int, place: Place | None) -> None:
        if place is not None:
            self.by_task[task] = (node, place)
            self._keeper.charge(node, place, 1)

    def last_left(self, task: int, node: int) -> Place | None:
        """What the task held before it was evicted from the node last, if anybody knew."""
        left = self._left.get((task, node))
        return left[-1] if left else None

    def _give_back(self, task: int) -> Place | None:
        """What it held, if anybody knew."""
        found = self.by_task.pop(task, None)
        if found is None:
            return None
        node, place = found
        self._keeper.charge(node, place, -1)
        return place
