"""Shares over days on virtual time: who would hold how much, when past usage counts.

At every step the cluster is divided by the engine's own arithmetic, from what queues want then and
what they used before; they hold what they are given, and that becomes the past of the next steps.
Work is taken to be divisible and to start and stop at once: what is seen is the policy, not the
placement. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.model.usage import UsageWindow
from muster.numerics.arrays import Floats, Ints
from muster.numerics.decay import decayed_usage
from muster.numerics.divide import UNLIMITED, Claims, fair_shares
from muster.numerics.tree import leaves
from muster.usage.windows import window_start_s

Demand = Callable[[float], float]
"""By seconds since the beginning: GPUs that the jobs of a queue ask for."""


@dataclass(frozen=True, slots=True)
class SimulatedQueue:
    """A queue of the simulated tree; only leaves want something by themselves."""

    name: str
    parent: str = ""
    weight: float = 1.0
    quota: float = 0.0
    priority: int = 100
    demand: Demand = lambda _: 0.0


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What is simulated."""

    queues: Sequence[SimulatedQueue]
    gpus: float
    length_s: float
    step_s: float = 3600.0
    window: UsageWindow = field(default_factory=UsageWindow)
    usage_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ShareHistory:
    """float64[S, Q] at the steps `at_s` float64[S], queues in the order of the plan."""

    names: tuple[str, ...]
    at_s: Floats
    held: Floats
    usage: Floats

    def of(self, name: str, table: Floats) -> Floats:
        """A queue's column."""
        column: Floats = table[:, self.names.index(name)]
        return column

    def held_by(self, name: str) -> Floats:
        return self.of(name, self.held)

    def usage_of(self, name: str) -> Floats:
        return self.of(name, self.usage)


def simulated_shares(plan: SharePlan) -> ShareHistory:
    """The whole story."""
    steps = int(plan.length_s // plan.step_s)
    at_s: Floats = np.arange(steps, dtype=np.float64) * plan.step_s
    names = tuple(queue.name for queue in plan.queues)
    parent = _parents(plan.queues)
    held, usage = np.zeros((2, steps, len(names)))
    for step, now_s in enumerate(at_s.tolist()):
        usage[step] = _used(plan, at_s[:step], held[:step], now_s)
        claims = _claims(plan, parent, usage[step], now_s)
        held[step] = fair_shares(claims, np.array([plan.gpus]), plan.usage_weight)[:, 0]
    return ShareHistory(names, at_s, held, usage)


def _used(plan: SharePlan, at_s: Floats, held: Floats, now_s: float) -> Floats:
    counts = at_s >= window_start_s(plan.window, now_s)
    there = np.full(int(counts.sum()), plan.gpus)
    # What was decided at a step was held until the next: its age is that of its middle.
    age_s = now_s - at_s[counts] - plan.step_s / 2
    return decayed_usage(held[counts], there, age_s, plan.window.half_life_s)


def _claims(plan: SharePlan, parent: Ints, usage: Floats, now_s: float) -> Claims:
    count = len(plan.queues)

    def column(values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float64).reshape(count, 1)

    return Claims(
        parent=parent,
        rank=np.arange(count, dtype=np.int64),
        priority=np.array([queue.priority for queue in plan.queues], dtype=np.int64),
        quota=column([queue.quota for queue in plan.queues]),
        limit=np.full((count, 1), UNLIMITED),
        weight=column([queue.weight for queue in plan.queues]),
        request=column(_requests(plan, parent, now_s)),
        usage=column(usage.tolist()),
    )


def _requests(plan: SharePlan, parent: Ints, now_s: float) -> list[float]:
    """What leaves want, added up to the top."""
    wanted = [0.0] * len(plan.queues)
    for row in np.flatnonzero(leaves(parent)).tolist():
        asks, above = plan.queues[row].demand(now_s), row
        while above >= 0:
            wanted[above] += asks
            above = int(parent[above])
    return wanted


def _parents(queues: Sequence[SimulatedQueue]) -> Ints:
    row: Mapping[str, int] = {queue.name: at for at, queue in enumerate(queues)}
    return np.array([row[q.parent] if q.parent else -1 for q in queues], dtype=np.int64)
