"""An asyncio event loop whose clock jumps to the next timer.

Nothing under it waits: when no task can go on, time moves to the earliest timer. An hour of cluster
life takes as long as its work takes, and the same program does the same things in the same order.
There are no sockets and no threads under it, because what they do takes time that nobody can jump;
when every task waits for something that no timer will bring, `Stuck` says so instead of hanging.
Nor does work without end hang: turns of the loop are counted (`CountedTurns`).
"""

import asyncio
import heapq
import itertools
import math
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import Context
from pathlib import Path
from typing import Any, Never, TypeVar

from muster.base.offload import Offload, in_thread, inline

T = TypeVar("T")

# 2026-01-01T00:00:00Z: where virtual time begins unless told otherwise.
START_S = 1_767_225_600.0
# Timers fire on whole microseconds, never early. asyncio also fires those that are a nanosecond
# away; whoever then finds that the time has not come sets it anew, and time would stand still.
_GRID_S = 1e-6
_ASYNCIO = Path(asyncio.__file__).parent
_LAST_TURNS = 20
_SHOWN_MAX = 3


class Stuck(RuntimeError):
    """Every task waits and no timer is set: nothing would ever happen again."""

    def __init__(self, where: str) -> None:
        super().__init__(f"every task waits for another and no timer is set. {where}")


class TimeStandsStill(RuntimeError):
    """Work without end: whoever does it would hold up a real process as well."""


class CountedTurns(asyncio.SelectorEventLoop):
    """A loop under which neither a moment nor the whole lasts for ever: its turns are counted.

    A clock on the wall would judge the machine as well.
    """

    turns_in_a_moment_max = 20_000
    """Far more than the start of a whole cluster takes."""
    turns_max = 2_000_000

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._turns = 0
        self._turns_in_all = 0
        self._moment_s = -1.0
        self._busy: dict[str, None] = {}
        """Who had a turn of late, when turns run short."""
        self._main: asyncio.Task[Any] | None = None
        super().__init__(selector)

    def run_until_complete(self, future: Any) -> Any:
        awaited = asyncio.ensure_future(future, loop=self)
        self._main = awaited if isinstance(awaited, asyncio.Task) else None
        return super().run_until_complete(awaited)

    def whereabouts(self) -> str:
        """Where that which is to end has come to."""
        return f"What is to end waits at: {_place(self._main) if self._main else 'no task'}"

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        self._turns_in_all += 1
        if self.time() != self._moment_s:
            self._moment_s, self._turns = self.time(), 0
        self._turns += 1
        left = min(self.turns_in_a_moment_max - self._turns, self.turns_max - self._turns_in_all)
        if left < _LAST_TURNS:
            self._busy.update(dict.fromkeys(map(_place, self._tasks_in_turn())))
        if left < 0:
            self._too_many()

    def _tasks_in_turn(self) -> Iterator[asyncio.Task[Any]]:
        for handle in self._ready:  # type: ignore[attr-defined]
            task = getattr(handle._callback, "__self__", None)
            if isinstance(task, asyncio.Task):
                yield task

    def _too_many(self) -> None:
        what = f"more than {self.turns_in_a_moment_max} turns in one moment"
        if self._turns <= self.turns_in_a_moment_max:
            what = f"more than {self.turns_max} turns in all, {self.time():.0f} s"
        busy = "; ".join(list(self._busy)[:_SHOWN_MAX])
        self._turns = self._turns_in_all = 0  # Whoever cleans up has its turns too.
        self._busy.clear()
        raise TimeStandsStill(f"{what}, busy at: {busy}. {self.whereabouts()}")


