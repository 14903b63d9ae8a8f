"""A stream for log lines that keeps nobody waiting.

Whoever reads our log may stop reading: a pipe that is full, a terminal that is held, a disk that is
slow. Lines wait here, so many and no more, and a thread of their own writes them. What finds no
room, and what cannot be written, is dropped and counted.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

_STDERR: Final = 2
_WAITING_BYTES_MAX: Final = 4 << 20
_DRAIN_S_MAX: Final = 2.0


class LogStreamFull(OSError):
    """There is no room for another line."""


class LogStream:
    """Takes lines for a file descriptor. Only `drained` waits, and not for long."""

    def __init__(
        self,
        descriptor: int = _STDERR,
        waiting_bytes_max: int = _WAITING_BYTES_MAX,
        write: Callable[[int, memoryview], int] = os.write,
    ) -> None:
        self.dropped = 0
        """Lines that were taken and could not be written."""
        self._descriptor = descriptor
        self._bytes_max = waiting_bytes_max
        self._write = write
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._is_writing = False
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Take a line, or raise `LogStreamFull`."""
        line = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._waiting_bytes + len(line) > self._bytes_max:
                raise LogStreamFull("the log is not being read")
            self._lines.append(line)
            self._waiting_bytes += len(line)
            if self._thread is None:
                # A daemon: the process does not wait for it when it ends.
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Nothing is kept back: the thread writes as soon as it can."""

    def drained(self, within_s: float = _DRAIN_S_MAX) -> bool:
        """Wait until all is written, but not longer; whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._lines and not self._is_writing, timeout=within_s
            )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._lines))
                lines = list(self._lines)
                self._lines.clear()
                self._is_writing = True
            self._write_all(lines)

    def _write_all(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[self._write(self._descriptor, rest) :]
            except OSError:
                self.dropped += 1
            # Only now is there room for another: what is being written waits as well.
            with self._changed:
                self._waiting_bytes -= len(line)
