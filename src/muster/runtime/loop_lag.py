"""How late the event loop is: whatever holds it up holds up renewals, probes and every write."""

from collections import deque
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from muster.base.clock import Clock

_EVERY_S: Final = 0.5
_REMEMBERED: Final = 120
"""Looks: the worst of the last minute is shown, so that no scrape misses it."""


class LoopLag:
    """Sleeps, and sees how much later than asked it wakes."""

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._late_s: deque[float] = deque(maxlen=_REMEMBERED)
        gauge = Gauge(
            "muster_event_loop_lag_seconds",
            "How late the event loop was at worst, within the last minute.",
            registry=registry,
        )
        gauge.set_function(self.worst_s)

    def worst_s(self) -> float:
        return max(self._late_s, default=0.0)

    async def run(self) -> None:
        while True:
            before_s = self._clock.monotonic_s()
            await self._clock.sleep(_EVERY_S)
            self._late_s.append(max(0.0, self._clock.monotonic_s() - before_s - _EVERY_S))
