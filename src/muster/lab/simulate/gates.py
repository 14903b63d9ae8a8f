"""A virtual loop on which whole processes can be stopped and let go on: one gate for each.

Every task that a replica starts inherits its gate with its context. While the gate is shut none of
its callbacks run; they are kept in order and run when it opens, as after SIGSTOP and SIGCONT. Time
goes on meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from muster.lab.virtual_loop import VirtualLoop


class Gate:
    """What decides whether one process goes on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self._is_shut = False
        self._held: list[_Callback] = []
        self._alarm_at = -1
        self._alarm: Callable[[], None] = lambda: None

    @property
    def is_shut(self) -> bool:
        return self._is_shut

    def shut(self) -> None:
        self._is_shut = True

    def open(self) -> None:
        self._is_shut = False
        held, self._held = self._held, []
        loop = asyncio.get_running_loop()
        for callback in held:
            loop.call_soon(callback.run, context=callback.context)

    def after(self, steps: int, do: Callable[[], None]) -> None:
        """Call `do` when the process has gone on so many times."""
        self._alarm_at, self._alarm = self.steps + steps, do
        if steps == 0:
            self._sound()

    def may_run(self, callback: "_Callback") -> bool:
        """Counts the step; keeps the callback for later where the gate is shut."""
        if self.steps == self._alarm_at:
            self._sound()
        if self._is_shut:
            self._held.append(callback)
            return False
        self.steps += 1
        return True

    def _sound(self) -> None:
        self._alarm_at = -1
        self._alarm()


GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)


class _Callback:
    """A callback of a process, and the handle by which it may be cancelled."""

    __slots__ = ("_args", "_callback", "_gate", "context", "handle")

    def __init__(
        self, gate: Gate, callback: Callable[..., object], args: Any, context: Context | None
    ) -> None:
        self._gate = gate
        self._callback = callback
        self._args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def run(self) -> None:
        if self.handle is not None and self.handle.cancelled():
            return
        if self._gate.may_run(self):
            self._callback(*self._args)


class GatedLoop(VirtualLoop):
    """The loop of a simulation."""

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        gate = GATE.get() if context is None else context.get(GATE)
        if gate is None or isinstance(getattr(callback, "__self__", None), _Callback):
            return super().call_soon(callback, *args, context=context)
        held = _Callback(gate, callback, args, context)
        held.handle = super().call_soon(held.run, context=context)
        return held.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        gate = GATE.get() if context is None else context.get(GATE)
        if gate is None:
            return super().call_at(when, callback, *args, context=context)
        held = _Callback(gate, callback, args, context)
        timer = super().call_at(when, held.run, context=context)
        held.handle = timer
        return timer
