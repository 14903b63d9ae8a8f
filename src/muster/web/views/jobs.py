"""Jobs: what runs, what waits and why, in a list, by shape, and one on a page."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from muster.model.public_reasons import PublicReason
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU
from muster.web.moment import Moment
from muster.web.shapes import GpuCounts, Job, JobPage, Pod, PodCounts, Reason, Shape

_UNIT = {"cpu": 1000.0, "gpu": float(GPU_UNIT)}
_S = TaskStatus
_HOLDS = (_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are asked for; what is "" is not asked about."""

    state: str = ""
    queue: str = ""
    namespace: str = ""
    user: str = ""
    code: str = ""
    category: str = ""
    shape: str = ""
    node: str = ""
    search: str = ""
    visible: frozenset[str] | None = None
    """Namespaces that may be listed; None: all. Nobody writes it into a question."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls) if field.name != "visible")


def states(moment: Moment) -> list[str]:
    """[J] Running: its minimum does; Waiting: pods of it wait; Starting: on its way; else Ended."""
    snapshot = moment.snapshot
    runs = moment.per_job(moment.in_status(_S.RUNNING))
    holds = moment.per_job(moment.in_status(*_HOLDS))
    waits = moment.per_job(moment.in_status(_S.PENDING, _S.GATED))
    minimum = _minimum(moment)
    found = np.full(len(snapshot.jobs.keys), "Ended", dtype=object)
    found[holds > 0] = "Starting"
    found[(waits > 0) & (holds < np.maximum(minimum, 1))] = "Waiting"
    found[(runs > 0) & (runs >= minimum)] = "Running"
    return list(found)


def _minimum(moment: Moment) -> Any:
    """[J] the pods that a job needs in all: what its sub-groups need together."""
    leaves = moment.snapshot.leaves
    size = len(moment.snapshot.jobs.keys)
    is_used = leaves.job >= 0
    return np.bincount(leaves.job[is_used], leaves.minimum[is_used], size).astype(int)


class _Counts:
    """What is counted for all jobs at once."""

    def __init__(self, moment: Moment) -> None:
        is_held = moment.in_status(*ACTIVE_USED)
        waits = moment.in_status(_S.PENDING, _S.GATED)
        self.state = states(moment)
        self.running = moment.per_job(moment.in_status(_S.RUNNING))
        self.pods = moment.per_job(is_held | waits)
        self.minimum = _minimum(moment)
        self.held = moment.per_job(is_held, moment.task_gpus)
        self.asked = moment.per_job(is_held | waits, moment.task_gpus)
        self.nodes = _node_counts(moment)
        self.shape = _waiting_shape(moment)


def jobs(moment: Moment, wanted: Filter, sort: str = "") -> list[Job]:
    """Those that match, by queue, then age; `sort`: a field, "-" before it for descending."""
    return page(moment, wanted, sort)[1]


def page(
    moment: Moment, wanted: Filter, sort: str = "", first: int = 0, end: int | None = None
) -> tuple[int, list[Job]]:
    """How many match, and some of them: only those are made."""
    counts = _Counts(moment)
    columns = moment.snapshot.jobs
    rows = [row for row in np.flatnonzero(columns.live).tolist() if counts.state[row] != "Ended"]
    on_node = _jobs_on(moment, wanted.node) if wanted.node else None
    found = [
        row
        for row in rows
        if (on_node is None or row in on_node) and _matches(moment, counts, row, wanted)
    ]
    found.sort(key=lambda row: _default_order(moment, row))
    key = _SORTS.get(sort.removeprefix("-"))
    if key is not None:
        found.sort(key=lambda row: key(moment, counts, row), reverse=sort.startswith("-"))
    return len(found), [_job(moment, counts, row) for row in found[first:end]]


def job_page(moment: Moment, key: str) -> JobPage | None:
    """One job with its pods and all that was found; None: there is no such."""
    row = moment.snapshot.jobs.row.get(key)
    if row is None:
        return None
    why = moment.why.get(row)
    return JobPage(
        _job(moment, _Counts(moment), row),
        tuple(_pods(moment, row)),
        () if why is None else tuple(map(_reason, why.reasons)),
        () if why is None else tuple(map(_reason, why.no_eviction_because)),
    )


def shapes(moment: Moment) -> list[Shape]:
    """Waiting work by what each pod asks for, the most GPUs first."""
    counts = _Counts(moment)
    by_shape: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(moment.snapshot.jobs.live).tolist():
        if counts.state[row] == "Waiting" and counts.shape[row] >= 0:
            by_shape[counts.shape[row]].append(row)
    found = [_shape(moment, counts, shape, rows) for shape, rows in by_shape.items()]
    return sorted(found, key=lambda shape: (-shape.asked, shape.id))


def _shape(moment: Moment, counts: _Counts, shape: int, rows: Sequence[int]) -> Shape:
    snapshot = moment.snapshot
    asked = snapshot.axis.amounts(snapshot.demand.request[shape])
    each = {name: amount / _UNIT.get(name, 1.0) for name, amount in asked.items()}
    if gpus := float(snapshot.demand.queue_units[shape, QUEUE_GPU]) / GPU_UNIT:
        each["gpu"] = gpus
    codes = Counter(moment.code(row) for row in rows if row in moment.why)
    records = [snapshot.jobs.records[row] for row in rows]
    return Shape(
        id=shape,
        jobs=len(rows),
        pods=int(sum(counts.pods[rows])),
        each=each,
        queues=tuple(sorted({record.queue for record in records})),
        asked=float(sum(counts.asked[rows])),
        reason=codes.most_common(1)[0][0] if codes else "",
        oldest=min(record.created_s for record in records),
    )


def _job(moment: Moment, counts: _Counts, row: int) -> Job:
    columns = moment.snapshot.jobs
    record = columns.records[row]
    why = moment.why.get(row) if counts.state[row] == "Waiting" else None
    return Job(
        key=columns.keys[row],
        kind=record.owner_kind,
        queue=record.queue,
        user=record.user,
        state=counts.state[row],
        priority=record.priority,
        preemptible=record.is_preemptible,
        pods=PodCounts(int(counts.running[row]), int(counts.minimum[row]), int(counts.pods[row])),
        gpus=GpuCounts(float(counts.asked[row]), float(counts.held[row])),
        shape=counts.shape[row],
        reason=None if why is None else _reason(why.dominant),
        created=record.created_s,
        started=record.last_start_s,
        nodes=counts.nodes[row],
    )


def _reason(reason: PublicReason) -> Reason:
    return Reason(
        str(reason.code), str(reason.category), reason.sentence, reason.subject, reason.next_step
    )


def _pods(moment: Moment, job: int) -> Iterable[Pod]:
    tasks, nodes = moment.snapshot.tasks, moment.snapshot.nodes
    for leaf in moment.snapshot.leaves_of_job(job).tolist():
        for row in moment.snapshot.tasks_of_leaf(leaf).tolist():
            record, at = tasks.records[row], int(tasks.node[row])
            yield Pod(
                record.name,
                nodes.names[at] if at >= 0 else "",
                float(moment.task_gpus[row]),
                TaskStatus(int(tasks.status[row])).name.replace("_", " ").capitalize(),
            )


def _matches(moment: Moment, counts: _Counts, row: int, wanted: Filter) -> bool:
    columns = moment.snapshot.jobs
    key, queue = columns.keys[row], columns.records[row].queue
    return (
        (wanted.visible is None or key.partition("/")[0] in wanted.visible)
        and (not wanted.state or counts.state[row].lower() == wanted.state.lower())
        and (not wanted.queue or _is_below(moment, row, wanted.queue))
        and (not wanted.namespace or key.startswith(f"{wanted.namespace}/"))
        and (not wanted.user or columns.records[row].user == wanted.user)
        and (not wanted.code or moment.code(row) == wanted.code)
        and (not wanted.category or moment.category(row) == wanted.category)
        and (not wanted.shape or str(counts.shape[row]) == wanted.shape)
        and (not wanted.search or wanted.search in key or wanted.search in queue)
    )


def _is_below(moment: Moment, job: int, queue: str) -> bool:
    """Whether the job is in that queue or in one below it."""
    columns, queues = moment.snapshot.jobs, moment.snapshot.queues
    wanted, at = queues.row.get(queue), int(columns.queue[job])
    if wanted is None or at < 0:
        return columns.records[job].queue == queue
    return wanted in queues.chain[at].tolist()


def _jobs_on(moment: Moment, node: str) -> set[int]:
    at = moment.snapshot.nodes.row.get(node, -1)
    tasks, rows = moment.snapshot.tasks, moment.on_node
    return set(tasks.job[rows[tasks.node[rows] == at]].tolist())


def _node_counts(moment: Moment) -> list[int]:
    """[J] on how many nodes a job is."""
    tasks, rows = moment.snapshot.tasks, moment.on_node
    rows = rows[tasks.job[rows] >= 0]
    pairs = np.unique(np.stack((tasks.job[rows], tasks.node[rows])), axis=1)
    counted: list[int] = np.bincount(pairs[0], minlength=len(moment.snapshot.jobs.keys)).tolist()
    return counted


def _waiting_shape(moment: Moment) -> list[int]:
    """[J] the shape of the first pod that waits, else of the first; -1: it has no pods."""
    tasks = moment.snapshot.tasks
    found = np.full(len(moment.snapshot.jobs.keys), -1)
    rows = np.flatnonzero(tasks.live & (tasks.job >= 0))[::-1]
    found[tasks.job[rows]] = tasks.shape[rows]
    waits = rows[moment.in_status(_S.PENDING)[rows]]
    found[tasks.job[waits]] = tasks.shape[waits]
    shape: list[int] = found.tolist()
    return shape


def _default_order(moment: Moment, row: int) -> Any:
    record = moment.snapshot.jobs.records[row]
    return record.queue, record.created_s, record.key


_SORTS: dict[str, Callable[[Moment, _Counts, int], Any]] = {
    "key": lambda moment, counts, row: moment.snapshot.jobs.keys[row],
    "queue": lambda moment, counts, row: moment.snapshot.jobs.records[row].queue,
    "state": lambda moment, counts, row: counts.state[row],
    "priority": lambda moment, counts, row: moment.snapshot.jobs.records[row].priority,
    "gpus": lambda moment, counts, row: counts.asked[row],
    "pods": lambda moment, counts, row: counts.pods[row],
    "created": lambda moment, counts, row: moment.snapshot.jobs.records[row].created_s,
    "reason": lambda moment, counts, row: moment.code(row),
}
SORTS = tuple(_SORTS)
