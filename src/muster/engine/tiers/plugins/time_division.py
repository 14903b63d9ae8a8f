"""`tdm`: nodes that are lent for part of the day (time division)."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from muster.api.volcano import (
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    PREEMPTABLE,
    REVOCABLE_ZONE,
)
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.groups import Groups
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.batch_build import flag
from muster.model.status import TaskStatus
from muster.numerics.arrays import Bools, Floats, Rows

_FULL = 100.0
_DAY_MIN = 24 * 60
_ZONE = "tdm.revocable-zone."
_EVERY_ZONE = "*"
_AT_ONCE = 1
"""Pods of a job that go together where its budget says nothing."""
_NO_LONGER = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


class TimeDivision:
    """Volcano's `tdm`: nodes with the label `volcano.sh/revocable-zone` take, while their zone is
    open, only pods that say that they may be sent away. A window may go over midnight; one that
    ends where it begins is the whole day. Once in `tdm.evict.period` those go whose zone has
    closed, as many of each job as its budget lets go.
    """

    name = "tdm"

    def __init__(self, arguments: Reader) -> None:
        self._windows: dict[str, tuple[int, int]] = {}
        for key, value in arguments.items():
            if key.startswith(_ZONE):
                self._windows[key.removeprefix(_ZONE)] = _window(value)
        known = [key for key, _ in arguments.items() if key.startswith(_ZONE)]
        arguments.allow_only((*known, "tdm.evict.period"))
        self._period_s = arguments.key("tdm.evict.period").duration_s(60.0)

    def open(self, view: View) -> SessionPlugin:
        return _Zones(view, self._windows, self._period_s)


def _window(value: Reader) -> tuple[int, int]:
    """Minutes of the day."""
    found = re.fullmatch(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})", value.text().strip())
    if found is None:
        raise value.wrong(f'"{value.text()}" is not a window such as "22:00-06:00"')
    hours = [int(part) for part in found.groups()]
    start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    if max(start, end) > _DAY_MIN:
        raise value.wrong(f'"{value.text()}" goes beyond 24:00')
    return start, end


class _Zones(TieredPlugin):
    depends_on_time = True

    def __init__(self, view: View, windows: Mapping[str, tuple[int, int]], period_s: float) -> None:
        self._view, self._windows, self._period_s = view, windows, period_s
        now = datetime.fromtimestamp(view.now_s, UTC)
        self._minute = now.hour * 60 + now.minute
        records = view.snapshot.nodes.records
        self._zone = [record.labels.get(REVOCABLE_ZONE, "") for record in records]
        self._is_lent: Bools = np.array([bool(zone) for zone in self._zone], dtype=np.bool_)
        self._is_open_now: Bools = np.array([self._is_open(z) for z in self._zone], dtype=np.bool_)

    def begin(self, tiers: Rules) -> None:
        self._tiers, self._groups = tiers, tiers.groups

    def next_change_s(self) -> float:
        """At the next full minute at which a window opens or closes; earlier, if not all could go
        at once whose zone has closed.
        """
        edges = {edge % _DAY_MIN for window in self._windows.values() for edge in window}
        waits = [(edge - self._minute) % _DAY_MIN or _DAY_MIN for edge in edges]
        start_s = self._view.now_s - self._view.now_s % 60
        at_s = start_s + 60 * min(waits) if waits else np.inf
        again_s = self._tiers.last_acted_s(TimeDivision.name) + self._period_s
        return min(at_s, again_s) if again_s > self._view.now_s else at_s

    def _is_open(self, zone: str) -> bool:
        if zone not in self._windows:
            return False
        start, end = self._windows[zone]
        if start < end:
            return start <= self._minute < end
        return self._minute >= start or self._minute < end

    # -- nodes ---------------------------------------------------------------------------------

    def looks_at_tasks(self, job: int) -> bool:
        return bool(self._is_lent.any())

    def task_nodes(self, task: int) -> Bools:
        if not self._is_lent.any():
            return ~self._is_lent
        zone = self._zone_of(task)
        if not zone:
            return ~self._is_lent
        its = np.array([zone in (_EVERY_ZONE, each) for each in self._zone], dtype=np.bool_)
        return ~self._is_lent | (self._is_open_now & its)

    def task_scores(self, task: int) -> Floats:
        return np.where(self._is_lent & self.task_nodes(task), _FULL, 0.0)

    def _zone_of(self, task: int) -> str:
        """Where the pod may run for a while: what it says, else everywhere if it says that it may
        be sent away.
        """
        notes = self._groups.pod(task).notes
        if REVOCABLE_ZONE in notes:
            return notes[REVOCABLE_ZONE]
        return _EVERY_ZONE if flag(notes.get(PREEMPTABLE), False) else ""

    # -- jobs ----------------------------------------------------------------------------------

    def job_keys(self, jobs: Rows) -> Floats:
        """Those that may not be sent away first."""
        keys = [float(self._may_be_sent_away(job)) for job in jobs.tolist()]
        return np.array(keys, dtype=np.float64).reshape(-1, 1)

    def job_pipelined(self, job: int) -> Vote:
        return Vote.PERMIT if self._groups.is_pipelined(job) else Vote.REJECT

    def job_starving(self, job: int) -> bool:
        return not self._may_be_sent_away(job) and len(self._groups.pending(job)) > 0

    def _may_be_sent_away(self, job: int) -> bool:
        return flag(self._groups.terms(job).notes.get(PREEMPTABLE), False)

    # -- victims -------------------------------------------------------------------------------

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        """Pods on ordinary nodes, as far as their jobs' budgets go. Who may be sent away himself
        sends nobody away.
        """
        if self._groups.pod(task).is_preemptable or self._zone_of(task):
            return []
        node = self._groups.ledger.node
        return self._within_budgets(
            [each for each in candidates if self._may_go(each) and not self._zone[int(node[each])]]
        )

    def victim_tasks(self, tasks: Sequence[int]) -> list[int]:
        """Pods on nodes whose zone has closed."""
        if self._view.now_s < self._tiers.last_acted_s(TimeDivision.name) + self._period_s:
            return []
        node = self._groups.ledger.node
        victims = self._within_budgets(
            [each for each in tasks if self._may_go(each) and self._has_closed(int(node[each]))]
        )
        if victims:
            self._tiers.acts(TimeDivision.name)
        return victims

    def _has_closed(self, node: int) -> bool:
        return bool(self._is_lent[node]) and not bool(self._is_open_now[node])

    def _may_go(self, task: int) -> bool:
        is_running = self._groups.ledger.status[task] == TaskStatus.RUNNING
        return bool(is_running) and self._groups.pod(task).is_preemptable

    def _within_budgets(self, candidates: list[int]) -> list[int]:
        left: dict[int, int] = {}
        victims = []
        for task in candidates:
            job = int(self._groups.snapshot.tasks.job[task])
            if job not in left:
                left[job] = disruptions_left(self._groups, job)
            if left[job] > 0:
                left[job] -= 1
                victims.append(task)
        return victims


def disruptions_left(groups: Groups, job: int) -> int:
    """How many pods of a job may go now by its budget (`volcano.sh/jdb-...`), which counts pods or
    says a part of them; one where it says nothing that can be read.
    """
    notes, status = groups.terms(job).notes, groups.ledger.status[groups.tasks(job)]
    running, count = int((status == TaskStatus.RUNNING).sum()), len(status)
    most = _pods(notes.get(JDB_MAX_UNAVAILABLE, ""), count)
    if most is not None:
        ended = int(np.isin(status, _NO_LONGER).sum())
        return max(most - (count - ended - running), 0)
    least = _pods(notes.get(JDB_MIN_AVAILABLE, ""), count)
    return _AT_ONCE if least is None else max(running - least, 0)


def _pods(text: str, count: int) -> int | None:
    """A number, or a part of `count` such as 25%, rounded up."""
    found = re.fullmatch(r"(\d{1,9})(%?)", text.strip(), re.ASCII)
    if found is None:
        return None
    number = int(found[1])
    return -(-number * count // 100) if found[2] else number
