"""A value made of files, made again when they change.

A change that cannot be used (a file half written, a key without its certificate) leaves the last
good value in force, and is said once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from muster.base.clock import Clock

T = TypeVar("T")


class Reloaded(Generic[T]):
    """What `load` gives, anew whenever the `fingerprint` of its files is another one.

    The fingerprint may depend on the value in force, which may say what files it is made of; it
    does not raise. The first load must succeed: what it raises is the caller's.
    """

    def __init__(
        self,
        fingerprint: Callable[[T], object],
        load: Callable[[], T],
        clock: Clock,
        every_s: float,
        on_bad: Callable[[Exception], None],
        on_new: Callable[[T], None] = lambda _: None,
    ) -> None:
        """`every_s`: the files are looked at no more often."""
        self._fingerprint = fingerprint
        self._load = load
        self._clock = clock
        self._every_s = every_s
        self._on_bad = on_bad
        self._on_new = on_new
        self._value, self._seen = self._loaded()
        self._looked_s = clock.monotonic_s()

    def current(self) -> T:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= self._every_s:
            self._looked_s = now_s
            self._look()
        return self._value

    def _look(self) -> None:
        seen = self._fingerprint(self._value)
        if seen == self._seen:
            return
        # Also when it is no good: what is said once need not be said at every look.
        self._seen = seen
        try:
            self._value, self._seen = self._loaded()
        except Exception as problem:  # noqa: BLE001 - whatever it is, the last good one is there
            self._on_bad(problem)
        else:
            self._on_new(self._value)

    def _loaded(self) -> tuple[T, object]:
        """Loaded after its files were looked at: what changes meanwhile is seen the next time."""
        seen = self._fingerprint(self._load())
        return self._load(), seen
