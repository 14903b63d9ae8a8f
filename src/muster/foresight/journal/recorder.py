"""Keeps cycles: events, what changed in the input, and what became of what was decided.

One recorder for one process; it is called by one thread at a time, off the event loop.
"""

from collections import deque
from dataclasses import dataclass

from muster.engine.cycle import CycleResult
from muster.foresight.budget import is_cut_short
from muster.foresight.journal.delta import Seen
from muster.foresight.journal.events import Refused, events_of
from muster.foresight.journal.runs import RunTracker, encoded_run
from muster.foresight.journal.store import JournalStore, Recorded, RecordedRules
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ALLOCATED, TaskStatus

_WHOLE_EVERY = 256
_WHOLE_EVERY_S = 600.0
_PRUNE_EVERY_S = 60.0
_UNSETTLED_MAX = 1000


@dataclass(frozen=True, slots=True)
class Cycle:
    """What a cycle saw and decided, and by which rules."""

    snapshot: ClusterSnapshot
    result: CycleResult
    now_s: float
    rules: RecordedRules


@dataclass(frozen=True, slots=True)
class _Intended:
    number: int
    job: str
    binds: tuple[tuple[str, str], ...]
    """Pods and nodes."""
    evictions: tuple[tuple[str, str], ...]


class CycleRecorder:
    """Turns cycles into rows."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store
        self._seen = Seen()
        self._refused = Refused()
        self._runs = RunTracker()
        self._unsettled: deque[_Intended] = deque(maxlen=_UNSETTLED_MAX)
        self._whole_at_s = float("-inf")
        self._since_whole = 0
        self._pruned_at_s = float("-inf")

    def record(self, cycle: Cycle) -> int:
        """The number of the cycle. Raises sqlite3.Error, and begins with a whole input then."""
        try:
            return self._record(cycle)
        except BaseException:
            self.begin_anew()
            raise

    def begin_anew(self) -> None:
        """A cycle was not kept: the next one brings all of its input."""
        self._whole_at_s = float("-inf")

    def _record(self, cycle: Cycle) -> int:
        now_s, result = cycle.now_s, cycle.result
        is_whole = self._is_whole_due(now_s)
        if is_whole:
            self._seen.forget()
        self._settle(cycle.snapshot)
        number = self._store.add(
            Recorded(
                now_s,
                cycle.snapshot.generation,
                cycle.rules,
                result.plan,
                result.held,
                tuple(events_of(cycle.snapshot, result, now_s, self._refused)),
                self._seen.advance(cycle.snapshot.to_records()),
                is_whole,
                is_cut_short(result),
                result.acted_s,
            )
        )
        self._since_whole = 0 if is_whole else self._since_whole + 1
        self._whole_at_s = now_s if is_whole else self._whole_at_s
        self._intend(number, result)
        for run in self._runs.ended(cycle.snapshot, now_s):
            self._store.add_run(run.ended_s, run.job.key, encoded_run(run))
        # In between a busy cluster may write more than is to be kept.
        if now_s - self._pruned_at_s >= _PRUNE_EVERY_S or self._store.is_too_large():
            self._pruned_at_s = now_s
            self._store.prune(now_s)
        return number

    def _is_whole_due(self, now_s: float) -> bool:
        return self._since_whole >= _WHOLE_EVERY or now_s - self._whole_at_s >= _WHOLE_EVERY_S

    def _intend(self, number: int, result: CycleResult) -> None:
        binds: dict[str, list[tuple[str, str]]] = {}
        evictions: dict[str, list[tuple[str, str]]] = {}
        for bind in result.plan.binds:
            binds.setdefault(bind.job, []).append((bind.task, bind.node))
        for evict in result.plan.evictions:
            evictions.setdefault(evict.job, []).append((evict.task, evict.node))
        for job in dict.fromkeys((*binds, *evictions)):
            own = tuple(binds.get(job, ())), tuple(evictions.get(job, ()))
            self._unsettled.append(_Intended(number, job, *own))

    def _settle(self, snapshot: ClusterSnapshot) -> None:
        """Say of what was intended what the cluster shows of it now."""
        still: list[_Intended] = []
        for one in self._unsettled:
            if _is_done(snapshot, one):
                self._store.settle(one.number, one.job, "done")
            elif _is_undone(snapshot, one):
                self._store.settle(one.number, one.job, "not done")
            else:
                still.append(one)
        self._unsettled = deque(still, maxlen=_UNSETTLED_MAX)


_ARRIVED = ALLOCATED - {TaskStatus.ALLOCATED, TaskStatus.BINDING}


def _is_done(snapshot: ClusterSnapshot, intended: _Intended) -> bool:
    """Bound pods are on their nodes, evicted ones leave or left."""
    tasks = snapshot.tasks
    for uid, node in intended.binds:
        row = tasks.row.get(uid)
        if row is not None:
            record = tasks.records[row]
            if record.node != node or record.status not in _ARRIVED | _ENDED:
                return False
    for uid, node in intended.evictions:
        row = tasks.row.get(uid)
        if row is not None:
            record = tasks.records[row]
            if record.node == node and record.status in ALLOCATED:
                return False
    return True


def _is_undone(snapshot: ClusterSnapshot, intended: _Intended) -> bool:
    """A pod that was to be bound waits again."""
    tasks = snapshot.tasks
    rows = [tasks.row.get(uid) for uid, _ in intended.binds]
    return any(row is not None and tasks.records[row].status is TaskStatus.PENDING for row in rows)


_ENDED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.RELEASING})
