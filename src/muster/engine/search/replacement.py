"""Other places for victims, as far as there are some.

Victims are served in the order in which they were evicted. Those that are one task each and want
only resources are served together by a kernel, the others one by one.
"""

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from muster.engine.hooks import Dependence
from muster.engine.node_choice import is_compiled, packing_of, preferences
from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.search.atomic_disruption import is_disrupted_atomically, place_all_again
from muster.engine.search.candidates import VictimSearch
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.model.shapes import Shape
from muster.numerics import fit, place_victims
from muster.numerics.arrays import Rows
from muster.numerics.divide import UNLIMITED


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
    if shape.gpu.claimed:
        return True
    ledger, may_use = session.ledger, session.answers(shape).fits
    return bool(fit.has_room_later(ledger.handle, row, may_use))


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
    if not is_compiled(session, shape):
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
    ledger, demand = session.ledger, session.snapshot.demand
    shape_of = session.snapshot.tasks.shape[victims]
    rows, row = np.unique(shape_of, return_inverse=True)
    sharing = demand.sharing[shape_of]
    ledger.reserve(len(victims), int(demand.shares[sharing[sharing >= 0]].sum()))
    start = statement.checkpoint()
    place_victims.place_again(
        ledger.handle,
        victims,
        row.reshape(-1),
        _shapes(session, rows),
        preferences(session),
    )
    statement.notify_since(start)


def _shapes(session: Session, rows: Rows) -> place_victims.VictimShapes:
    shapes = [session.snapshot.shapes[row] for row in rows.tolist()]
    answers = [session.answers(shape) for shape in shapes]
    packing = np.array([packing_of(session, shape) for shape in shapes], dtype=np.int64)
    return place_victims.VictimShapes(
        fits=np.array([each.fits for each in answers], dtype=np.bool_),
        score=np.array([each.score for each in answers], dtype=np.float64),
        packing=np.ascontiguousarray(packing[:, 0]),
        column=np.ascontiguousarray(packing[:, 1]),
    )
