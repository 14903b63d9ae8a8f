"""Budgets: how long searches may take, and how much we may disrupt.

The time budgets are KAI's, with its defaults: minutes, so that a plan depends on how fast the
machine is only where it would take for ever otherwise. The disruption budget is ours and is hard:
what would exceed it is not evicted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from muster.engine.config.reader import Reader

REMEMBERED_S = 3600.0
"""How long an eviction counts for limits per hour."""

SEARCHING_ACTIONS = ("reclaim", "preempt", "consolidation")
_ACTION_SEARCH_S = 300.0
_JOB_SEARCH_S = 240.0
NODE_BY_NODE, MANY_NODES = "NodeLocalGreedy", "MultiNodeGang"
_GENERATOR_SEARCH_S = {"default": 120.0, NODE_BY_NODE: 30.0, MANY_NODES: 120.0}


@dataclass(frozen=True, slots=True)
class SearchBudgets:
    """How many seconds searches for victims may take; 0 is no limit."""

    actions_s: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(dict.fromkeys(SEARCHING_ACTIONS, _ACTION_SEARCH_S))
    )
    """An action in one cycle, by its name."""
    job_s: float = _JOB_SEARCH_S
    """One job."""
    least_job_s: float = 0.0
    """What a job gets even when its action has used up its time."""
    generators_s: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(dict(_GENERATOR_SEARCH_S))
    )
    """One way to look for victims for one job, by KAI's name for it."""


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


def search_budgets(reader: Reader) -> SearchBudgets:
    """KAI's `scenarioSearchBudgets`; what KAI would refuse is refused."""
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
    least_s = _not_negative(shortest, 0.0)
    if 0 < longest_s <= least_s:
        raise shortest.wrong("must be shorter than maxJobSearchDuration")
    actions = _durations(reader.key("maxActionSearchDuration"), ("default", *SEARCHING_ACTIONS))
    usual_s = actions.get("default", _ACTION_SEARCH_S)
    return SearchBudgets(
        actions_s=MappingProxyType(
            {name: actions.get(name, usual_s) for name in SEARCHING_ACTIONS}
        ),
        job_s=longest_s,
        least_job_s=least_s,
        generators_s=MappingProxyType(
            _GENERATOR_SEARCH_S
            | _durations(reader.key("maxGeneratorSearchDuration"), tuple(_GENERATOR_SEARCH_S))
        ),
    )


def _durations(reader: Reader, known: tuple[str, ...]) -> dict[str, float]:
    reader.allow_only(known)
    return {name: _not_negative(duration, 0.0) for name, duration in reader.items()}


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
