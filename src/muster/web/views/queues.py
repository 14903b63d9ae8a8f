"""Queues: what each may have, has, asks for, and how it stands."""

from collections import Counter, defaultdict

import numpy as np

from muster.model.reason_codes import Category, Code
from muster.model.status import TaskStatus
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_RESOURCES
from muster.web.moment import Moment
from muster.web.shapes import Amounts, JobCounts, MinRuntime, Queue, Standing
from muster.web.views.job_columns import job_columns

_UNIT = {"cpu": 1000.0, "gpu": 1000.0}
_EVEN = 1e-6
_HOPELESS = (Category.BROKEN, Category.NEVER)
_NOBODY_OWES = frozenset(map(str, (Code.HELD, Code.GATED, Code.NON_PREEMPTIBLE_OVER_QUOTA)))
"""Why jobs wait who would not start whatever other queues gave back."""


def queues(moment: Moment) -> list[Queue]:
    """Parents before their children, else by name."""
    found: list[Queue] | None = moment.made.get("queues")
    if found is None:
        counted = _jobs(moment)
        found = [_queue(moment, row, depth, counted) for row, depth in _in_tree_order(moment)]
        moment.made["queues"] = found
    return found


def _in_tree_order(moment: Moment) -> list[tuple[int, int]]:
    """(row, depth). Rows are in name order."""
    parent = moment.snapshot.queues.parent.tolist()
    below: dict[int, list[int]] = defaultdict(list)
    for row, above in enumerate(parent):
        below[above].append(row)
    found: list[tuple[int, int]] = []
    stack = [(row, 0) for row in reversed(below[-1])]
    while stack:
        row, depth = stack.pop()
        found.append((row, depth))
        stack += [(child, depth + 1) for child in reversed(below[row])]
    return found


class _Jobs:
    """Jobs that run and wait in each queue, those of the queues below it among them."""

    def __init__(self, size: int) -> None:
        self.running = [0] * size
        self.waiting = [0] * size
        self.reasons = [Counter[str]() for _ in range(size)]
        self.hopeless_gpus = [0.0] * size
        """Asked for by jobs that do not start as they are, whatever becomes free."""


def _jobs(moment: Moment) -> _Jobs:
    queues, jobs = moment.snapshot.queues, moment.snapshot.jobs
    counted = _Jobs(len(queues))
    state = job_columns(moment).state
    asked = moment.per_job(moment.in_status(TaskStatus.PENDING), moment.task_gpus)
    for job in np.flatnonzero(jobs.live & (jobs.queue >= 0)).tolist():
        code = moment.code(job)
        is_hopeless = moment.category(job) in _HOPELESS or code in _NOBODY_OWES
        for queue in queues.chain[jobs.queue[job]].tolist():
            if queue < 0:
                break
            counted.running[queue] += state[job] == "Running"
            if state[job] == "Waiting":
                counted.waiting[queue] += 1
                if code:
                    counted.reasons[queue][code] += 1
                if is_hopeless:
                    counted.hopeless_gpus[queue] += float(asked[job])
    return counted


def _queue(moment: Moment, row: int, depth: int, counted: _Jobs) -> Queue:
    queues = moment.snapshot.queues
    record = queues.records[row]
    gpu = _amounts(moment, row, "gpu")
    return Queue(
        name=queues.names[row],
        parent=record.parent,
        depth=depth,
        leaf=bool(queues.is_leaf[row]),
        priority=int(queues.priority[row]),
        gpu=gpu,
        cpu=_amounts(moment, row, "cpu"),
        memory=_amounts(moment, row, "memory"),
        stands=_standing(gpu, gpu.asked - counted.hopeless_gpus[row]),
        jobs=JobCounts(counted.running[row], counted.waiting[row]),
        reasons=dict(sorted(counted.reasons[row].items())),
        min_runtime=MinRuntime(record.reclaim_min_runtime_s, record.preempt_min_runtime_s),
    )


def _amounts(moment: Moment, row: int, resource: str) -> Amounts:
    queues, shares = moment.snapshot.queues, moment.shares
    column, unit = QUEUE_RESOURCES.index(resource), _UNIT.get(resource, 1.0)
    return Amounts(
        quota=_bounded(queues.quota, row, column, unit),
        share=None if shares is None else _bounded(shares.fair_share, row, column, unit),
        used=int(queues.allocated[row, column]) / unit,
        limit=_bounded(queues.limit, row, column, unit),
        asked=int(queues.pending[row, column]) / unit,
        weight=float(queues.weight[row, column]),
        non_preemptible=int(queues.allocated_non_preemptible[row, column]) / unit,
        past=_past(moment, row, column),
    )


def _past(moment: Moment, row: int, column: int) -> float | None:
    """Where nobody is known to have used anything, it decides nothing."""
    usage = moment.snapshot.queues.usage[:, column]
    counts = moment.shares is not None and moment.shares.usage_weight > 0 and usage.any()
    return float(usage[row]) if counts else None


def _bounded(amounts: Floats, row: int, column: int, unit: float) -> float | None:
    amount = float(amounts[row, column])
    return None if amount < 0 or not np.isfinite(amount) else amount / unit


def _standing(gpu: Amounts, could_start: float) -> Standing:
    """Owed: what jobs ask for that could start, up to its share. Borrows: what it has beyond its
    share.
    """
    if gpu.share is None:
        return Standing("even", 0.0)
    owed = min(gpu.share - gpu.used, could_start)
    borrowed = gpu.used - gpu.share
    if owed > _EVEN:
        return Standing("owed", owed)
    return Standing("borrows", borrowed) if borrowed > _EVEN else Standing("even", 0.0)
