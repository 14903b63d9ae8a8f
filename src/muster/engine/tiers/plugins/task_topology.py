"""`task-topology`: which tasks of a job want to be on one node, and which do not.

The job's PodGroup says it in annotations: `volcano.sh/task-topology-affinity: "ps,worker;other"`
(roles that want to be together; one alone: its tasks do), `-anti-affinity` likewise, and
`-task-order: "ps,worker"`. Tasks are put into buckets, each meant for one node; a node is good for
a task as far as its bucket is there, or would find room there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.api.volcano import (
    TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
    TASK_TOPOLOGY_ORDER,
)
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.accounts import held_change
from muster.engine.tiers.groups import Groups
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.ledger import Entries
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import MEMORY, PODS

_FULL = 100.0
_SELF_ANTI, _TOGETHER, _SELF, _APART = 4, 3, 2, 1
_MIB = 1 << 20
_NO_BUCKET = -1
_ROLES_MAX = 256


class TaskTopology:
    """Volcano's `task-topology`."""

    name = "task-topology"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("task-topology.weight",))
        self._weight = arguments.key("task-topology.weight").integer(1)

    def open(self, view: View) -> SessionPlugin:
        return _Buckets(view, self._weight)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a job says of its roles, by their numbers: `likes` int64[roles, roles] is 1 for those
    that want to be together, `dislikes` for those that do not.
    """

    roles: Mapping[str, int]
    likes: Ints
    dislikes: Ints
    rank: Ints
    """Of each role: what goes first has more. int64[roles, 2]: as the job says, as wishes say."""


def wishes_of(notes: Mapping[str, str], roles: Iterable[str]) -> Wishes | None:
    """None where a job says nothing, or something that cannot be meant: a role that it has not, or
    the same one twice.
    """
    known = set(roles)
    together = _listed(notes.get(TASK_TOPOLOGY_AFFINITY, ""), known)
    apart = _listed(notes.get(TASK_TOPOLOGY_ANTI_AFFINITY, ""), known)
    order = _listed(notes.get(TASK_TOPOLOGY_ORDER, ""), known)
    if together is None or apart is None or order is None or not together + apart + order:
        return None
    first = order[0] if order else []
    number = {role: at for at, role in enumerate(sorted(known))}
    likes, importance = _pairs(together, number, _SELF, _TOGETHER)
    dislikes, more = _pairs(apart, number, _SELF_ANTI, _APART)
    said = np.array([len(first) - first.index(r) if r in first else 0 for r in sorted(known)])
    return Wishes(number, likes, dislikes, np.column_stack((said, np.maximum(importance, more))))


def _listed(text: str, known: set[str]) -> list[list[str]] | None:
    lists = [[role for role in one.split(",") if role] for one in text.split(";")]
    for each in lists:
        if set(each) - known or len(set(each)) < len(each) or len(known) > _ROLES_MAX:
            return None
    return [each for each in lists if each]


def _pairs(
    lists: list[list[str]], number: Mapping[str, int], alone: int, several: int
) -> tuple[Ints, Ints]:
    table = np.zeros((len(number), len(number)), dtype=np.int64)
    importance = np.zeros(len(number), dtype=np.int64)
    for roles in lists:
        rows = np.array([number[role] for role in roles], dtype=np.int64)
        importance[rows] = np.maximum(importance[rows], alone if len(rows) == 1 else several)
        if len(rows) == 1:
            table[rows, rows] = 1
            continue
        own = table[rows, rows].copy()
        table[np.ix_(rows, rows)] = 1
        table[rows, rows] = own
    return table, importance


@dataclass(slots=True)
class _Job:
    """A job with wishes: tasks are by place, as they were sorted."""

    wishes: Wishes
    tasks: Rows
    role: Rows
    bucket: Rows
    """Of each task; `_NO_BUCKET` for one whose role is in no wish."""
    place: Mapping[int, int]
    most: int
    """Tasks of the largest bucket."""
    on_node: dict[int, dict[int, int]] = field(default_factory=dict)
    """By bucket, by node: tasks that are there."""
    roles_on: dict[int, Ints] = field(default_factory=dict)
    """By node: tasks of each role that are there."""
    waiting: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


class _Buckets(TieredPlugin):
    def __init__(self, view: View, weight: int) -> None:
        self._view, self._weight = view, weight
        self._jobs: dict[int, _Job] = {}

    def begin(self, tiers: Rules) -> None:
        self._groups, jobs = tiers.groups, tiers.groups.snapshot.jobs
        for job in tiers.groups.jobs():
            if jobs.queue[job] >= 0 and len(tiers.groups.pending(job)):
                found = _job_of(tiers.groups, job)
                if found is not None:
                    self._jobs[job] = found

    def looks_at_tasks(self, job: int) -> bool:
        return job in self._jobs

    def on_ledger_change(self, entries: Entries) -> None:
        """What is taken back is taken out of its bucket's node again."""
        changes = held_change(entries).tolist()
        jobs = self._groups.snapshot.tasks.job[entries.task].tolist()
        for task, node, job, change in zip(
            entries.task.tolist(), entries.node.tolist(), jobs, changes, strict=True
        ):
            if change and job in self._jobs:
                _bind(self._jobs[job], task, node, change)

    # -- order ---------------------------------------------------------------------------------

    def task_keys(self, tasks: Rows) -> Floats:
        """Those in buckets first, the largest bucket first; in a bucket as the job says."""
        keys = np.zeros((len(tasks), 5))
        sizes: dict[int, Ints] = {}
        for at, task in enumerate(tasks.tolist()):
            job = int(self._groups.snapshot.tasks.job[task])
            found = self._jobs.get(job)
            bucket = found.bucket[found.place[task]] if found and task in found.place else -1
            if found is None or bucket == _NO_BUCKET:
                keys[at, 0] = 1.0
                continue
            if job not in sizes:
                waiting = found.bucket[found.waiting & (found.bucket >= 0)]
                sizes[job] = np.bincount(waiting, minlength=int(found.bucket.max()) + 1)
            rank = found.wishes.rank[found.role[found.place[task]]]
            keys[at] = (0.0, -float(sizes[job][bucket]), float(bucket), -rank[0], -rank[1])
        return keys

    # -- nodes ---------------------------------------------------------------------------------

    def task_scores(self, task: int) -> Floats:
        count = len(self._groups.snapshot.nodes)
        found = self._jobs.get(int(self._groups.snapshot.tasks.job[task]))
        if found is None or task not in found.place or not found.most:
            return np.zeros(count)
        at = found.place[task]
        bucket = int(found.bucket[at])
        if bucket == _NO_BUCKET:
            return np.zeros(count)
        score = self._would_fit(found, at, bucket).astype(np.float64)
        for node, there in found.on_node.get(bucket, {}).items():
            score[node] += there
        dislikes = found.wishes.dislikes[found.role[at]]
        if dislikes.any() and found.roles_on:
            nodes = np.array(list(found.roles_on), dtype=np.int64)
            score[nodes] -= np.array(list(found.roles_on.values())) @ dislikes
        return np.where(self._takes(task), score * (_FULL * self._weight / found.most), 0.0)

    def _takes(self, task: int) -> Bools:
        free, request = self._free(), self._groups.task_request(task)
        return np.asarray((free[:, request > 0] >= request[request > 0]).all(axis=1))

    def _free(self) -> Ints:
        free: Ints = self._view.ledger.idle + self._view.ledger.releasing
        return free

    def _would_fit(self, found: _Job, at: int, bucket: int) -> Ints:
        """How many of the bucket that still wait would find room on each node, the task itself
        among them: int64[N]. Those are left out first that come last.
        """
        free = self._free()
        mine = found.waiting & (found.bucket == bucket)
        mine[at] = False
        others = found.tasks[mine]
        shapes = self._groups.snapshot.tasks.shape[others]
        request = self._groups.request[self._groups.snapshot.tasks.shape[found.tasks[at]]]
        sums = np.cumsum(np.vstack((request[np.newaxis], self._groups.request[shapes])), axis=0)
        fits = np.full(len(free), len(sums), dtype=np.int64)
        for column in np.flatnonzero(sums[-1]).tolist():
            room = np.maximum(free[:, column], 0)
            fits = np.minimum(fits, np.searchsorted(sums[:, column], room, side="right"))
        return np.maximum(fits, 1)


