"""`nodegroup`: queues run on groups of nodes, by the label `volcano.sh/nodegroup-name`."""

from collections.abc import Mapping

import numpy as np

from muster.api.quantity import BadQuantity, parse
from muster.api.volcano import NODE_GROUP, NODE_GROUP_LIMITS
from muster.base.json_text import NotJson, parse_json
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.accounts import held_change
from muster.engine.tiers.groups import IS_HELD
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.batch_terms import QueueTerms
from muster.model.ledger import Entries
from muster.model.requests import resource_amounts
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import LARGEST_SUM

_REQUIRED, _PREFERRED, _UNWELCOME = 100.0, 50.0, -1.0
_DEEPEST = 32
_LIMITS_MAX = 1 << 16
"""Characters of the annotation that are read."""


class NodeGroups:
    """Volcano's `nodegroup`. What a node is to a queue cannot depend on the pod, so the answer is
    by queue; what a queue may hold of a group (`volcano.sh/nodegroup-resource-limits`) is by pod.
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
        self._known: dict[int, tuple[Bools, Floats]] = {}

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups
        self._inherits = tiers.is_hierarchical(NodeGroups.name)
        self._limits = _Limits(tiers, self._group)

    def on_ledger_change(self, entries: Entries) -> None:
        self._limits.on_ledger_change(entries)

    def job_nodes(self, job: int) -> Bools:
        return self._of(int(self._snapshot.jobs.queue[job]))[0]

    def job_scores(self, job: int) -> Floats:
        return self._of(int(self._snapshot.jobs.queue[job]))[1]

    def looks_at_tasks(self, job: int) -> bool:
        return self._limits.has_some

    def task_nodes(self, task: int) -> Bools:
        return self._limits.nodes_for(task)

    def _of(self, queue: int) -> tuple[Bools, Floats]:
        known = self._known.get(queue)
        if known is None:
            terms = self._terms(queue)
            fits = {group: self._fits(terms, group) for group in set(self._group)}
            score = {group: self._score(terms, group) for group in set(self._group)}
            known = self._known[queue] = (
                np.array([fits[group] for group in self._group], dtype=np.bool_),
                np.array([score[group] for group in self._group], dtype=np.float64),
            )
        return known

    def _terms(self, queue: int) -> QueueTerms:
        """Those of the queue; in a hierarchy of the nearest above it that says something."""
        found = self._groups.queue(queue)
        row = self._snapshot.queues.row
        for _ in range(_DEEPEST if self._inherits else 0):
            above = row.get(found.parent, -1) if found.parent else -1
            if _has_wishes(found) or above < 0:
                break
            found = self._groups.queue(above)
        return found if _has_wishes(found) else self._groups.queue(queue)

    def _fits(self, terms: QueueTerms, group: str) -> bool:
        if not group:
            return not self._is_strict and not _has_wishes(terms)
        if group in terms.anti_preferred:
            return True
        return group not in terms.anti_affinity and group in terms.affinity + terms.preferred

    def _score(self, terms: QueueTerms, group: str) -> float:
        if group in terms.anti_preferred:
            return _UNWELCOME
        score = _REQUIRED if group in terms.affinity else 0.0
        if group in terms.preferred:
            place, count = terms.preferred.index(group), len(terms.preferred)
            score += _PREFERRED * (count - place) / count if self._is_ordered else _PREFERRED
        return score


def _has_wishes(terms: QueueTerms) -> bool:
    return any((terms.affinity, terms.preferred, terms.anti_affinity, terms.anti_preferred))


class _Limits:
    """What queues may hold on groups of nodes, and hold there now."""

    def __init__(self, tiers: Rules, group: list[str]) -> None:
        self._groups, snapshot = tiers.groups, tiers.groups.snapshot
        self._tasks, self._queue_of_job = snapshot.tasks, snapshot.jobs.queue
        names = sorted(set(group))
        self._group = np.array([names.index(one) for one in group], dtype=np.int64)
        self._bound: dict[int, Ints] = {}
        for queue in range(len(snapshot.queues)):
            found = _limits_of(tiers.groups.queue(queue))
            if found:
                rows = [tiers.groups.bound(found.get(n, {}), LARGEST_SUM) for n in names]
                self._bound[queue] = np.array(rows)
        self._held: Ints = np.zeros(
            (len(snapshot.queues), len(names), len(snapshot.axis)), dtype=np.int64
        )
        if self._bound:
            tasks, status = snapshot.tasks, tiers.groups.ledger.status
            there = np.flatnonzero(tasks.live & (tasks.job >= 0) & IS_HELD[status])
            self._add(there, tiers.groups.ledger.node[there], np.ones(len(there), dtype=np.int64))

    @property
    def has_some(self) -> bool:
        return bool(self._bound)

    def on_ledger_change(self, entries: Entries) -> None:
        if self._bound:
            self._add(entries.task, entries.node, held_change(entries))

    def nodes_for(self, task: int) -> Bools:
        """Nodes of groups of which the task's queue may hold so much more: bool[N]."""
        queue = int(self._queue_of_job[self._tasks.job[task]])
        bound = self._bound.get(queue)
        if bound is None:
            return np.ones(len(self._group), dtype=np.bool_)
        request = self._groups.task_request(task)
        asked = request > 0
        used = self._held[queue] + request
        within: Bools = (used[:, asked] <= bound[:, asked]).all(axis=1)
        return within[self._group]

    def _add(self, tasks: Ints, nodes: Ints, sign: Ints) -> None:
        job = self._tasks.job[tasks]
        queue = np.where(job >= 0, self._queue_of_job[job], -1)
        known = (queue >= 0) & (nodes >= 0)
        amounts = self._groups.request[self._tasks.shape[tasks]] * sign[:, np.newaxis]
        np.add.at(self._held, (queue[known], self._group[nodes[known]]), amounts[known])


def _limits_of(terms: QueueTerms) -> dict[str, Mapping[str, int]]:
    """By group; what cannot be read bounds nothing."""
    text = terms.notes.get(NODE_GROUP_LIMITS, "")
    try:
        said = parse_json(text) if text and len(text) <= _LIMITS_MAX else None
    except NotJson:
        said = None
    found: dict[str, Mapping[str, int]] = {}
    for group, amounts in said.items() if isinstance(said, dict) else ():
        if isinstance(amounts, dict):
            found[str(group)] = _amounts(amounts)
    return found


def _amounts(said: Mapping[object, object]) -> Mapping[str, int]:
    read = {}
    for name, text in said.items():
        try:
            read[str(name)] = parse(str(text))
        except BadQuantity:
            continue
    return resource_amounts(read)
