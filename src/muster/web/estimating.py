"""When jobs start, said with what is known of earlier estimates; and how good those were."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from muster.base.log import Log
from muster.foresight.arrivals import Past
from muster.foresight.calibration import UNCALIBRATED, Calibration
from muster.foresight.estimates import EstimateLog
from muster.foresight.journal.reader import NoJournal
from muster.foresight.journal.runs import past_runs
from muster.foresight.outlook import SAMPLES
from muster.foresight.runtimes import PastRun
from muster.foresight.situation import Rules, Situation
from muster.foresight.whatif import Ahead, ahead
from muster.foresight.when import Asked, Estimate, when
from muster.foresight.work import expected_ends
from muster.model.record_changes import Delta
from muster.web.live import LiveCluster, Seen

T = TypeVar("T")
_BUDGET_S: Final = 5.0
_BUDGET_OF_PLANS_S: Final = 1.0
_SAMPLES_OF_PLANS: Final = 10
_LEARNED_S: Final = 8 * 86400.0
"""How far back runtimes are learned from."""
_LEARNS_EVERY_S: Final = 30.0


class Estimator:
    """Asked beside the event loop, by one question at a time."""

    def __init__(self, cluster: LiveCluster, record: EstimateLog, log: Log) -> None:
        self._cluster = cluster
        self._record = record
        self._log = log
        self._calibration = UNCALIBRATED
        self._made: tuple[Seen, Mapping[str, Estimate]] | None = None
        self._ends: tuple[Seen, Mapping[str, float]] | None = None
        self._learned: tuple[float, Sequence[PastRun]] | None = None

    def estimates(self, seen: Seen) -> Mapping[str, Estimate]:
        """Of all that wait; those of one state of the cluster are made once."""
        if self._made is None or self._made[0] is not seen:
            now_s, runs = seen.situation.now_s, self._runs(seen)
            calibration = self._judged(seen, runs)
            clock = self._cluster.clock.monotonic_s
            drawn = when(seen.situation, Past.of(runs), Asked(budget_s=_BUDGET_S), clock)
            self._recorded(lambda: self._record.keep(drawn.values(), calibration, now_s), None)
            found = {key: calibration.applied(one, now_s) for key, one in drawn.items()}
            self._made = (seen, found)
        return self._made[1]

    def foretold(self, seen: Seen, planned: Situation) -> Mapping[str, Estimate]:
        """Of all that would wait if something else were there too. Nobody judges these."""
        runs, clock = self._runs(seen), self._cluster.clock.monotonic_s
        asked = Asked(samples=_SAMPLES_OF_PLANS, budget_s=_BUDGET_OF_PLANS_S)
        drawn = when(planned, Past.of(runs), asked, clock)
        applied = self._calibration.applied
        return {key: applied(one, planned.now_s) for key, one in drawn.items()}

    def ahead(self, seen: Seen, edit: Delta, rules: Rules | None, horizon_s: float) -> Ahead:
        """The hours after a change, beside those without it."""
        asked = Asked(samples=SAMPLES, horizon_s=horizon_s, budget_s=_BUDGET_S)
        past, clock = Past.of(self._runs(seen)), self._cluster.clock.monotonic_s
        return ahead(seen.situation, seen.state, edit, rules, past, asked, clock)

    def ends(self, seen: Seen) -> Mapping[str, float]:
        """When jobs that run are expected to end."""
        if self._ends is None or self._ends[0] is not seen:
            situation = seen.situation
            found = expected_ends(situation.left, self._runs(seen), situation.now_s)
            self._ends = (seen, found)
        return self._ends[1]

    def records(self, seen: Seen) -> list[dict[str, Any]]:
        """How good past estimates were, by class; "" is all together."""
        return [
            {
                "of": name,
                "judged": record.judged,
                "coverage": round(record.coverage, 3),
                "median_error_s": round(record.error_s),
                "is_withheld": record.is_bad,
            }
            for name, record in sorted(self._judged(seen, ()).records.items())
        ]

    def _runs(self, seen: Seen) -> Sequence[PastRun]:
        """Read once in a while: the newest runs teach little, and there are many."""
        now_s = seen.situation.now_s
        if self._learned is None or not 0 <= now_s - self._learned[0] < _LEARNS_EVERY_S:
            self._learned = (now_s, self._past_runs(now_s))
        return self._learned[1]

    def _past_runs(self, now_s: float) -> Sequence[PastRun]:
        if (folder := self._cluster.journal_folder) is not None:
            with suppress(NoJournal):
                return past_runs(folder, now_s - _LEARNED_S)
        return ()

    def _judged(self, seen: Seen, runs: Sequence[PastRun]) -> Calibration:
        def judged() -> Calibration:
            self._record.judge(seen.situation.snapshot, runs)
            return self._record.calibration()

        self._calibration = self._recorded(judged, self._calibration)
        return self._calibration

    def _recorded(self, act: Callable[[], T], without: T) -> T:
        """What the record says; one that fails takes no estimate from anybody."""
        try:
            return act()
        except (sqlite3.Error, msgspec.DecodeError) as error:
            self._log.warning("record of estimates not used", why=str(error))
            return without
