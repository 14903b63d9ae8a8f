"""What one cycle may tell the next. It only saves work: the plan is the same without it.

As long as nothing was decided in a cycle, an action is a function of snapshot, policy and, for some
of them, time. An action that decided nothing will decide nothing again, for the same reasons, while
these are the same; snapshots are the same object when nothing in the cluster changed.
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
    """Of this action and those before it, by job row of the snapshot."""

    def holds(self, snapshot: ClusterSnapshot, policy: object) -> bool:
        """Whether the action would find nothing to do again, for the same reasons."""
        return self.snapshot is snapshot and self.policy is policy


@dataclass(frozen=True, slots=True)
class Memory:
    """The first actions of a cycle, as far as they decided nothing, in order."""

    standstills: tuple[Standstill, ...] = ()

    def recall(
        self, at: int, action: str, snapshot: ClusterSnapshot, policy: object
    ) -> Standstill | None:
        """What the action at this place of the cycle found last time, if that still holds."""
        if at >= len(self.standstills):
            return None
        last = self.standstills[at]
        return last if last.action == action and last.holds(snapshot, policy) else None


EMPTY = Memory()
