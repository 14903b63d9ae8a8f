"""Time enters here and nowhere else.

Code that needs the time takes a `Clock`. Production hands in `SystemClock`, tests and simulations a
`VirtualClock` that moves only when told, so that the same run gives the same result.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the time is, and how to wait for a later one."""

    def now_s(self) -> float:
        """Seconds since 1970, UTC: for timestamps that others will read."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment: for durations and deadlines.

        They also pass while the machine is suspended: a lease runs out meanwhile.
        """
        ...

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.clock_gettime(_CLOCK)

    async def sleep(self, delay_s: float) -> None:
        import asyncio  # here: a command that only asks what time it is loads half as much

        await asyncio.sleep(delay_s)


# Linux's monotonic clock stands still while the machine is suspended, its boot time does not. Where
# there is no such clock (macOS), the one that POSIX calls monotonic counts on.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class VirtualClock:
    """A clock that stands still until `advance` moves it.

    `sleep` goes through the running event loop, so under a virtual event loop (see `muster.lab`)
    sleeping costs nothing and still wakes sleepers in order.
    """

    def __init__(self, start_s: float = 1_700_000_000.0) -> None:
        self._start_s = start_s
        self._elapsed_s = 0.0

    def now_s(self) -> float:
        return self._start_s + self._elapsed_s

    def monotonic_s(self) -> float:
        return self._elapsed_s

    def advance(self, by_s: float) -> None:
        if by_s < 0:
            raise ValueError(f"time does not run backwards: {by_s} s")
        self._elapsed_s += by_s

    async def sleep(self, delay_s: float) -> None:
        import asyncio

        self.advance(delay_s)
        await asyncio.sleep(0)
