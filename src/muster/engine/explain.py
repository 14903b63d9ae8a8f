"""What a cycle has to say beside its plan: who was refused and why, what was tried.

The engine logs nothing. Conditions, events, the dashboard and tests read this value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.model.public_reasons import Why, why_of
from muster.model.reasons import Refusal
from muster.numerics.arrays import Floats


@dataclass(frozen=True, slots=True)
class FairShares:
    """What queues are entitled to and hold; float64[Q, queue resources] in units of the axis."""

    names: tuple[str, ...]
    display_names: tuple[str, ...]
    fair: Floats
    """As much as there is where nothing bounds it."""
    quota: Floats
    held: Floats
    """When the cycle began."""

    def is_like(self, other: "FairShares | None") -> bool:
        """Whether the numbers are the same."""
        return (
            other is not None
            and self.names == other.names
            and np.array_equal(self.fair, other.fair)
            and np.array_equal(self.quota, other.quota)
            and np.array_equal(self.held, other.held)
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Refusals by job key: every job that waits and was not served, with all that was found."""

    refusals: Mapping[str, tuple[Refusal, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    """How often what was done: "allocate.tried", "reclaim.simulated"."""

    def why(self, job: str) -> Why | None:
        """Why the job waits; None where it does not, or nothing is known of it."""
        return why_of(self.refusals.get(job, ()))

    def sentences(self, job: str) -> tuple[str, ...]:
        """The same for people, the dominant reason first."""
        why = self.why(job)
        return tuple(one.sentence for one in why.all) if why else ()
