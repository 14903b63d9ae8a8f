"""How good past estimates were, and what that makes of new ones.

Every estimate is judged when its job starts. Of each class the factors are kept by which intervals
would have had to be wider or narrower, on either side, to cover what then happened as often as
they say; and where what was said is too often wrong, nothing is said. Those who wait longest are
judged last, so factors are used only once enough is known, and within bounds. Pure.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from muster.foresight.when import Estimate
from muster.numerics.arrays import Floats

COVERS = 0.8
"""The part of starts that an interval is to cover."""
_AIMS_AT = 0.85
"""Scores come late, those of long waits last, so factors lag behind: they aim a little higher."""
BAD = 0.6
"""A class of which less was covered gets no estimate."""
ENOUGH = 30
"""So many must have been judged before anything follows from them."""
NEWEST = 200
_LEAST_S = 60.0
_NARROWEST, _WIDEST = 0.5, 4.0


@dataclass(frozen=True, slots=True)
class Judged:
    """An estimate as it was said, as it was drawn, and what then happened."""

    of: str
    at_s: float
    started_s: float
    said: tuple[float, float, float]
    """Earliest, likely, latest."""
    drawn: tuple[float, float, float]
    """The same before any factor."""

    @property
    def is_covered(self) -> bool:
        return self.said[0] <= self.started_s <= self.said[2]

    @property
    def error_s(self) -> float:
        return abs(self.said[1] - self.started_s)


@dataclass(frozen=True, slots=True)
class Record:
    """How good the estimates of a class were."""

    judged: int
    coverage: float
    error_s: float
    """The median."""
    earlier: float = 1.0
    """By how much what is drawn has to be wider before the likely moment."""
    later: float = 1.0

    @property
    def is_bad(self) -> bool:
        return self.judged >= ENOUGH and self.coverage < BAD


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known of all classes; "" is all together."""

    records: dict[str, Record] = field(default_factory=dict)

    def applied(self, estimate: Estimate, now_s: float) -> Estimate:
        """The estimate as it is said: with its class's factors, or without an answer where the
        class is bad. What is not said is judged all the same, so that a class can get better.
        """
        record = self.of(estimate.of)
        if record is None or not record.is_bad or estimate.latest_s is None:
            return self.widened(estimate, now_s)
        why = (
            f"of the last {record.judged} estimates of its kind only {record.coverage:.0%} were "
            "right"
        )
        return replace(estimate, earliest_s=None, likely_s=None, latest_s=None, why_not=why)

    def widened(self, estimate: Estimate, now_s: float) -> Estimate:
        """With its class's factors."""
        early, likely, late = estimate.earliest_s, estimate.likely_s, estimate.latest_s
        record = self.of(estimate.of)
        if record is None or early is None or likely is None or late is None:
            return estimate
        return replace(
            estimate,
            earliest_s=max(likely - record.earlier * max(likely - early, _LEAST_S), now_s),
            latest_s=likely + record.later * max(late - likely, _LEAST_S),
        )

    def of(self, name: str) -> Record | None:
        """Of a class, or of all where too little is known of it."""
        found = self.records.get(name)
        if found is None or found.judged < ENOUGH:
            found = self.records.get("")
        return None if found is None or found.judged < ENOUGH else found


UNCALIBRATED = Calibration()


def triple(estimate: Estimate) -> tuple[float, float, float]:
    """Earliest, likely and latest of an estimate that has them."""
    early, likely, late = estimate.earliest_s, estimate.likely_s, estimate.latest_s
    assert early is not None
    assert likely is not None
    assert late is not None
    return early, likely, late


def calibration_of(judged: Iterable[Judged]) -> Calibration:
    """From judged estimates, the oldest first; the newest of each class count."""
    newest: dict[str, deque[Judged]] = {}
    for one in judged:
        for name in (one.of, ""):
            newest.setdefault(name, deque(maxlen=NEWEST)).append(one)
    return Calibration({name: _record(list(own)) for name, own in newest.items()})


def _record(own: list[Judged]) -> Record:
    started = np.array([one.started_s for one in own])
    early, likely, late = np.array([one.drawn for one in own]).T
    before = (likely - started) / np.maximum(likely - early, _LEAST_S)
    after = (started - likely) / np.maximum(late - likely, _LEAST_S)
    return Record(
        len(own),
        float(np.mean([one.is_covered for one in own])),
        float(np.median([one.error_s for one in own])),
        _factor(before),
        _factor(after),
    )


def _factor(ratios: Floats) -> float:
    """By how much one side must be wider to leave out its part of what happened, and no more."""
    left_out = (1.0 - _AIMS_AT) / 2
    level = min(np.ceil((1.0 - left_out) * (len(ratios) + 1)) / len(ratios), 1.0)
    return float(np.clip(np.quantile(ratios, level), _NARROWEST, _WIDEST))
