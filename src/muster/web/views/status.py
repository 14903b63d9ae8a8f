"""How the cluster is, in one value."""

from collections import Counter, defaultdict

import numpy as np

from muster.model.status import TaskStatus
from muster.web.moment import Moment
from muster.web.shapes import (
    Ailment,
    Cycle,
    Fits,
    Gpus,
    Longest,
    Owed,
    Queue,
    Status,
    Trouble,
    Undone,
    Waiting,
)
from muster.web.views.job_columns import job_columns
from muster.web.views.queues import queues

_TROUBLES_MAX = 20
_OWED_MAX = 50
_BORROWERS_MAX = 8
"""Status goes out with each change: with 500 queues all pairs would be 350 kB."""
_PENDING = (TaskStatus.PENDING, TaskStatus.GATED)


def status(moment: Moment, cluster: str = "", ailments: tuple[Ailment, ...] = ()) -> Status:
    return Status(
        cluster=cluster,
        rev=moment.revision,
        at=moment.at_s,
        gpus=_gpus(moment),
        fits=_fits(moment),
        jobs=_waiting(moment),
        owed=_owed(queues(moment)),
        nodes=_troubles(moment),
        cycle=Cycle(moment.cycle, moment.at_s, moment.took_s * 1000),
        longest=_longest(moment),
        undone=_undone(moment),
        ailments=ailments,
    )


def _gpus(moment: Moment) -> Gpus:
    everything, open_ = moment.node_gpus, moment.is_open
    out = float(everything[~open_].sum())
    free = float(moment.free_gpus.sum())
    total = float(everything.sum())
    # What is held of shared GPUs counts as much as in their queues; the rest of them is neither.
    used = round(float(np.minimum(moment.held_gpus, everything)[open_].sum()), 3)
    shared = round(max(total - out - free - used, 0.0), 3)
    return Gpus(all=total, used=used, free=free, out=out, shared=shared)


def _fits(moment: Moment) -> Fits:
    free, racks = moment.free_gpus, defaultdict[str, float](float)
    for rack, count in zip(moment.racks, free.tolist(), strict=True):
        if rack:
            racks[rack] += count
    best = int(np.argmax(free)) if len(free) else -1
    rack = max(sorted(racks), key=racks.__getitem__, default="")
    return Fits(
        node=float(free[best]) if best >= 0 else 0.0,
        rack=racks[rack] if rack else 0.0,
        all=float(free.sum()),
        node_name=moment.snapshot.nodes.names[best] if best >= 0 else "",
        rack_name=rack,
    )


def _waiting(moment: Moment) -> Waiting:
    state, live = job_columns(moment).state, moment.snapshot.jobs.live
    counts = Counter(state[row] for row in np.flatnonzero(live).tolist())
    waits = [row for row in np.flatnonzero(live).tolist() if state[row] == "Waiting"]
    asked = moment.per_job(moment.in_status(*_PENDING), moment.task_gpus)
    refused = [moment.why[row].dominant for row in waits if row in moment.why]
    codes = Counter(str(reason.code) for reason in refused)
    categories = Counter(str(reason.category) for reason in refused)
    return Waiting(
        running=counts["Running"],
        waiting=counts["Waiting"],
        asked=float(asked[waits].sum()),
        by_code=dict(sorted(codes.items())),
        by_category=dict(sorted(categories.items())),
    )


def _longest(moment: Moment) -> Longest | None:
    columns, live = job_columns(moment), moment.snapshot.jobs.live
    waits = np.flatnonzero(live & (columns.state == "Waiting")).tolist()
    if not waits:
        return None
    first = min(waits, key=lambda row: (columns.created[row], columns.key[row]))
    return Longest(columns.key[first], columns.created[first])


def _undone(moment: Moment) -> Undone | None:
    if not moment.undone:
        return None
    first = min(moment.undone, key=lambda job: (moment.undone[job], job))
    return Undone(len(moment.undone), moment.undone[first], first)


def _owed(found: list[Queue]) -> tuple[Owed, ...]:
    """Leaf queues that are owed, the most first, with those that borrow."""
    leaves = [queue for queue in found if queue.leaf]
    borrowers = sorted(
        (queue for queue in leaves if queue.stands.kind == "borrows"),
        key=lambda queue: (-queue.stands.gpus, queue.name),
    )
    names = tuple(queue.name for queue in borrowers[:_BORROWERS_MAX])
    owed = [queue for queue in leaves if queue.stands.kind == "owed"]
    owed.sort(key=lambda queue: (-queue.stands.gpus, queue.name))
    return tuple(Owed(queue.name, queue.stands.gpus, names) for queue in owed[:_OWED_MAX])


def _troubles(moment: Moment) -> tuple[Trouble, ...]:
    names = moment.snapshot.nodes.names
    found = (
        Trouble(names[row], state, moment.closed_since.get(names[row]))
        for row, state in enumerate(moment.node_states)
        if state != "ready"
    )
    return tuple(found)[:_TROUBLES_MAX]
