"""Budgets: how long KAI may search, and how much we may disrupt.

KAI's time budgets are checked but not obeyed, because a plan must not depend on how fast the
machine is. The disruption budget is ours and is hard: what would exceed it is not evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from muster.engine.config.reader import Reader

REMEMBERED_S = 3600.0
"""How long an eviction counts for limits per hour."""

SEARCHING_ACTIONS = ("reclaim", "preempt", "consolidation")
_JOB_SEARCH_S = 240.0
_GENERATORS = ("default", "NodeLocalGreedy", "MultiNodeGang")


@dataclass(frozen=True, slots=True)
class DisruptionLimits:
    """The most GPUs that may be evicted; None is no limit."""

    per_requested: float | None = None
    per_cycle: float | None = None
    per_hour: float | None = None

    @property
    def is_off(self) -> bool:
        """Whether nothing is limited."""
        return self.per_requested is None and self.per_cycle is None and self.per_hour is None


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Limits for all evictions together, and for the work of single queues (victims' queues)."""

    overall: DisruptionLimits = DisruptionLimits()
    queues: Mapping[str, DisruptionLimits] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_off(self) -> bool:
        """Whether nothing is limited."""
        return self.overall.is_off and all(limits.is_off for limits in self.queues.values())

    @property
    def looks_back(self) -> bool:
        """Whether it matters what was evicted in earlier cycles."""
        return any(each.per_hour is not None for each in (self.overall, *self.queues.values()))


def check_search_budgets(reader: Reader) -> None:
    """Refuse what KAI would refuse in its `scenarioSearchBudgets`."""
    reader.allow_only(
        (
            "maxActionSearchDuration",
            "maxJobSearchDuration",
            "minJobSearchDuration",
            "maxGeneratorSearchDuration",
        )
    )
    shortest = reader.key("minJobSearchDuration")
    longest_s = _not_negative(reader.key("maxJobSearchDuration"), _JOB_SEARCH_S)
    if 0 < longest_s <= _not_negative(shortest, 0.0):
        raise shortest.wrong("must be shorter than maxJobSearchDuration")
    for name, known in (
        ("maxActionSearchDuration", ("default", *SEARCHING_ACTIONS)),
        ("maxGeneratorSearchDuration", _GENERATORS),
    ):
        reader.key(name).allow_only(known)
        for _, duration in reader.key(name).items():
            _not_negative(duration, 0.0)


def disruption_budget(reader: Reader) -> DisruptionBudget:
    """Our `disruptionBudget`: the limits, and `queues` with limits of their own."""
    reader.allow_only((*_LIMIT_KEYS, "queues"))
    return DisruptionBudget(
        overall=_limits(reader),
        queues=MappingProxyType(
            {name: _queue_limits(queue) for name, queue in reader.key("queues").items()}
        ),
    )


_LIMIT_KEYS = ("maxEvictedPerRequested", "maxEvictedPerCycle", "maxEvictedPerHour")


def _queue_limits(reader: Reader) -> DisruptionLimits:
    reader.allow_only(_LIMIT_KEYS)
    return _limits(reader)


def _limits(reader: Reader) -> DisruptionLimits:
    found: list[float | None] = []
    for name in _LIMIT_KEYS:
        limit = reader.key(name)
        found.append(None if limit.is_absent else limit.number())
        if found[-1] is not None and found[-1] < 0:
            raise limit.wrong("must not be negative; leave it out for no limit")
    return DisruptionLimits(*found)


def _not_negative(reader: Reader, default: float) -> float:
    seconds = reader.duration_s(default)
    if seconds < 0:
        raise reader.wrong("must not be negative")
    return seconds
