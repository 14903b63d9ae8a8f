"""What a cycle has to say beside its plan: who was refused and why, what was tried.

The engine logs nothing. Conditions, events, the dashboard and tests read this value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.reasons import Refusal


@dataclass(frozen=True, slots=True)
class Explanation:
    """Refusals by job key: every job that waits and was not served, with all that was found."""

    refusals: Mapping[str, tuple[Refusal, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    """How often what was done: "allocate.tried", "reclaim.simulated"."""

    def sentences(self, job: str) -> tuple[str, ...]:
        """Why the job waits, for people."""
        return tuple(refusal.sentence() for refusal in self.refusals.get(job, ()))
