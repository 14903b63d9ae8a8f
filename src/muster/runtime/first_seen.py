"""When objects were first seen here, on our own monotonic clock.

The age of an object by its creation timestamp is a difference between two hosts' clocks, and these
may be minutes apart. What is acted upon after a while is measured from when we first saw it: never
too early, and at most as much too late as we were started after it.
"""

from typing import TypeVar

from muster.base.clock import Clock
from muster.client.informer import Informer
from muster.client.kinds import header

T = TypeVar("T")


class FirstSeen:
    """Follows informers. Remembers as many objects as they hold, and no others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._at_s)

    def follow(self, informer: Informer[T]) -> None:
        informer.add_handler(self._changed)

    def at_s(self, uid: str) -> float:
        """When the object was first seen; now, if it has not been."""
        seen_s = self._at_s.get(uid)
        return self._clock.monotonic_s() if seen_s is None else seen_s

    def _changed(self, old: object | None, new: object | None) -> None:
        # The informer tells of an object made anew under its name as of two.
        if new is None:
            self._at_s.pop(header(old).uid, None)
        elif old is None:
            self._at_s[header(new).uid] = self._clock.monotonic_s()
