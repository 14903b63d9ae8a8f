"""What was so of all jobs at any moment of the last minutes: for a replica that does not write.

When it is its turn, it accrues from the moment on up to which somebody else did: so nothing is lost
between two writers, and nothing counts twice.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_WIDTH
from muster.usage.accrual import GAP_MAX_S, Accruals, JobLevel, Sums

KEPT_S: Final = 2 * GAP_MAX_S
"""Longer than it takes to write, and to find that nobody leads any more."""
_CAPACITY: Final = None

_Change = tuple[float, str | None, JobLevel | Floats | None]


@dataclass(slots=True)
class RecentLevels:
    """Changes of the last minutes, and what was so before them."""

    _jobs: dict[str, JobLevel] = field(default_factory=dict, init=False)
    _capacity: Floats = field(default_factory=lambda: np.zeros(QUEUE_WIDTH), init=False)
    _changes: deque[_Change] = field(default_factory=deque, init=False)

    def set_job(self, job: str, level: JobLevel | None, now_s: float) -> None:
        self._note((now_s, job, level))

    def set_capacity(self, amounts: Floats, now_s: float) -> None:
        self._note((now_s, _CAPACITY, amounts))

    def replay(self, accruals: Accruals, from_s: float, now_s: float) -> Sums:
        """Tell all that was so since that moment, and give what accrued; it is forgotten here."""
        self._forget_before(from_s)
        sums = Sums()
        accruals.set_capacity(self._capacity, from_s)
        for known, level in self._jobs.items():
            accruals.set_job(known, level, from_s)
        taken_s = from_s
        for at_s, job, what in [*self._changes, (now_s, _CAPACITY, self._newest_capacity())]:
            # In short steps: a long one without a word would count as a gap.
            while at_s - taken_s > GAP_MAX_S / 2:
                taken_s += GAP_MAX_S / 2
                sums.add(accruals.take(taken_s))
            _tell(accruals, at_s, job, what)
        sums.add(accruals.take(now_s))
        self._jobs.clear()
        self._changes.clear()
        return sums

    def _note(self, change: _Change) -> None:
        self._changes.append(change)
        self._forget_before(change[0] - KEPT_S)

    def _forget_before(self, at_s: float) -> None:
        while self._changes and self._changes[0][0] <= at_s:
            _, job, what = self._changes.popleft()
            if isinstance(what, np.ndarray):
                self._capacity = what
            elif isinstance(what, JobLevel):
                self._jobs[job or ""] = what
            else:
                self._jobs.pop(job or "", None)

    def _newest_capacity(self) -> Floats:
        told = (what for _, _, what in reversed(self._changes) if isinstance(what, np.ndarray))
        return next(told, self._capacity)


def _tell(accruals: Accruals, at_s: float, job: str | None, what: JobLevel | Floats | None) -> None:
    if isinstance(what, np.ndarray):
        accruals.set_capacity(what, at_s)
    elif isinstance(what, JobLevel) or what is None:
        accruals.set_job(job or "", what, at_s)
