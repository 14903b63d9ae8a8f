"""What a command says while it works: one line on a terminal, gone when there is an answer.

After half a second what it does; after three how far it is, with a bar and counts.
"""

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

AFTER_S: Final = 0.5
BAR_AFTER_S: Final = 3.0
_BAR: Final = 20
_EVERY_S: Final = 0.1
_TURNS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_TURNS: Final = "|/-\\"


@dataclass(slots=True)
class Doing:
    """What is being done; whoever works says so as it goes on."""

    what: str
    done: int = 0
    of: int = 0
    """0: nobody knows how much there is."""


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
        far = _far(doing, _BAR) if at * _EVERY_S >= BAR_AFTER_S - AFTER_S else ""
        width = shutil.get_terminal_size().columns - 1
        out.write(f"\r\x1b[2K{f'{turns[at % len(turns)]} {doing.what}{far}'[:width]}")
        out.flush()
        at += 1
    out.write("\r\x1b[2K")
    out.flush()


def _far(doing: Doing, width: int) -> str:
    """ " 84,000 of 140,000 [######....]", where it is known of how many."""
    if not doing.of:
        return ""
    full = min(width, width * doing.done // doing.of)
    return f" {doing.done:,} of {doing.of:,} [{'#' * full}{'.' * (width - full)}]"


def _turns(out: TextIO) -> str:
    is_utf8 = (out.encoding or "").lower().replace("-", "") == "utf8"
    return _TURNS if is_utf8 else _PLAIN_TURNS
