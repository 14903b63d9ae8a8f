"""How long an answer may take, and whether it was cut short for that.

A question runs cycles that nobody carries out. Its searches end when the time is up, as those of a
live cycle do; giving away what is free is never cut short.
"""

from dataclasses import dataclass
from math import inf

from muster.engine.cycle import CycleResult
from muster.engine.search_time import ElapsedS, no_time_passes

_CUT_SHORT = ".cut_short"


@dataclass(frozen=True, slots=True)
class Budget:
    """How long somebody is willing to wait."""

    elapsed_s: ElapsedS
    ends_s: float

    @property
    def is_spent(self) -> bool:
        return self.elapsed_s() >= self.ends_s

    def time_of_searches(self) -> float:
        """What searches are told of the time: that all of theirs is over once it is spent."""
        at_s = self.elapsed_s()
        return at_s if at_s < self.ends_s else inf


ENDLESS = Budget(no_time_passes, inf)


def is_cut_short(result: CycleResult) -> bool:
    """Whether some search of a cycle ended for want of time: with more, it may decide otherwise."""
    return any(name.endswith(_CUT_SHORT) for name in result.explanation.counters)
