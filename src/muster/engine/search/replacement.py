"""Other places for victims, as far as there are some.

Victims are served in the order in which they were evicted. Those that are one task each and want
only resources are served together by a kernel, the others one by one.
"""

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from muster.engine.hooks import Dependence
from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.search.atomic_disruption import is_disrupted_atomically, place_all_again
from muster.engine.search.candidates import VictimSearch
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.model.records import GpuKind
from muster.model.shapes import Shape
from muster.numerics import fit, place_victims
from muster.numerics.arrays import Rows
from muster.numerics.axis import CPU, GPU
from muster.numerics.divide import UNLIMITED

_PACKING = {
    "": place_victims.NO_PACKING,
    "binpack": place_victims.BINPACK,
    "spread": place_victims.SPREAD,
}


def replace_victims(search: VictimSearch, statement: Statement, victims: Rows) -> None:
    """Find other places for victims as far as there are some; a shape that failed is not tried
    again.
    """
    session = search.session
    tasks = session.snapshot.tasks
    roomy = {row for row in set(tasks.shape[victims].tolist()) if _has_room(session, row)}
    if not roomy:
        return
    within = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
    for is_simple, run in _runs(session, victims):
        if is_simple:
            _replace_together(session, statement, run)
            continue
        for job in dict.fromkeys(tasks.job[run].tolist()):
            first = int(run[tasks.job[run] == job][0])
            if int(tasks.shape[first]) not in roomy:
                continue
            attempt = Attempt(session, statement, job, within, may_start=False)
            is_back = (
                place_all_again(attempt)
                if is_disrupted_atomically(session, job)
                else isinstance(place_job(attempt), Placed)
            )
            if not is_back:
                roomy = {row for row in roomy if _has_room(session, row)}


def _has_room(session: Session, row: int) -> bool:
    """Whether some node has enough of everything for one such task."""
    shape = session.snapshot.shapes[row]
    if shape.is_shared:
        return True
    ledger, may_use = session.ledger, session.answers(shape).fits
    return bool(fit.has_room_later(ledger.idle, ledger.releasing, shape.request, may_use))


def _runs(session: Session, victims: Rows) -> Iterator[tuple[bool, Rows]]:
    """The victims, cut where simple ones and others follow each other; jobs are not cut."""
    jobs = session.snapshot.tasks.job[victims]
    simple = _SimpleJobs(session)
    known = {job: simple.include(job) for job in dict.fromkeys(jobs.tolist())}
    if all(known.values()):
        yield True, victims
        return
    for is_simple, group in groupby(known, known.__getitem__):
        yield is_simple, victims[np.isin(jobs, list(group))]


class _SimpleJobs:
    """Jobs that are one task each, which wants only resources, in queues without limits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_simple: dict[tuple[int, int], bool] = {}
        """By shape and queue."""

    def include(self, job: int) -> bool:
        snapshot = self._session.snapshot
        leaf = int(snapshot.jobs.leaves[snapshot.jobs.start[job]])
        first, end = snapshot.leaves.start[leaf], snapshot.leaves.start[leaf + 1]
        if not snapshot.jobs.is_plain[job] or end - first != 1:
            return False
        row = int(snapshot.tasks.shape[snapshot.leaves.tasks[first]])
        key = (row, int(snapshot.jobs.queue[job]))
        if key not in self._is_simple:
            self._is_simple[key] = self._is_one(snapshot.shapes[row], job)
        return self._is_simple[key]

    def _is_one(self, shape: Shape, job: int) -> bool:
        session = self._session
        return _wants_only_resources(session, shape, job) and not _is_limited(session, job)


def _wants_only_resources(session: Session, shape: Shape, job: int) -> bool:
    if shape.is_shared or shape.gpu.claimed or shape.gpu.kind is GpuKind.MEMORY:
        return False
    if session.refused_everywhere(shape, job) is not None:
        return False
    return session.answers(shape).dependence <= Dependence.STATIC


def _is_limited(session: Session, job: int) -> bool:
    """Whether a queue may be in the way of placing the job again."""
    if not session.policy.is_answered("over_capacity"):
        return False
    queues = session.snapshot.queues
    chain = queues.chain[session.snapshot.jobs.queue[job]]
    is_bounded = bool((queues.limit[chain[chain >= 0]] != UNLIMITED).any())
    return is_bounded or not session.policy.enforces_queue_bounds()


def _replace_together(session: Session, statement: Statement, victims: Rows) -> None:
    ledger, snapshot = session.ledger, session.snapshot
    rows, shape = np.unique(snapshot.tasks.shape[victims], return_inverse=True)
    nodes = place_victims.Nodes(ledger.idle, ledger.releasing.copy(), snapshot.nodes.allocatable)
    chosen = place_victims.best_nodes(
        nodes, _shapes(session, rows), shape.reshape(-1), float(session.availability_score)
    )
    stays = chosen == ledger.node[victims]
    for task in victims[stays].tolist():
        statement.restore(task)
    moves = (chosen >= 0) & ~stays
    if moves.any():
        statement.pipeline_all(victims[moves], chosen[moves])


def _shapes(session: Session, rows: Rows) -> place_victims.Shapes:
    shapes = [session.snapshot.shapes[row] for row in rows.tolist()]
    packing = session.packing
    answers = [session.answers(shape) for shape in shapes]
    return place_victims.Shapes(
        request=np.array([shape.request for shape in shapes], dtype=np.int64),
        fits=np.array([each.fits for each in answers], dtype=np.bool_),
        score=np.array([each.score for each in answers], dtype=np.float64),
        packing=np.array(
            [_PACKING[packing.gpu if shape.needs_gpu else packing.cpu] for shape in shapes],
            dtype=np.int64,
        ),
        column=np.array([GPU if shape.needs_gpu else CPU for shape in shapes], dtype=np.int64),
    )
