"""What one cycle may tell the next. It only saves work: the plan is the same without it.

A remembered refusal says what it depends on. It holds as long as nothing it depends on changed; the
next cycle drops it otherwise, and never trusts it across another snapshot lineage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.reasons import Refusal


@dataclass(frozen=True, slots=True)
class RememberedRefusals:
    """Jobs that an action could not serve, valid for exactly this state of the world."""

    fingerprint: int
    """Of everything that the action reads."""
    refusals: Mapping[str, tuple[Refusal, ...]] = field(default_factory=dict)
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """By action name."""

    actions: Mapping[str, RememberedRefusals] = field(default_factory=dict)


EMPTY = Memory()
