"""Jobs whose conditions name the right reason with the numbers of another moment.

Numbers change with every job that starts or ends, so a condition is not written for each of them.
It is written anew once its text has been outdated for `SETTLES_S`, the longest outdated first, and
few at a time: what everybody reads is right within minutes, at a price that does not depend on how
often numbers change. Time is our own, counted from when we saw it, not what conditions say.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

SETTLES_S: Final = 300.0
"""How long a text may be outdated."""
WRITTEN_MAX: Final = 20
"""Jobs whose texts are written anew after one cycle."""


@dataclass(slots=True)
class OutdatedTexts:
    """Since when each of them is."""

    _since_s: dict[str, float] = field(default_factory=dict)

    def keep(self, jobs: Collection[str], now_s: float) -> None:
        """These are outdated, and no others."""
        self._since_s = {job: self._since_s.get(job, now_s) for job in jobs}

    def due(self, now_s: float) -> list[str]:
        """Those that are to be written now."""
        due = [job for job, since_s in self._since_s.items() if since_s + SETTLES_S <= now_s]
        return sorted(due, key=lambda job: (self._since_s[job], job))[:WRITTEN_MAX]

    def next_s(self) -> float | None:
        """When the next of them is due; None: all are as they should be."""
        first_s = min(self._since_s.values(), default=None)
        return None if first_s is None else first_s + SETTLES_S
