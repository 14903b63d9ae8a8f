"""Nodes that have just come to our pool from another.

Until its scheduler has heard of that too, and we of all that it decided for them, nobody knows how
much of them is free: they are ours when they have been in our pool for a while.
"""

from typing import Final

from muster.base.clock import Clock

SETTLED_AFTER_S: Final = 5.0
"""How far one scheduler's watch of nodes, and another's of bind requests, may lag behind."""
_A_MOMENT_S: Final = 1e-3


class Arrivals:
    """By name of the node, until when it is none of ours yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[str, float] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._until_s

    def came(self, node: str) -> None:
        self._until_s[node] = self._clock.monotonic_s() + SETTLED_AFTER_S

    def left(self, node: str) -> None:
        self._until_s.pop(node, None)

    def settled(self) -> list[str]:
        """Those that are ours from now on; each is told once."""
        now_s = self._clock.monotonic_s()
        found = [node for node, until_s in self._until_s.items() if until_s <= now_s]
        for node in found:
            del self._until_s[node]
        return found

    def next_end_s(self) -> float | None:
        """When the next of them is ours, on the clock on the wall."""
        end_s = min(self._until_s.values(), default=None)
        if end_s is None:
            return None
        return self._clock.now_s() + end_s - self._clock.monotonic_s() + _A_MOMENT_S
