"""`nodegroup`: queues run on groups of nodes; `tdm`: nodes that are lent for part of the day."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from muster.api.volcano import NODE_GROUP, REVOCABLE_ZONE
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.batch_terms import QueueTerms
from muster.model.shapes import Shape
from muster.model.status import TaskStatus
from muster.numerics.arrays import Bools, Floats

_FULL, _PREFERRED = 100.0, 50.0
_DAY_MIN = 24 * 60


class NodeGroups:
    """Volcano's `nodegroup`, by the label `volcano.sh/nodegroup-name` and the queues' affinity.

    What a node is to a queue cannot depend on the pod, so the answer is by queue.
    """

    name = "nodegroup"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("strict", "enablePreferredOrder"))
        self._is_strict = arguments.key("strict").flag(True)
        self._is_ordered = arguments.key("enablePreferredOrder").flag(False)

    def open(self, view: View) -> SessionPlugin:
        return _Groups(view, self._is_strict, self._is_ordered)


class _Groups(TieredPlugin):
    def __init__(self, view: View, is_strict: bool, is_ordered: bool) -> None:
        self._snapshot, self._is_strict, self._is_ordered = view.snapshot, is_strict, is_ordered
        records = view.snapshot.nodes.records
        self._group = [record.labels.get(NODE_GROUP, "") for record in records]

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def job_nodes(self, job: int) -> tuple[Bools, Floats]:
        queue = int(self._snapshot.jobs.queue[job])
        terms = self._groups.queue(queue)
        score = np.array([self._score(terms, group) for group in self._group], dtype=np.float64)
        return np.isfinite(score), np.where(np.isfinite(score), score, 0.0)

    def _score(self, terms: QueueTerms, group: str) -> float:
        """-inf where the queue may not use the group."""
        wishes = (terms.affinity, terms.preferred, terms.anti_affinity, terms.anti_preferred)
        if not group:
            is_open = not self._is_strict and not any(wishes)
            return 0.0 if is_open else -np.inf
        if group in terms.anti_affinity:
            return -np.inf
        if group in terms.anti_preferred:
            return -1.0
        if group in terms.affinity:
            return _FULL
        if group in terms.preferred:
            place, count = terms.preferred.index(group), len(terms.preferred)
            return _PREFERRED * (count - place) / count if self._is_ordered else _PREFERRED
        return -np.inf


class TimeDivision:
    """Volcano's `tdm`: nodes with the label `volcano.sh/revocable-zone` take, while their zone is
    open, only pods that say that they may be sent away. A window may go over midnight.
    """

    name = "tdm"

    def __init__(self, arguments: Reader) -> None:
        self._windows: dict[str, tuple[int, int]] = {}
        for key, value in arguments.items():
            if key.startswith("tdm.revocable-zone."):
                self._windows[key.removeprefix("tdm.revocable-zone.")] = _window(value)
        known = [key for key, _ in arguments.items() if key.startswith("tdm.revocable-zone.")]
        arguments.allow_only((*known, "tdm.evict.period", "tdm.evict.max-num"))
        arguments.key("tdm.evict.period").duration_s(60.0)

    def open(self, view: View) -> SessionPlugin:
        return _Zones(view, self._windows)


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

    def __init__(self, view: View, windows: Mapping[str, tuple[int, int]]) -> None:
        self._view, self._windows = view, windows
        now = datetime.fromtimestamp(view.now_s, UTC)
        self._minute = now.hour * 60 + now.minute
        records = view.snapshot.nodes.records
        self._zone = [record.labels.get(REVOCABLE_ZONE, "") for record in records]

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def next_change_s(self) -> float:
        """At the next full minute at which a window opens or closes."""
        edges = {edge % _DAY_MIN for window in self._windows.values() for edge in window}
        waits = [(edge - self._minute) % _DAY_MIN or _DAY_MIN for edge in edges]
        start_s = self._view.now_s - self._view.now_s % 60
        return start_s + 60 * min(waits) if waits else np.inf

    def _is_open(self, zone: str) -> bool:
        if zone not in self._windows:
            return False
        start, end = self._windows[zone]
        if start <= end:
            return start <= self._minute < end
        return self._minute >= start or self._minute < end

    def task_nodes(self, task: int) -> tuple[Bools, Floats]:
        may_go = REVOCABLE_ZONE in self._groups.pod(task).notes
        lent = np.array([bool(zone) for zone in self._zone], dtype=np.bool_)
        is_open = np.array([self._is_open(zone) for zone in self._zone], dtype=np.bool_)
        fits = ~lent | (is_open & may_go)
        return fits, np.where(lent & fits, _FULL, 0.0)

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.IRRELEVANT

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int] | None:
        """Who may be sent away himself sends nobody away."""
        if REVOCABLE_ZONE in self._groups.pod(task).notes:
            return []
        node = self._groups.ledger.node
        return [each for each in candidates if not self._zone[int(node[each])]]

    def victim_tasks(self, tasks: Sequence[int]) -> list[int]:
        """Pods on nodes whose zone has closed."""
        ledger = self._groups.ledger
        return [
            task
            for task in tasks
            if ledger.status[task] == TaskStatus.RUNNING
            and self._zone[int(ledger.node[task])]
            and not self._is_open(self._zone[int(ledger.node[task])])
            and self._groups.pod(task).is_preemptable
        ]