def _bind(found: _Job, task: int, node: int, change: int) -> None:
    at = found.place.get(task)
    if at is None:
        return
    found.waiting[at] = change < 0
    bucket = int(found.bucket[at])
    if bucket != _NO_BUCKET:
        there = found.on_node.setdefault(bucket, {})
        there[node] = there.get(node, 0) + change
    roles = found.roles_on.setdefault(node, np.zeros(len(found.wishes.roles), dtype=np.int64))
    roles[found.role[at]] += change


def _job_of(groups: Groups, job: int) -> _Job | None:
    """The job's tasks in buckets, those that have nodes by node."""
    notes = groups.terms(job).notes
    if not notes.keys() & {TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY}:
        return None  # An order alone puts nobody into a bucket.
    tasks = groups.tasks(job)
    tasks = tasks[groups.snapshot.tasks.live[tasks]]
    names = [groups.pod(task).role for task in tasks.tolist()]
    wishes = wishes_of(notes, {name for name in names if name})
    if wishes is None:
        return None
    node = groups.ledger.node[tasks]
    keys = [
        _place_in_line(groups, wishes, int(task), name, int(on))
        for task, name, on in zip(tasks.tolist(), names, node.tolist(), strict=True)
    ]
    order = sorted(range(len(tasks)), key=keys.__getitem__)
    tasks, node = tasks[order], node[order]
    role = np.array([wishes.roles.get(names[at], -1) for at in order], dtype=np.int64)
    kept = role >= 0
    tasks, node, role = tasks[kept], node[kept], role[kept]
    bucket, most = _bucketed(groups, wishes, tasks, role, node)
    place = {int(task): at for at, task in enumerate(tasks.tolist())}
    found = _Job(wishes, tasks, role, bucket, place, most, waiting=node < 0)
    for task, on in zip(tasks[node >= 0].tolist(), node[node >= 0].tolist(), strict=True):
        _bind(found, task, on, 1)
    return found


