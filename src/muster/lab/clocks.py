"""Clocks that are wrong, as those of machines are."""

from dataclasses import dataclass

from muster.base.clock import Clock


@dataclass(frozen=True, slots=True)
class ClockAhead:
    """A clock that goes as fast as another, and shows another time of day."""

    inner: Clock
    by_s: float

    def now_s(self) -> float:
        return self.inner.now_s() + self.by_s

    def monotonic_s(self) -> float:
        return self.inner.monotonic_s()

    async def sleep(self, delay_s: float) -> None:
        await self.inner.sleep(delay_s)
