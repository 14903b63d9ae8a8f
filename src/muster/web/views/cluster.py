"""Lists of what there is: jobs and queues, as shapes."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from muster.base.timefmt import rfc3339
from muster.engine.session import Session
from muster.foresight.journal.events import gpus_of
from muster.foresight.why import Questions
from muster.model.public_reasons import why_of
from muster.model.records import UNLIMITED
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_RESOURCES
from muster.web.views.shapes import Amounts, JobView, QueueView

_SHOWN = {"gpu": 1000.0, "cpu": 1000.0, "memory": float(1 << 30)}
"""Units of the axis in one GPU, one core, one GiB."""


def job_views(questions: Questions) -> list[JobView]:
    """All jobs that have pods: those that wait first, in their order, then by name."""
    found = list(_jobs(questions))
    return sorted(found, key=lambda job: (job.place is None, job.place or 0, job.key))


def _jobs(questions: Questions) -> Iterator[JobView]:
    snapshot, result = questions.situation.snapshot, questions.situation.result
    tasks: dict[int, list[int]] = {}
    for row in np.flatnonzero(snapshot.tasks.live & (snapshot.tasks.job >= 0)).tolist():
        tasks.setdefault(int(snapshot.tasks.job[row]), []).append(row)
    for row, own in tasks.items():
        record = snapshot.jobs.records[row]
        pods = [snapshot.tasks.records[task] for task in own]
        held = [pod for pod in pods if pod.status in ACTIVE_ALLOCATED]
        pending = sum(pod.status is TaskStatus.PENDING for pod in pods)
        said = why_of(result.explanation.refusals.get(record.key, ()))
        place = questions.places.get(record.key)
        minimum = int(snapshot.leaves.minimum[snapshot.leaves_of_job(row)].sum())
        yield JobView(
            key=record.key,
            kind=record.owner_kind,
            queue=record.queue,
            user=record.user,
            state=str(questions.job_state(record.key)),
            priority=record.priority,
            preemptible=record.is_preemptible,
            pods={
                "running": len(held),
                "waiting": pending,
                "min": minimum,
                "all": len(pods),
            },
            gpus={"asked": sum(map(gpus_of, pods)), "held": sum(map(gpus_of, held))},
            code=str(said.dominant.code) if said else "",
            category=str(said.dominant.category) if said else "",
            message=said.dominant.sentence if said else "",
            place=place.overall if place else None,
            created=rfc3339(record.created_s),
            nodes=sorted({pod.node for pod in held if pod.node}),
        )


def queue_views(questions: Questions) -> list[QueueView]:
    """The tree, parents before children, siblings by name."""
    situation = questions.situation
    snapshot = situation.snapshot
    jobs = job_views(questions)
    shares = fair_shares(questions)
    found = {}
    for row, name in enumerate(snapshot.queues.names):
        own = [job for job in jobs if job.queue == name]
        found[name] = QueueView(
            name=name,
            parent=snapshot.queues.records[row].parent,
            depth=int((snapshot.queues.chain[row] >= 0).sum()) - 1,
            leaf=bool(snapshot.queues.is_leaf[row]),
            priority=int(snapshot.queues.priority[row]),
            **{name: _amounts(snapshot, shares, row, name) for name in _SHOWN},
            jobs=dict(Counter(job.state for job in own)),
            reasons=dict(Counter(job.code for job in own if job.code)),
        )
    return sorted(found.values(), key=lambda queue: _path(snapshot, queue.name))


def fair_shares(questions: Questions) -> Floats | None:
    """By queue and resource, in the axis' units."""
    situation = questions.situation
    session = Session(situation.snapshot, situation.rules.policy, situation.now_s)
    shares = session.policy.queue_shares()
    return None if shares is None else shares.fair_share


def _amounts(snapshot: ClusterSnapshot, shares: Floats | None, row: int, resource: str) -> Amounts:
    queues, at, unit = snapshot.queues, QUEUE_RESOURCES.index(resource), _SHOWN[resource]
    return Amounts(
        quota=_bound(queues.quota[row, at], unit),
        share=None if shares is None else _bound(shares[row, at], unit),
        used=float(queues.allocated[row, at]) / unit,
        limit=_bound(queues.limit[row, at], unit),
        asked=float(queues.pending[row, at]) / unit,
        weight=float(queues.weight[row, at]),
    )


def _bound(value: float, unit: float) -> float | None:
    return None if value == UNLIMITED or not np.isfinite(value) else float(value) / unit


def _path(snapshot: ClusterSnapshot, name: str) -> list[str]:
    chain = snapshot.queues.chain[snapshot.queues.row[name]].tolist()
    return [snapshot.queues.names[row] for row in reversed(chain) if row >= 0]