def _place_in_line(
    groups: Groups, wishes: Wishes, task: int, role: str, node: int
) -> tuple[bool, int, int, int, str]:
    """Who has a node first, then by the order that the job says, then by what it wishes."""
    rank = wishes.rank[wishes.roles[role]] if role in wishes.roles else (0, 0)
    record = groups.snapshot.tasks.records[task]
    return node < 0, node, -int(rank[0]), -int(rank[1]), record.name


def _bucketed(
    groups: Groups, wishes: Wishes, tasks: Rows, role: Rows, node: Rows
) -> tuple[Rows, int]:
    """The bucket of each task, and the tasks of the largest one."""
    bucket = np.full(len(tasks), _NO_BUCKET, dtype=np.int64)
    counts = np.zeros((max(len(tasks), 1), len(wishes.roles)), dtype=np.int64)
    asked = np.zeros(max(len(tasks), 1))
    like = wishes.likes - wishes.dislikes
    weight = _weights(groups, tasks)
    by_node: dict[int, int] = {}
    there = 0
    for at in range(len(tasks)):
        if not wishes.rank[role[at], 1]:
            continue
        chosen = _NO_BUCKET
        if node[at] >= 0:
            chosen = by_node.get(int(node[at]), _NO_BUCKET)
        elif there:
            liked = counts[:there] @ like[role[at]]
            best = int(liked.max())
            if best >= 0:
                ties: Rows = np.flatnonzero(liked == best)
                chosen = int(ties[np.argmin(asked[ties])])
        if chosen == _NO_BUCKET:
            chosen, there = there, there + 1
            if node[at] >= 0:
                by_node[int(node[at])] = chosen
        bucket[at] = chosen
        counts[chosen, role[at]] += 1
        if node[at] < 0:
            asked[chosen] += weight[at]
    return bucket, int(counts.sum(axis=1).max(initial=0))


def _weights(groups: Groups, tasks: Sequence[int] | Rows) -> Floats:
    """What tasks ask for, in thousandths of cores, MiB and units of the rest."""
    rows = np.asarray(tasks, dtype=np.int64)
    request: Floats = groups.request[groups.snapshot.tasks.shape[rows]].astype(np.float64)
    request[:, PODS] = 0
    request[:, MEMORY] /= _MIB
    return np.asarray(request.sum(axis=1))
