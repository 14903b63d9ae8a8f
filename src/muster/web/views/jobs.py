"""Jobs: what runs, what waits and why, in a list, by shape, and one on a page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from muster.api.group_names import group_meant
from muster.api.selectors import label_selector
from muster.model.public_reasons import PublicReason, public_reason
from muster.model.reasons import Reason as ReasonOf
from muster.model.reasons import Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.numerics.arrays import Bools, Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU
from muster.web.moment import Moment
from muster.web.shapes import GpuCounts, Job, JobPage, Pod, PodCounts, Reason, Shape
from muster.web.views.job_columns import JobColumns, job_columns

ENDED = "ended"
"""The state of jobs that are listed only where somebody asks for them."""
_UNIT = {"cpu": 1000.0, "gpu": float(GPU_UNIT)}


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
    pod: str = ""
    """NAMESPACE/NAME of a pod of it."""
    search: str = ""
    labels: str = ""
    """A selector as kubectl's `-l`."""
    visible: frozenset[str] | None = None
    """Namespaces that may be listed; None: all. Nobody writes it into a question."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls) if field.name != "visible")


def jobs(moment: Moment, wanted: Filter, sort: str = "") -> list[Job]:
    """Those that match, by queue, then age; `sort`: a field, "-" before it for descending."""
    return page(moment, wanted, sort)[1]


def page(
    moment: Moment, wanted: Filter, sort: str = "", first: int = 0, end: int | None = None
) -> tuple[int, list[Job]]:
    """How many match, and some of them: only those are made."""
    columns = job_columns(moment)
    listed = columns.ended if wanted.state == ENDED else columns.shown
    rows = listed[_matching(columns, wanted)[listed]].tolist()
    if name := _SORTS.get(sort.removeprefix("-")):
        values = getattr(columns, name)
        rows.sort(key=values.__getitem__, reverse=sort.startswith("-"))
    return len(rows), [_job(moment, columns, row) for row in rows[first:end]]


def job_page(moment: Moment, key: str) -> JobPage | None:
    """One job with its pods and all that was found; None: there is no such. A group of ours is
    found by the name of its owner too, as it is called."""
    row = moment.snapshot.jobs.row.get(job_meant(moment.snapshot, key))
    if row is None:
        return None
    why = moment.why.get(row)
    return JobPage(
        _job(moment, job_columns(moment), row),
        tuple(_pods(moment, row)),
        () if why is None else tuple(map(_reason, why.reasons)),
        () if why is None else tuple(map(_reason, why.no_eviction_because)),
    )


def job_meant(snapshot: ClusterSnapshot, key: str) -> str:
    """The key of the group that is meant by its own name or by that of what people submitted."""
    rows, records = snapshot.jobs.row, snapshot.jobs.records
    meant = group_meant(key, rows)
    if meant in rows:
        return meant
    namespace, _, name = key.partition("/")
    found = [
        known
        for known, row in rows.items()
        if known.startswith(f"{namespace}/") and name in _owners(records[row].known_as)
    ]
    return found[0] if len(found) == 1 else key


def _owners(known_as: Sequence[str]) -> list[str]:
    return [one.partition("/")[2] for one in known_as]


def shapes(moment: Moment, wanted: Filter | None = None) -> list[Shape]:
    """Waiting work that matches, by what each pod asks for, the most GPUs first."""
    counts = job_columns(moment)
    is_asked = moment.snapshot.jobs.live & _matching(counts, wanted or Filter())
    by_shape: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_asked).tolist():
        if counts.state[row] == "Waiting" and counts.shape[row] >= 0:
            by_shape[int(counts.shape[row])].append(row)
    found = [_shape(moment, counts, shape, rows) for shape, rows in by_shape.items()]
    return sorted(found, key=lambda shape: (-shape.asked, shape.id))


def _shape(moment: Moment, counts: JobColumns, shape: int, rows: Sequence[int]) -> Shape:
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


def _job(moment: Moment, counts: JobColumns, row: int) -> Job:
    columns = moment.snapshot.jobs
    record = columns.records[row]
    return Job(
        key=columns.keys[row],
        kind=record.owner_kind,
        known_as=record.known_as,
        queue=record.queue,
        user=record.user,
        state=counts.state[row],
        priority=record.priority,
        preemptible=record.is_preemptible,
        pods=PodCounts(int(counts.running[row]), int(counts.minimum[row]), int(counts.pods[row])),
        gpus=GpuCounts(float(counts.asked[row]), float(counts.held[row])),
        shape=int(counts.shape[row]),
        reason=_why(moment, counts, row),
        created=record.created_s,
        started=record.last_start_s,
        nodes=int(counts.nodes[row]),
    )


def _why(moment: Moment, counts: JobColumns, row: int) -> Reason | None:
    """Why it does not run, where it does not."""
    if counts.binds[row]:
        return _reason(public_reason(Refusal(ReasonOf.BINDS)))
    why = moment.why.get(row) if counts.state[row] == "Waiting" else None
    return None if why is None else _reason(why.dominant)


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


def _matching(columns: JobColumns, wanted: Filter) -> Bools:
    """[J] by one column after the other: only those that were asked about are looked at."""
    found = np.ones(len(columns.state), dtype=bool)
    for name in _EQUAL:
        if value := getattr(wanted, name):
            found &= getattr(columns, name) == value
    if wanted.state:
        found &= columns.state == wanted.state.capitalize()
    if wanted.shape:
        found &= columns.shape == (int(wanted.shape) if wanted.shape.isdecimal() else -1)
    if wanted.queue:
        found &= columns.below(wanted.queue)
    if wanted.node:
        found &= columns.on_node(wanted.node)
    if wanted.pod:
        found &= columns.with_pod(wanted.pod)
    if wanted.visible is not None:
        found &= np.isin(columns.namespace.astype(str), sorted(wanted.visible))
    if wanted.labels:
        found &= columns.labelled(np.flatnonzero(found), label_selector(wanted.labels))
    if wanted.search:
        found &= _named(columns, np.flatnonzero(found), wanted.search)
    return found


def _named(columns: JobColumns, rows: Rows, text: str) -> Bools:
    """Those of these rows that have the text in their name, that of their owner, or queue's."""
    found = np.zeros(len(columns.state), dtype=bool)
    key, queue, known_as = columns.key, columns.queue, columns.known_as
    found[
        [
            row
            for row in rows.tolist()
            if text in key[row] or text in queue[row] or any(text in one for one in known_as[row])
        ]
    ] = True
    return found


_EQUAL = ("namespace", "user", "code", "category")
_SORTS = {
    "key": "key",
    "queue": "queue",
    "state": "state",
    "priority": "priority",
    "gpus": "asked",
    "pods": "pods",
    "created": "created",
    "reason": "code",
}
"""Names of the question, and the columns that they are."""
SORTS = tuple(_SORTS)
