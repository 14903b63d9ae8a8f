"""What is watched: rows that stay where they are, and a screen that is drawn over in place."""

import re
import select
import sys
import termios
import tty
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from muster.cli.following import News
from muster.cli.tables import Row, cut, field_of

GONE_S: Final = 10.0
"""How long a row that ended stays, dimmed."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_COLOUR: Final = re.compile(r"\x1b\[\d*m")
_GONE: Final = " (gone)"


@dataclass(slots=True)
class Places:
    """Rows by name, in the order in which they were first seen."""

    name: str
    _rows: dict[str, Row] = field(default_factory=dict, init=False)
    _gone_s: dict[str, float] = field(default_factory=dict, init=False)

    def arrange(self, rows: Iterable[Row], now_s: float) -> list[tuple[Row, bool]]:
        """Each with whether it is gone. New rows come last, those long gone are left out."""
        new = {str(field_of(row, self.name)): row for row in rows}
        for name in self._rows.keys() - new.keys():
            self._gone_s.setdefault(name, now_s)
        for name in new:
            self._gone_s.pop(name, None)
        for name, at_s in list(self._gone_s.items()):
            if now_s - at_s >= GONE_S:
                del self._gone_s[name], self._rows[name]
        self._rows.update(new)
        return [(row, name in self._gone_s) for name, row in self._rows.items()]


@dataclass(slots=True)
class Screen:
    """Draws over what it drew before, and never more than fits."""

    height: int
    width: int = 0
    """0: of any."""
    colours: bool = True
    _drawn: int = field(default=0, init=False)

    def draw(self, lines: Sequence[str], dimmed: frozenset[int] = frozenset()) -> None:
        """`dimmed`: the numbers of lines that are about what is gone."""
        room = max(self.height - 1, 2)
        shown = [self._gone(line) if at in dimmed else line for at, line in enumerate(lines)]
        ends = list(accumulate(map(self._rows, shown)))
        if ends and ends[-1] > room:
            fit = bisect_right(ends, room - 1)
            shown = [*shown[:fit], f"{len(lines) - fit} more rows do not fit"]
        back = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        text = "".join(f"\x1b[2K{line}{self._rest(line)}\n" for line in shown)
        sys.stdout.write(f"{back}{text}\x1b[J")
        sys.stdout.flush()
        self._drawn = sum(map(self._rows, shown))

    def _rows(self, line: str) -> int:
        """Of the terminal, which breaks what is wider."""
        return max(-(-self._length(line) // self.width), 1) if self.width else 1

    def _rest(self, line: str) -> str:
        """What clears the last of several rows behind the line; a full one has nothing behind."""
        is_full = self._length(line) % (self.width or 1) == 0
        return "" if self._rows(line) == 1 or is_full else "\x1b[K"

    def _length(self, line: str) -> int:
        return len(_COLOUR.sub("", line))

    def _gone(self, line: str) -> str:
        """Said by a word too: not everybody sees, or wants, what is dimmed."""
        room = self.width - len(_GONE) if self.width else 0
        line = f"{cut(_COLOUR.sub('', line), room)}{_GONE}"
        return f"{_DIM}{line}{_PLAIN}" if self.colours else line


def wait_or_quit(seconds: float, news: News | None = None) -> bool:
    """Until then, or news. Whether q was pressed: keys are read as they are pressed."""
    heard = [] if news is None else [news]
    if not sys.stdin.isatty():
        _ready(seconds, heard)
        return False
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        is_typed = sys.stdin in _ready(seconds, [sys.stdin, *heard])
        return is_typed and sys.stdin.read(1) in ("q", "Q")
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _ready(seconds: float, waits: Sequence[Any]) -> Sequence[Any]:
    ready, _, _ = select.select(waits, [], [], seconds)
    for one in ready:
        if isinstance(one, News):
            one.take()
    return ready
