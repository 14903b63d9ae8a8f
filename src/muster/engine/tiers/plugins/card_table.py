"""Cards of all nodes as arrays: what is free of each, and where a pod would go.

Axes: N nodes, C the cards of the node that has most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.model.cards import Card, Part, Parts
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_WHOLE = 100
BINPACK, SPREAD = "binpack", "spread"


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks for: parts of so many cards."""

    cards: int
    memory_mib: int
    """0: all of a card."""
    cores: int = 0


@dataclass(frozen=True, slots=True)
class CardPlace:
    """What a pod has of a node's cards, and the rules that keep others of its kind from them."""

    parts: Parts
    rules: tuple[int, ...] = ()

    @property
    def cards(self) -> set[int]:
        return {part.card for container in self.parts for part in container}


@dataclass(frozen=True, slots=True)
class Fit:
    """Where a pod would go on some nodes."""

    is_feasible: Bools  # [M]
    chosen: list[Bools]  # [M, C] by ask
    score: Floats  # [M], 0 to 1


class CardTable:
    """What is held of every card."""

    def __init__(self, cards: Sequence[Sequence[Card]], policy: str, rules: int = 0) -> None:
        """`rules`: how many kinds of pods there are of which two never share a card."""
        self.cards, self._policy = cards, policy
        shape = (len(cards), max((len(each) for each in cards), default=0))
        self._memory: Ints = np.zeros(shape, np.int64)
        self._slots: Ints = np.zeros(shape, np.int64)
        for row, found in enumerate(cards):
            for at, card in enumerate(found):
                self._memory[row, at] = card.memory_mib
                self._slots[row, at] = card.slots
        self._held: Ints = np.zeros((3, *shape), np.int64)
        """Memory, cores, pods."""
        self._ruled: Ints = np.zeros((rules, *shape), np.int64)
        """Pods of each rule."""

    def charge(self, node: int, place: CardPlace, sign: int) -> None:
        """Count the parts as held (1), or as free again (-1)."""
        for container in place.parts:
            for part in container:
                amounts = (part.memory_mib, part.cores, 1)
                self._held[:, node, part.card] += np.array(amounts, np.int64) * sign
                self._ruled[list(place.rules), node, part.card] += sign

    def is_overfull(self, node: int, place: CardPlace, besides: Sequence[CardPlace]) -> bool:
        """Whether a card of the place would have too much on it with `besides` there too, or two
        pods of one rule.
        """
        if not besides:
            return False
        mine = place.cards
        for each in besides:
            if mine & each.cards and not set(place.rules).isdisjoint(each.rules):
                return True
        there = self._held[:, node].copy()
        for part in (part for each in besides for container in each.parts for part in container):
            if part.card in mine:
                there[:, part.card] += (part.memory_mib, part.cores, 1)
        most = np.stack((self._memory[node], np.full_like(there[1], _WHOLE), self._slots[node]))
        return bool((there > most)[:, sorted(mine)].any())

    def place(self, asks: Sequence[Ask], node: int, rules: tuple[int, ...]) -> CardPlace | None:
        """What a pod would get on a node; None where it does not fit."""
        fit = self.fit(asks, np.array([node], np.int64), rules)
        if not fit.is_feasible[0]:
            return None
        parts = tuple(
            tuple(
                Part(at, ask.memory_mib or int(self._memory[node, at]), ask.cores)
                for at in np.flatnonzero(chosen[0])[::-1].tolist()
            )
            for ask, chosen in zip(asks, fit.chosen, strict=True)
        )
        return CardPlace(parts, rules)

    def fit(self, asks: Sequence[Ask], rows: Rows, rules: Sequence[int] = ()) -> Fit:
        """Container by container, each on the best cards that those before it leave, and none that
        a pod of one of the rules has.
        """
        memory, slots, held = self._memory[rows], self._slots[rows], self._held[:, rows].copy()
        is_open = (self._ruled[list(rules)][:, rows] == 0).all(axis=0)
        feasible, chosen, score = np.ones(len(rows), np.bool_), [], np.zeros(len(rows))
        for ask in asks:
            wanted = np.where(ask.memory_mib, ask.memory_mib, memory)
            takes = _takes(ask, wanted, memory, slots, held) & is_open
            feasible &= takes.sum(axis=1) >= ask.cards
            mine = self._best(takes, held[0], ask.cards)
            score += np.where(mine, self._worth(held, wanted, memory), 0.0).sum(axis=1)
            held += mine * np.stack((wanted, np.full_like(wanted, ask.cores), np.ones_like(wanted)))
            chosen.append(mine)
        count = max(sum(ask.cards for ask in asks), 1)
        return Fit(feasible, chosen, np.where(feasible, score / count, 0.0))

    def _best(self, takes: Bools, used: Ints, count: int) -> Bools:
        """Up to `count` of the cards that take it: the fullest, the emptiest, or the last."""
        width = takes.shape[1]
        last_first = np.broadcast_to(np.arange(width)[::-1], takes.shape)
        by_use = {BINPACK: -used, SPREAD: used}.get(self._policy, np.zeros_like(used))
        order = np.lexsort((last_first, by_use, ~takes), axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(width)[np.newaxis, :], axis=1)
        best: Bools = takes & (rank < count)
        return best

    def _worth(self, held: Ints, wanted: Ints, memory: Ints) -> Floats:
        """How good each card is for it: fuller afterwards, or empty before."""
        if self._policy == BINPACK:
            return np.asarray((held[0] + wanted) / np.maximum(memory, 1))
        return np.asarray((held[2] == 0) & (self._policy == SPREAD), dtype=np.float64)


def _takes(ask: Ask, wanted: Ints, memory: Ints, slots: Ints, held: Ints) -> Bools:
    used_memory, used_cores, pods = held
    takes: Bools = (
        (slots > pods)
        & (memory - used_memory >= wanted)
        & (used_cores + ask.cores <= _WHOLE)
        & ((ask.cores < _WHOLE) | (pods == 0))
        & ((ask.cores > 0) | (used_cores < _WHOLE))
    )
    return takes
