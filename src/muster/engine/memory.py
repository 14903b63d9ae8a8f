"""What one cycle may tell the next. It only saves work: the plan is the same without it.

Allocate is a function of snapshot and policy alone. When it placed nothing, its refusals hold for
as long as both are the same objects, which is what the tables give when nothing changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.reasons import Refusal
from muster.model.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Standstill:
    """An action that found nothing to do, and what that depends on."""

    action: str
    snapshot: ClusterSnapshot
    policy: object
    refusals: Mapping[int, tuple[Refusal, ...]]
    """By job row of the snapshot."""

    def holds(self, snapshot: ClusterSnapshot, policy: object) -> bool:
        """Whether the action would find nothing to do again, for the same reasons."""
        return self.snapshot is snapshot and self.policy is policy


@dataclass(frozen=True, slots=True)
class Memory:
    """By action name: only the first action of a cycle starts from the snapshot alone."""

    standstill: Standstill | None = None


EMPTY = Memory()
