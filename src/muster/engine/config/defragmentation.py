"""Our `defragmentation`: when work is moved, with nobody waiting, so that free GPUs can be used.

    defragmentation: {every: 1h, mostMoves: 16, window: "22:00-06:00"}

`every` is the pause between two rounds, `mostMoves` the pods that one round may move, `window` the
time of day (UTC) in which rounds begin; without it any.
"""

import re
from dataclasses import dataclass

from muster.engine.config.reader import Reader

NAME = "defragmentation"
"""What moves are called in plans, and by which memory knows when the last round was."""
_EVERY_S, _LEAST_EVERY_S = 3600.0, 60.0
_MOST_MOVES = 16
_MINUTE_S, _DAY_S = 60.0, 86_400.0
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """A schedule and a budget."""

    every_s: float = _EVERY_S
    most_moves: int = _MOST_MOVES
    """Pods that a round may move."""
    window_s: tuple[float, float] | None = None
    """Seconds after midnight UTC at which a round may begin, from and until; None: always."""

    def next_round_s(self, last_s: float) -> float:
        """When the round after one at `last_s` may begin."""
        due_s = last_s + self.every_s
        if self.window_s is None:
            return due_s
        first_s, end_s = self.window_s
        length_s = (end_s - first_s) % _DAY_S
        into_s = (due_s - first_s) % _DAY_S
        return due_s if into_s < length_s else due_s + _DAY_S - into_s

    def may_begin(self, now_s: float, last_s: float) -> bool:
        """Whether a round may begin now, where the last one was at `last_s`."""
        open_s = self.next_round_s(now_s - self.every_s)
        return now_s >= last_s + self.every_s and open_s <= now_s


def defragmentation(reader: Reader) -> Defragmentation | None:
    """What the key says; None: nothing is moved unless somebody waits."""
    if reader.is_absent:
        return None
    reader.allow_only(("every", "mostMoves", "window"))
    every = reader.key("every")
    every_s = every.duration_s(_EVERY_S)
    if every_s < _LEAST_EVERY_S:
        raise every.wrong("must be at least 1m; leave out defragmentation to move nothing")
    most = reader.key("mostMoves")
    most_moves = most.integer(_MOST_MOVES)
    if most_moves < 1:
        raise most.wrong("must be at least 1; leave out defragmentation to move nothing")
    return Defragmentation(every_s, most_moves, _window(reader.key("window")))


def _window(reader: Reader) -> tuple[float, float] | None:
    if reader.is_absent:
        return None
    found = _WINDOW.fullmatch(reader.text())
    if found is None:
        raise reader.wrong(f'"{reader.text()}" is not a time of day such as "22:00-06:00" (UTC)')
    hours = [int(part) for part in found.groups()]
    first_s = (hours[0] * 60 + hours[1]) * _MINUTE_S
    end_s = (hours[2] * 60 + hours[3]) * _MINUTE_S
    if first_s == end_s:
        raise reader.wrong("begins when it ends; leave it out for the whole day")
    return first_s, end_s
