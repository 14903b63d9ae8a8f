"""What a command says while it works: one line on a terminal, gone when there is an answer."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

AFTER_S: Final = 0.5
_EVERY_S: Final = 0.1
_TURNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_TURNS: Final = "|/-\\"


@dataclass(slots=True)
class Doing:
    """What is being done; whoever works says so as it goes on."""

    what: str


@contextmanager
def busy(what: str, out: TextIO | None = None) -> Iterator[Doing]:
    """Nothing is said of what is quick, nor where nobody looks."""
    doing, over, out = Doing(what), threading.Event(), out or sys.stderr
    if not out.isatty():
        yield doing
        return
    turning = threading.Thread(target=_turn, args=(doing, over, out), daemon=True)
    turning.start()
    try:
        yield doing
    finally:
        over.set()
        turning.join()


def _turn(doing: Doing, over: threading.Event, out: TextIO) -> None:
    if over.wait(AFTER_S):
        return
    turns, at = _turns(out), 0
    while not over.wait(_EVERY_S):
        out.write(f"\r\x1b[2K{turns[at % len(turns)]} {doing.what}")
        out.flush()
        at += 1
    out.write("\r\x1b[2K")
    out.flush()


def _turns(out: TextIO) -> str:
    is_utf8 = (out.encoding or "").lower().replace("-", "") == "utf8"
    return _TURNS if is_utf8 else _PLAIN_TURNS
