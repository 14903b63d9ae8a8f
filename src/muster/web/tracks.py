"""How queues stood since this process began: share, what they held and asked for, in GPUs.

The usage store keeps what was held, for weeks; shares and demand are nowhere else. What is kept is
bounded: the longer it gets, the coarser it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.web.shapes import Queue
from muster.web.usage import POINTS_MAX, Series

KINDS: Final = ("share", "asked", "held")
_KEPT_MAX: Final = 600
_FIRST_STEP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    row: dict[str, int]
    amounts: npt.NDArray[np.float32]
    """[Q, KINDS]; NaN: nobody knows."""

    def of(self, name: str, column: int) -> float | None:
        row = self.row.get(name)
        value = np.nan if row is None else float(self.amounts[row, column])
        return None if np.isnan(value) else round(float(value), 3)


@dataclass(slots=True)
class Tracks:
    """Changed on the event loop alone."""

    _looks: list[_Look] = field(default_factory=list)
    _step_s: float = _FIRST_STEP_S

    def add(self, at_s: float, queues: Sequence[Queue]) -> None:
        """What is newer than a step replaces what came before it."""
        row = {queue.name: at for at, queue in enumerate(queues)}
        if self._looks and self._looks[-1].row == row:
            row = self._looks[-1].row  # one for all
        amounts = [
            (np.nan if one.gpu.share is None else one.gpu.share, one.gpu.asked, one.gpu.used)
            for one in queues
        ]
        look = _Look(at_s, row, np.array(amounts, dtype=np.float32).reshape(-1, len(KINDS)))
        if len(self._looks) > 1 and at_s - self._looks[-2].at_s < self._step_s:
            self._looks.pop()
        self._looks.append(look)
        if len(self._looks) > _KEPT_MAX:
            self._looks = [*self._looks[:-1:2], look]
            self._step_s *= 2

    def series(self, kind: str, names: Sequence[str], now_s: float, points: int) -> Series:
        """What was true at each of so many moments, from the first look until now."""
        if not self._looks:
            return Series(kind, [], {name: [] for name in names})
        first_s = self._looks[0].at_s
        points = min(max(points, 2), POINTS_MAX)
        moments = np.linspace(first_s, max(now_s, first_s), points)
        starts = np.array([look.at_s for look in self._looks])
        at = np.maximum(np.searchsorted(starts, moments, side="right") - 1, 0).tolist()
        column = KINDS.index(kind)
        lines = {name: [self._looks[one].of(name, column) for one in at] for name in names}
        return Series(kind, moments.tolist(), lines)
