"""Work that lasts long, by whom it waits for: it goes on without a worker, and only so much of it.

Webhooks are asked about some namespaces and not about others, and each may take half a minute for
every write. Workers that waited for one namespace's would be missing to all others.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from muster.api.meta import Key

K = TypeVar("K", bound=Hashable)

LONG_AT_ONCE: Final = 8
"""Such works of one lane; its other keys wait for one of them to end."""


class Lanes(Generic[K]):
    """Counts works that last long, and holds the keys that have to wait for them."""

    def __init__(self, lane_of: Callable[[K], str]) -> None:
        self.lane_of = lane_of
        """Whom the work on a key waits for; empty: nobody of its own, so it keeps its worker."""
        self._long: set[K] = set()
        self._counts: Counter[str] = Counter()
        self._held: dict[str, dict[K, None]] = {}

    @property
    def long(self) -> int:
        """Works that go on without a worker."""
        return len(self._long)

    @property
    def held(self) -> int:
        """Keys that wait because their lane has enough of such works."""
        return sum(map(len, self._held.values()))

    def may_begin(self, key: K) -> bool:
        """Else the key is held until `ended` returns it."""
        lane = self.lane_of(key)
        if self._counts[lane] < LONG_AT_ONCE:
            return True
        self._held.setdefault(lane, {})[key] = None
        return False

    def lasts_long(self, key: K) -> None:
        """Its work has begun `client.limits.LONG_S` ago."""
        self._long.add(key)
        self._counts[self.lane_of(key)] += 1

    def ended(self, key: K) -> Sequence[K]:
        """Its work has ended. Returns the keys that may be tried again."""
        if key not in self._long:
            return ()
        lane = self.lane_of(key)
        self._long.remove(key)
        self._counts[lane] -= 1
        if not self._counts[lane]:
            del self._counts[lane]
        return tuple(self._held.pop(lane, ()))


def namespace_of(key: object) -> str:
    """The lane of keys of objects."""
    return key.namespace if isinstance(key, Key) else ""
