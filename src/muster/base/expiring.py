"""A map that never grows beyond a size, and whose entries may end by themselves.

For what is remembered of things that others name: however many there are, what is kept of them is
bounded.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from muster.base.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringMap(Generic[K, V]):
    """Keeps each entry for as long as it was put for; when it is full, the one that was not used
    for longest goes first.
    """

    def __init__(self, clock: Clock, size_max: int) -> None:
        self._clock = clock
        self._size_max = size_max
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        """Until when, and what; those not used for longest come first."""

    def __len__(self) -> int:
        """How many take up room; among them may be some whose time is over."""
        return len(self._kept)

    def __iter__(self) -> Iterator[K]:
        """The keys of those."""
        return iter(self._kept)

    def get(self, key: K) -> V | None:
        self._drop_outdated()
        found = self._kept.get(key)
        if found is None:
            return None
        until_s, value = found
        if self._clock.monotonic_s() >= until_s:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return value

    def put(self, key: K, value: V, for_s: float = float("inf")) -> None:
        self._kept[key] = (self._clock.monotonic_s() + for_s, value)
        self._kept.move_to_end(key)
        self._drop_outdated()

    def pop(self, key: K) -> V | None:
        found = self.get(key)
        self._kept.pop(key, None)
        return found

    def _drop_outdated(self) -> None:
        """What is over does not wait until the map is full: values may be large."""
        now_s = self._clock.monotonic_s()
        while self._kept:
            until_s, _ = next(iter(self._kept.values()))
            if now_s < until_s and len(self._kept) <= self._size_max:
                return
            self._kept.popitem(last=False)
