"""The shapes of answers to questions: why, when, plan, what-if, history, order.

Fields are only ever added. Times are RFC 3339, UTC.
"""

from typing import Any

import msgspec

from muster.foresight.order import Place


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Something that is answered."""


class Eviction(Shape, frozen=True, kw_only=True):
    """Pods that go, of one job."""

    job: str
    queue: str
    pods: int
    gpus: float
    by: str
    """The action."""


class ChangeView(Shape, frozen=True, kw_only=True):
    """A change that starts the job."""

    do: str
    """In words."""
    what: str
    subject: str
    before: Any
    after: Any
    starts: str
    """now, after evictions, or not before: others may take the room."""
    evicts: list[Eviction]
    verified: str
    """What was run with the change made: a whole cycle, or allocate alone."""
    at: str | None = None
    """When the last of those that are waited for is expected to end."""


class Start(Shape, frozen=True, kw_only=True):
    """When a job is expected to start."""

    at: str | None
    earliest: str | None
    latest: str | None
    not_before: str | None = None
    """Where more cannot be said."""
    basis: dict[str, float]
    why_not: str
    """Why there is no estimate."""
    samples: int
    as_of: str


class WhyView(Shape, frozen=True, kw_only=True):
    """Why a job waits, or runs where it does."""

    job: str
    state: str
    code: str
    category: str
    message: str
    reasons: list[dict[str, Any]]
    no_eviction_because: list[dict[str, Any]]
    where: dict[str, int]
    """Nodes that it starts on, with how many of its pods."""
    because: str
    """Why there, for a job that starts now."""
    decided: list["EventView"]
    """What was decided about it before and is in the journal: starts, promises, evictions, moves,
    with the rule and for whom; the newest first."""
    place: Place | None
    changes: list[ChangeView]
    is_complete: bool
    """Whether all changes there are were tried, and the cycle had time for all its searches."""
    as_of: str
    generation: int


class PlanAnswer(Shape, frozen=True, kw_only=True):
    """What would become of a manifest."""

    verdict: str
    starts: bool
    where: dict[str, int]
    evicts: list[Eviction]
    reasons: list[dict[str, Any]]
    changes: list[ChangeView]
    otherwise: Start | None
    """When the last of what waits starts, if somebody asked for that."""
    problems: list[str]
    warnings: list[str]
    """What is odd about it and would be let in."""
    is_complete: bool
    """Whether there was time for all searches; otherwise there is no token."""
    token: str
    good_until: str
    as_of: str


class EventView(Shape, frozen=True, kw_only=True):
    """Something that was decided."""

    at: str
    kind: str
    job: str
    queue: str
    user: str
    pods: int
    gpus: float
    ran_s: float | None
    lost_s: float | None
    by: str
    for_: str = msgspec.field(name="for")
    for_queue: str
    """That of the job for which it was."""
    code: str
    because: str
    nodes: list[str]
    moves_to: list[str]
    outcome: str
    cycle: int


class Ahead(Shape, frozen=True, kw_only=True):
    """How the next hours differ, in the same drawn futures without the change and with it."""

    hours: float
    waits_min: dict[str, list[float]]
    """Mean wait from now of the jobs of each queue that wait now: before, after, in minutes; one
    that waits beyond these hours counts with all of them.
    """
    moved_min: dict[str, float]
    """Jobs that start at least five minutes later, or earlier (below zero); the most moved first.
    """
    at: list[str]
    held: dict[str, list[list[float]]]
    """GPUs that each queue holds at these moments: before, after."""
    why_not: str
    """Why nothing can be said."""
    restarts_min: dict[str, float] = {}
    """Jobs that run now and would have to start again, and how long they would wait for it; the
    longest first.
    """


class Diff(Shape, frozen=True, kw_only=True):
    """What another policy would decide otherwise."""

    verdict: list[str]
    starts_only_with: list[str]
    starts_only_without: list[str]
    evicted_only_with: list[Eviction]
    evicted_only_without: list[Eviction]
    shares: dict[str, list[float]]
    """GPUs by queue: before, after; those that move by a unit or more."""
    below_quota: list[str]
    is_complete: bool
    """Whether there was time for all searches."""
    displaced: list[Eviction] = []
    """Pods whose nodes are lost or drained; those that somebody makes anew wait again."""
    ahead: Ahead | None = None
    """The hours after, if somebody asked for them."""
