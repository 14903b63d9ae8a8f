"""An event loop whose clock jumps to the next timer, so that tests of waiting take no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from muster.lab.virtual_loop import CountedTurns, Stuck

T = TypeVar("T")


class LoopClock:
    """The running loop's time as a `Clock`."""

    def __init__(self, start_s: float = 1_700_000_000.0) -> None:
        self._start_s = start_s

    def now_s(self) -> float:
        return self._start_s + self.monotonic_s()

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


class SetClock(LoopClock):
    """A clock on the wall that somebody sets while it runs; the steady one goes on."""

    set_by_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.set_by_s


def virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time. Waiting for what never comes is an error, not a hang, and so
    is work that does not end.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)


class _VirtualLoop(CountedTurns):
    turns_max = 200_000
    """Five times what the longest of our tests takes."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector(self.whereabouts)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, whereabouts: Callable[[], str]) -> None:
        super().__init__()
        self.now_s = 0.0
        self._whereabouts = whereabouts

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise Stuck(self._whereabouts())
        self.now_s += max(timeout, 0.0)
        return ready
