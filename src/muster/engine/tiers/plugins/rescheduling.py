"""`rescheduling`: pods go from nodes that use much to where little is used (action `shuffle`).

Of Volcano's strategies there is one, `lowNodeUtilization`. Volcano takes any pod of a busy node;
here those stay that may not be evicted, that the system needs, whose gang would be cut, or that no
idle node could take now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.plugins.measured_use import MeasuredUse
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import PODS

_STRATEGY = "lowNodeUtilization"
_MEASURES = ("cpu", "memory", "pods")
_EQUAL = 1e-9
_NOT_READ = {
    "metricsPeriod": "the use of pods is read as often as the conf's metrics say",
    "queueSelector": "Volcano's design has it, Volcano does not read it; "
    "pods of all queues may go, those that volcano.sh/preemptable forbids excepted",
    "labelSelector": "Volcano's design has it, Volcano does not read it; "
    "pods of all labels may go, those that volcano.sh/preemptable forbids excepted",
}
"""Arguments that confs have, and why they change nothing."""


@dataclass(frozen=True, slots=True)
class _Strategy:
    """Parts of what a node has, by cpu, memory and pods."""

    low: Floats
    high: Floats
    fits_first: bool
    priority_below: int | None


class Rescheduling:
    """Volcano's `rescheduling`. `interval` is how long it waits after it sent somebody away."""

    name = "rescheduling"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("interval", "strategies", *_NOT_READ))
        for key, why in _NOT_READ.items():
            if not arguments.key(key).is_absent:
                arguments.key(key).has_no_effect(why)
        self._interval_s = arguments.key("interval").duration_s(300.0)
        listed = [_strategy(each) for each in arguments.key("strategies").elements()]
        if arguments.key("strategies").is_absent:
            listed = [_strategy(Reader({"name": _STRATEGY}, arguments.file))]
        self._strategies = [each for each in listed if each is not None]

    def open(self, view: View) -> SessionPlugin:
        return _Moves(view, self._interval_s, self._strategies)


def _strategy(reader: Reader) -> _Strategy | None:
    reader.allow_only(("name", "params"))
    if reader.key("name").text() != _STRATEGY:
        error = reader.key("name").wrong(f"no such strategy; known is {_STRATEGY}")
        if reader.on_unknown is None:
            raise error
        reader.on_unknown(error)
        return None
    params = reader.key("params")
    params.allow_only(("thresholds", "targetThresholds", "nodeFit", "thresholdPriority"))
    limit = params.key("thresholdPriority")
    return _Strategy(
        _parts(params.key("thresholds")),
        _parts(params.key("targetThresholds")),
        params.key("nodeFit").flag(True),
        None if limit.is_absent else limit.integer(),
    )


def _parts(reader: Reader) -> Floats:
    reader.allow_only((*_MEASURES, "pod"))
    found = {name: reader.key(name).number(100.0) for name in _MEASURES}
    if not reader.key("pod").is_absent:
        found["pods"] = reader.key("pod").number()
    return np.array([found[name] for name in _MEASURES]) / 100


class _Moves(TieredPlugin):
    depends_on_time = True

    def __init__(self, view: View, interval_s: float, strategies: Sequence[_Strategy]) -> None:
        self._view, self._interval_s, self._strategies = view, interval_s, strategies

    def begin(self, tiers: Rules) -> None:
        self._tiers = tiers

    def next_change_s(self) -> float:
        """When the interval ends; infinity once it has."""
        return self._waits_until_s if self._waits_until_s > self._view.now_s else np.inf

    @property
    def _waits_until_s(self) -> float:
        return self._tiers.last_acted_s(Rescheduling.name) + self._interval_s

    def victim_tasks(self, tasks: Sequence[int]) -> list[int]:
        if self._view.now_s < self._waits_until_s:
            return []
        for strategy in self._strategies:
            victims = _Round(self._view, self._tiers, strategy).victims(tasks)
            if victims:
                self._tiers.acts(Rescheduling.name)
                return victims
        return []


class _Round:
    """One strategy in one cycle."""

    def __init__(self, view: View, tiers: Rules, strategy: _Strategy) -> None:
        self._tiers, self._strategy = tiers, strategy
        self._use = MeasuredUse(view)
        nodes, snapshot = view.snapshot.nodes, view.snapshot
        self._tasks, self._ledger = snapshot.tasks, view.ledger
        slots: Ints = nodes.allocatable[:, PODS]
        taken = slots - view.ledger.idle[:, PODS]
        self._there: Floats = np.column_stack((self._use.there, slots.astype(np.float64)))
        pods = np.where(slots > 0, taken / np.maximum(slots, 1), 1.0)
        self._used: Floats = np.column_stack((self._use.expected(), pods))
        shut = [record.is_unschedulable or not record.is_ready for record in nodes.records]
        is_low = (self._used < strategy.low).all(axis=1) & ~np.array(shut, dtype=np.bool_)
        self._low: Bools = is_low & self._use.is_known
        self._high: Bools = self._is_busy(self._used) & self._use.is_known

    def victims(self, tasks: Sequence[int]) -> list[int]:
        if not self._low.any() or self._low.all() or not self._high.any():
            return []
        room = ((self._strategy.high - self._used) * self._there)[self._low].sum(axis=0)
        found: list[int] = []
        spare: dict[int, int] = {}
        on = self._by_node(tasks)
        for node in self._busiest_first():
            for task in sorted(on.get(node, ()), key=self._importance):
                if not self._is_busy(self._used[node : node + 1])[0] or (room <= 0).any():
                    break
                if not self._may_go(task, spare):
                    continue
                gone = self._amounts(task)
                room -= gone
                self._used[node] -= np.where(self._there[node] > 0, gone / self._there[node], 0.0)
                found.append(task)
        return found

    def _is_busy(self, used: Floats) -> Bools:
        return np.asarray((used > self._strategy.high + _EQUAL).any(axis=1))

    def _busiest_first(self) -> list[int]:
        rows: Rows = np.flatnonzero(self._high)
        ordered: list[int] = rows[np.argsort(-self._used[rows].sum(axis=1), kind="stable")].tolist()
        return ordered

    def _by_node(self, tasks: Sequence[int]) -> Mapping[int, list[int]]:
        on: dict[int, list[int]] = {}
        for task in tasks:
            on.setdefault(int(self._ledger.node[task]), []).append(task)
        return on

    def _importance(self, task: int) -> tuple[int, int, str]:
        """Low priority first, then who asks for least certainty."""
        record = self._tasks.records[task]
        free = bool(self._tiers.groups.is_best_effort[task])
        quality = 0 if free else 2 if record.constraints.is_guaranteed else 1
        return self._tiers.groups.priority(task), quality, record.uid

    def _may_go(self, task: int, spare: dict[int, int]) -> bool:
        groups, pod = self._tiers.groups, self._tiers.groups.pod(task)
        limit = self._strategy.priority_below
        if not pod.is_preemptable or pod.is_critical:
            return False
        if limit is not None and pod.priority >= limit:
            return False
        job = int(self._tasks.job[task])
        if job not in spare:
            is_cut = groups.minimum(job) > 1
            spare[job] = max(groups.ready(job) - groups.minimum(job), 0) if is_cut else 1 << 30
        if not spare[job]:
            return False
        if self._strategy.fits_first and not self._tiers.could_start_on(task, self._low):
            return False
        spare[job] -= 1
        return True

    def _amounts(self, task: int) -> Floats:
        return np.append(self._use.of_task[task], 1.0)
