"""What one cycle tells the next: the room that it made, and for whom (`engine.holds`), when plugins
last did what they do at intervals, and what it refused. The latter only saves work: the plan and
the reasons are the same without it.

A job for which a search found nobody to evict, with nothing decided before its turn, is refused
again, for the same reasons, while its `CacheKey` is the same and the job is as it was, as long as
nothing is decided before its turn this time either. An action for which that is so of all jobs
(`NoOpAction`) need not be run: that is all allocate needs, where a refusal costs microseconds and
equal jobs share the refusals of the first. Where it is so of all actions and the very snapshot is
the same, the cycle need not be opened (`Rest`).

So a pod that arrives, leaves or comes to run costs no search but its own; one that ends costs a
look at everybody, because everybody's reasons count what is free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from muster.engine.config.budgets import REMEMBERED_S
from muster.engine.holds import Hold
from muster.engine.hooks import QueueShares
from muster.engine.policy import OpenPolicy, Policy
from muster.engine.timing import delay_ends_s, grace_ends_s
from muster.model.reasons import Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Floats
from muster.numerics.fragmentation import Mix, is_same_mix

RefusalsByJob = Mapping[int, tuple[Refusal, ...]]
"""Refusals by job row."""

_TIMELESS = "allocate"
"""The action that looks neither at the clock nor, but for the order of jobs, at shares."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What refusals depend on beside the job itself."""

    policy: Policy
    non_pending_version: object
    """Nodes, queues, cluster objects, whatever runs: `ClusterSnapshot.non_pending_version`."""
    generation: int
    """A job that changed later is another job."""
    shares: Floats | None
    """What queues are entitled to, which depends on who waits; None where it does not matter."""
    until_s: float
    """The instant at which waiting alone makes a difference: a delay, a protection, a grace period
    ends.
    """
    mix: Mix
    """What nodes are chosen by, which depends on who waits: elsewhere a gang may find no room."""


@dataclass(frozen=True, slots=True)
class NoOpAction:
    """An action that decided nothing, with nothing decided before it."""

    action: str
    key: CacheKey
    refusals: RefusalsByJob
    """Of this action and those before it."""


@dataclass(frozen=True, slots=True)
class ActionRefusals:
    """Jobs that an action refused before anything was decided."""

    key: CacheKey
    refusals: RefusalsByJob


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """A cycle that decided nothing, and what makes the next one the same."""

    snapshot: ClusterSnapshot
    policy: Policy
    actions: tuple[object, ...]
    until_s: float
    """The instant at which waiting alone makes a difference."""
    result: object
    """What it came to: an `engine.cycle.CycleResult`."""

    def holds(
        self, snapshot: ClusterSnapshot, policy: Policy, actions: Sequence[object], now_s: float
    ) -> bool:
        """Whether a cycle of these would decide nothing again, for the same reasons."""
        is_same = self.snapshot is snapshot and self.policy is policy
        return is_same and now_s < self.until_s and self.actions == tuple(actions)


@dataclass(frozen=True, slots=True)
class Memory:
    """What to hand to the next cycle."""

    no_op_actions: tuple[NoOpAction, ...] = ()
    """The first actions of the cycle, as far as they decided nothing, in order."""
    refused: Mapping[str, ActionRefusals] = field(default_factory=dict)
    """By action."""
    holds: tuple[Hold, ...] = ()
    """Room that was made for jobs that have not started."""
    acted_s: Mapping[str, float] = field(default_factory=dict)
    """When plugins last did what they do only now and then, by name."""
    rest: Rest | None = field(default=None, compare=False)
    """The cycle before, if it decided nothing at all."""

    @property
    def no_op_until_s(self) -> float:
        """Until when waiting alone makes no difference to actions that decided nothing."""
        return min((each.key.until_s for each in self.no_op_actions), default=inf)


EMPTY = Memory()


class RefusalCache:
    """In one cycle: refusals of the one before, as far as they hold, and those of this one."""

    def __init__(self, memory: Memory, inputs: "CycleInputs") -> None:
        self._memory = memory
        self._inputs = inputs
        self._no_op_actions: list[NoOpAction] = []
        self._before: dict[str, RefusalsByJob] = {}
        self._stored: dict[str, dict[int, tuple[Refusal, ...]]] = {}

    def no_op(self, at: int, action: str) -> NoOpAction | None:
        """What the action at this place of the cycle found last time, if it would find it again."""
        if at >= len(self._memory.no_op_actions) or len(self._no_op_actions) < at:
            return None
        last = self._memory.no_op_actions[at]
        inputs = self._inputs
        is_same = last.action == action and inputs.holds(last.key)
        return last if is_same and inputs.are_unchanged(last.key) else None

    def refusals(self, action: str) -> RefusalsByJob:
        """Refusals that hold as long as nothing is decided in this cycle."""
        if action not in self._before:
            last = self._memory.refused.get(action)
            holds = last is not None and self._inputs.holds(last.key)
            self._before[action] = self._inputs.still_valid(last) if last and holds else {}
        return self._before[action]

    def store(self, action: str, refusals: RefusalsByJob) -> None:
        """Jobs were refused with nothing decided before their turn."""
        self._stored.setdefault(action, {}).update(refusals)

    def record_no_op(self, action: str, refusals: RefusalsByJob) -> None:
        """The action, like all before it, decided nothing."""
        self._no_op_actions.append(NoOpAction(action, self._inputs.key_of(action), refusals))

    def repeat_no_op(self, last: NoOpAction) -> None:
        """The action was not run, because it did nothing last time and nothing changed."""
        self._no_op_actions.append(last)

    def memory(self) -> Memory:
        """What the next cycle may know."""
        again = {still.action for still in self._no_op_actions} - self._stored.keys()
        kept = {a: refused for a, refused in self._memory.refused.items() if a in again}
        new = {
            a: ActionRefusals(self._inputs.key_of(a), refusals)
            for a, refusals in self._stored.items()
        }
        return Memory(tuple(self._no_op_actions), kept | new)


@dataclass(frozen=True, slots=True)
class CycleInputs:
    """What a cycle starts from, as far as refusals depend on it."""

    snapshot: ClusterSnapshot
    configured: Policy
    policy: OpenPolicy
    now_s: float
    mix: Mix

    def key_of(self, action: str) -> CacheKey:
        """What refusals of the action depend on now."""
        is_timeless = action == _TIMELESS
        return CacheKey(
            policy=self.configured,
            non_pending_version=self._non_pending_version(),
            generation=self.snapshot.generation,
            shares=None if is_timeless else self._shares(),
            until_s=inf if is_timeless else self._steady_until_s(),
            mix=self.mix,
        )

    def holds(self, last: CacheKey) -> bool:
        """Whether what was found with this key would be found again."""
        if (
            last.policy is not self.configured
            or last.non_pending_version is not self._non_pending_version()
        ):
            return False
        if self.now_s >= last.until_s or not is_same_mix(last.mix, self.mix):
            return False
        return last.shares is None or np.array_equal(last.shares, self._shares())

    def are_unchanged(self, last: CacheKey) -> bool:
        """Whether all jobs are as they were then, or gone."""
        jobs = self.snapshot.jobs
        return last.generation == self.snapshot.generation or not bool(
            (jobs.changed[jobs.live] > last.generation).any()
        )

    def still_valid(self, last: ActionRefusals) -> RefusalsByJob:
        """Refusals of jobs that are as they were."""
        is_same = (self.snapshot.jobs.changed <= last.key.generation).tolist()
        return {job: refusals for job, refusals in last.refusals.items() if is_same[job]}

    def _non_pending_version(self) -> object:
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
