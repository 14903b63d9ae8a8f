"""What a cycle has to say beside its plan: who was refused and why, what was tried.

The engine logs nothing. Conditions, events, the dashboard and tests read this value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.model.public_reasons import Why, why_of
from muster.model.reasons import Evidence, Reason, Refusal
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU, QUEUE_RESOURCES


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

    def row_of(self, queue: str) -> int | None:
        """The row of a queue that is called so, or shown so."""
        for listed in (self.names, self.display_names):
            if queue in listed:
                return listed.index(queue)
        return None

    def is_like(self, other: "FairShares | None") -> bool:
        """Whether the numbers are the same."""
        return (
            other is not None
            and self.names == other.names
            and np.array_equal(self.fair, other.fair)
            and np.array_equal(self.quota, other.quota)
            and np.array_equal(self.held, other.held)
        )


def with_numbers(refusal: Refusal, shares: FairShares | None) -> Refusal:
    """A refusal that speaks of a queue's share, with that share and what the queue held: of the
    resource of which it has most of its share.
    """
    if shares is None or refusal.reason not in (Reason.OVER_SHARE, Reason.WITHIN_SHARE):
        return refusal
    at = shares.row_of(refusal.subject)
    if at is None or refusal.evidence:
        return refusal
    fair, held = shares.fair[at], shares.held[at]
    parts = np.divide(held, fair, out=np.zeros_like(fair), where=fair > 0)
    column = int(parts.argmax()) if parts.any() else QUEUE_GPU
    numbers = Evidence(
        QUEUE_RESOURCES[column],
        need=0,
        free=0,
        where=refusal.subject,
        held=int(held[column]),
        bound=int(fair[column]),
    )
    return msgspec.structs.replace(refusal, evidence=(numbers,))


@dataclass(frozen=True, slots=True)
class Explanation:
    """Refusals by job key: every job that waits and was not served, with all that was found."""

    refusals: Mapping[str, tuple[Refusal, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    """How often what was done: "allocate.tried", "reclaim.simulated"."""
    shares: FairShares | None = field(default=None, compare=False)
    """What refusals that speak of shares are to be checked by."""

    def why(self, job: str) -> Why | None:
        """Why the job waits; None where it does not, or nothing is known of it."""
        return why_of([with_numbers(one, self.shares) for one in self.refusals.get(job, ())])

    def sentences(self, job: str) -> tuple[str, ...]:
        """The same for people, the dominant reason first."""
        why = self.why(job)
        return tuple(one.sentence for one in why.all) if why else ()
