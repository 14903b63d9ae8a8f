"""What one cycle may tell the next. It only saves work: the plan and the reasons are the same
without it.

A job for which a search found nobody to evict, with nothing decided before its turn, is refused
again, for the same reasons, while its `Grounds` are the same and the job is as it was, as long as
nothing is decided before its turn this time either. An action for which that is so of all jobs
(`Standstill`) need not be run: that is all allocate needs, where a refusal costs microseconds and
equal jobs share what the first was told.

So a pod that arrives, leaves or comes to run costs no search but its own; one that ends costs a
look at everybody, because everybody's reasons count what is free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

import numpy as np

from muster.engine.config.budgets import REMEMBERED_S
from muster.engine.hooks import QueueShares
from muster.engine.policy import OpenPolicy, Policy
from muster.engine.timing import delay_ends_s, grace_ends_s
from muster.model.reasons import Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Floats

Told = Mapping[int, tuple[Refusal, ...]]
"""Refusals by job row."""

_TIMELESS = "allocate"
"""The action that looks neither at the clock nor, but for the order of jobs, at shares."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """What refusals depend on beside the job itself."""

    policy: Policy
    non_pending_version: object
    """Nodes, queues, whatever runs or stands around: `ClusterSnapshot.non_pending_version`."""
    generation: int
    """A job that changed later is another job."""
    shares: Floats | None
    """What queues are entitled to, which depends on who waits; None where it does not matter."""
    until_s: float
    """The instant at which waiting alone makes a difference: a delay, a protection, a grace period
    ends.
    """


@dataclass(frozen=True, slots=True)
class Standstill:
    """An action that decided nothing, with nothing decided before it."""

    action: str
    grounds: Grounds
    refusals: Told
    """Of this action and those before it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What an action told jobs before anything was decided."""

    grounds: Grounds
    told: Told


@dataclass(frozen=True, slots=True)
class Memory:
    """What to hand to the next cycle."""

    standstills: tuple[Standstill, ...] = ()
    """The first actions of the cycle, as far as they decided nothing, in order."""
    refused: Mapping[str, Refused] = field(default_factory=dict)
    """By action."""


EMPTY = Memory()


class Recall:
    """In one cycle: what the one before told jobs, as far as it holds, and what this one tells."""

    def __init__(self, memory: Memory, world: "World") -> None:
        self._memory = memory
        self._world = world
        self._standstills: list[Standstill] = []
        self._before: dict[str, Told] = {}
        self._told: dict[str, dict[int, tuple[Refusal, ...]]] = {}

    def standstill(self, at: int, action: str) -> Standstill | None:
        """What the action at this place of the cycle found last time, if it would find it again."""
        if at >= len(self._memory.standstills) or len(self._standstills) < at:
            return None
        last = self._memory.standstills[at]
        world = self._world
        is_same = last.action == action and world.holds(last.grounds)
        return last if is_same and world.are_unchanged(last.grounds) else None

    def told(self, action: str) -> Told:
        """Refusals that hold as long as nothing is decided in this cycle."""
        if action not in self._before:
            last = self._memory.refused.get(action)
            holds = last is not None and self._world.holds(last.grounds)
            self._before[action] = self._world.told_again(last) if last and holds else {}
        return self._before[action]

    def tell(self, action: str, told: Told) -> None:
        """Jobs were refused with nothing decided before their turn."""
        self._told.setdefault(action, {}).update(told)

    def stood_still(self, action: str, refusals: Told) -> None:
        """The action, like all before it, decided nothing."""
        self._standstills.append(Standstill(action, self._world.grounds(action), refusals))

    def stands_again(self, last: Standstill) -> None:
        """The action was not run, because it stood still and nothing changed."""
        self._standstills.append(last)

    def memory(self) -> Memory:
        """What the next cycle may know."""
        again = {still.action for still in self._standstills} - self._told.keys()
        kept = {a: refused for a, refused in self._memory.refused.items() if a in again}
        new = {a: Refused(self._world.grounds(a), told) for a, told in self._told.items()}
        return Memory(tuple(self._standstills), kept | new)


@dataclass(frozen=True, slots=True)
class World:
    """What a cycle starts from, as far as refusals depend on it."""

    snapshot: ClusterSnapshot
    configured: Policy
    policy: OpenPolicy
    now_s: float

    def grounds(self, action: str) -> Grounds:
        """What refusals of the action depend on now."""
        is_timeless = action == _TIMELESS
        return Grounds(
            policy=self.configured,
            non_pending_version=self._ground(),
            generation=self.snapshot.generation,
            shares=None if is_timeless else self._shares(),
            until_s=inf if is_timeless else self._steady_until_s(),
        )

    def holds(self, last: Grounds) -> bool:
        """Whether what was found on these grounds would be found again."""
        if last.policy is not self.configured or last.non_pending_version is not self._ground():
            return False
        if self.now_s >= last.until_s:
            return False
        return last.shares is None or np.array_equal(last.shares, self._shares())

    def are_unchanged(self, last: Grounds) -> bool:
        """Whether all jobs are as they were then, or gone."""
        jobs = self.snapshot.jobs
        return last.generation == self.snapshot.generation or not bool(
            (jobs.changed[jobs.live] > last.generation).any()
        )

    def told_again(self, last: Refused) -> Told:
        """What was told to jobs that are as they were."""
        is_same = (self.snapshot.jobs.changed <= last.grounds.generation).tolist()
        return {job: told for job, told in last.told.items() if is_same[job]}

    def _ground(self) -> object:
        return (
            self.snapshot if self.policy.depends_on_waiting() else self.snapshot.non_pending_version
        )

    def _shares(self) -> Floats:
        """Shares by queue. One that covers all that a queue asks for is as good as any larger one:
        the queue stays within it whatever it gets.
        """
        shares: QueueShares | None = self.policy.queue_shares()
        if shares is None:
            return np.zeros((0, 6))
        asked = self.snapshot.queues.allocated + self.snapshot.queues.pending
        is_enough = (shares.fair_share >= asked) & (asked > 0)
        fair = np.where(is_enough, inf, shares.fair_share)
        return np.hstack([fair, shares.allocatable_share])

    def _steady_until_s(self) -> float:
        """When waiting alone may next make a difference: a grace period, a delay or a protection
        ends, an eviction counts no more.
        """
        snapshot, now_s = self.snapshot, self.now_s
        default_s = self.configured.settings.staleness_grace_s
        return min(
            grace_ends_s(snapshot, default_s, now_s, {}),
            delay_ends_s(snapshot, snapshot.jobs.live, now_s),
            self._eviction_counts_until_s(),
            self.policy.steady_until_s(),
        )

    def _eviction_counts_until_s(self) -> float:
        if not self.configured.disruption_budget.looks_back:
            return inf
        recent = self.snapshot.cluster_objects.recent_evictions
        ends_s = (eviction.at_s + REMEMBERED_S for eviction in recent)
        return min((end_s for end_s in ends_s if end_s >= self.now_s), default=inf)
