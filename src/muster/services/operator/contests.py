"""Objects that somebody else changes back whenever we set them right: how soon we do so again.

Two that never agree would write as fast as they can. Whoever changes an object once has it set
right at once; who goes on is left more and more time, and the condition says so.
"""

from dataclasses import dataclass, field
from typing import Final

from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.services.operator.objects import Json, ObjectId, Wanted

_PAUSE: Final = Backoff(first_s=1.0, longest_s=60.0)
_FORGOTTEN_S: Final = 600.0
"""Who has left an object alone for so long has given in."""


@dataclass(frozen=True, slots=True)
class _Set:
    body: Json
    at_s: float
    times: int


@dataclass(frozen=True, slots=True)
class Contests:
    _clock: Clock
    _last: dict[ObjectId, _Set] = field(default_factory=dict)

    def wait_s(self, want: Wanted) -> float:
        """How long to leave the object as somebody else made it; 0 where nobody does."""
        last = self._last_of(want)
        if last is None:
            return 0.0
        return max(0.0, last.at_s + _PAUSE.delay_s(last.times) - self._clock.monotonic_s())

    def was_set(self, want: Wanted) -> None:
        last = self._last_of(want)
        times = 0 if last is None else last.times + 1
        self._last[want.id] = _Set(want.body, self._clock.monotonic_s(), times)

    def _last_of(self, want: Wanted) -> _Set | None:
        """When it was last set to what is wanted now: what we want ourselves is no contest."""
        last = self._last.get(want.id)
        is_old = last is None or self._clock.monotonic_s() - last.at_s > _FORGOTTEN_S
        return None if is_old or last is None or last.body != want.body else last