class VirtualLoop(CountedTurns):
    """The loop. `time()` is virtual seconds since it was made."""

    def __init__(self) -> None:
        self._virtual_s = 0.0
        self._timers_set = itertools.count()
        self._made = itertools.count()
        super().__init__(_Jump(self._jump, self.whereabouts))
        self.set_task_factory(lambda _, work, **more: _Task(self, next(self._made), work, **more))

    def create_future(self) -> "asyncio.Future[Any]":
        return _Future(self, next(self._made))

    def time(self) -> float:
        return self._virtual_s

    def run_in_executor(self, *_: Any) -> Never:  # type: ignore[override]
        raise RuntimeError("no threads under virtual time: their work takes real time")

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        number = next(self._timers_set)
        timer = _Timer(_on_grid(when), number, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _jump(self, by_s: float) -> None:
        """Move to the next timer, exactly: a sum of floats may fall short of it."""
        wanted_s = self._virtual_s + by_s
        earliest_s = self._scheduled[0].when() if self._scheduled else wanted_s  # type: ignore[attr-defined]
        # asyncio waits at most a day at a time, so a jump may also end before the next timer.
        is_next = abs(earliest_s - wanted_s) < _GRID_S / 2
        self._virtual_s = earliest_s if is_next else wanted_s


class _Future(asyncio.Future[Any]):
    """A future that stands in a set by its number.

    By its address, as asyncio has it, what waits in a set would go on in another order each time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task that stands in a set by its number: a task group cancels its tasks in that order."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, number: int, work: Any, **more: Any
    ) -> None:
        self._number = number
        super().__init__(work, loop=loop, **more)

    def __hash__(self) -> int:
        return self._number


class _Timer(asyncio.TimerHandle):
    """A timer that comes after those that were set before it for the same moment.

    asyncio leaves that to the shape of its heap, which changes with every timer that is dropped,
    and so with the moment when the garbage collector finds somebody who held one.
    """

    def __init__(
        self,
        when_s: float,
        number: int,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when_s, callback, args, loop, context)
        self.number = number

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, _Timer):
            return NotImplemented
        return (self.when(), self.number) < (other.when(), other.number)


def _on_grid(when_s: float) -> float:
    """The first point of the grid that is not before `when_s`."""
    point = math.floor(when_s / _GRID_S)
    while point * _GRID_S < when_s:
        point += 1
    return point * _GRID_S


class LoopClock:
    """A `Clock` that reads the running loop: right under real and under virtual time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_s: float = START_S) -> None:
        self._loop = loop
        self._start_s = start_s

    def now_s(self) -> float:
        return self._start_s + self._loop.time()

    def monotonic_s(self) -> float:
        return self._loop.time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


def offload_here() -> Offload:
    """How to do long work under the running loop: its time does not pass in threads."""
    return inline if isinstance(asyncio.get_running_loop(), VirtualLoop) else in_thread


def run_virtually(main: Callable[[LoopClock], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine under virtual time from start to end; it is given the clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(LoopClock(runner.get_loop())))


def _place(task: asyncio.Task[Any]) -> str:
    """The lines at which a task goes on, the innermost last; asyncio's own tell nothing."""
    lines: list[str] = []
    work: Any = task.get_coro()
    while work is not None:
        frame = getattr(work, "cr_frame", None) or getattr(work, "gi_frame", None)
        if frame is not None and Path(frame.f_code.co_filename).parent != _ASYNCIO:
            file = Path(frame.f_code.co_filename).name
            lines.append(f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})")
        work = getattr(work, "cr_await", None) or getattr(work, "gi_yieldfrom", None)
    return ", ".join(lines[-_SHOWN_MAX:]) or task.get_name()


class _Jump(selectors.BaseSelector):
    """A selector that never waits: being asked to wait moves the clock."""

    def __init__(self, jump: Callable[[float], None], whereabouts: Callable[[], str]) -> None:
        self._jump = jump
        self._whereabouts = whereabouts
        self._keys: dict[int, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck(self._whereabouts())
        if timeout > 0:
            self._jump(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # asyncio registers the pipe by which threads would wake it; it is never read.
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._keys.pop(number)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()
