"""The queue played forward: jobs end, jobs come, and allocate gives away what is free.

One drawn future at a time. Where the compiled run of `numerics.forward` knows all the rules, the
columns of one session are kept for all futures and put back between them; otherwise
`forward_by_sessions` opens a session for each look.
"""

from collections.abc import Callable, Sequence

import numpy as np

from muster.engine import kernel
from muster.engine.hooks import QueueShares
from muster.engine.ordering import JobQueue, Waiting
from muster.engine.plugins.elastic import ABOVE, AT
from muster.engine.session import Session
from muster.foresight import forward_by_sessions
from muster.foresight.course import Course, Future, IsOver
from muster.model.status import TaskStatus
from muster.numerics import allocate_state, divide
from muster.numerics import forward as numerics
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import QUEUE_UNIT
from muster.numerics.fit import LEAST_FRAGMENTATION

Player = Callable[[Future], Floats]
"""When jobs start in a future: float64[J], nan for who does not within the horizon."""

_KNOWN_KEYS = frozenset({"priority", "elastic"})
_ANSWERED = (allocate_state.ORDERED, allocate_state.SCORED, allocate_state.REFUSED)
_MUTABLE_LEDGER: tuple[str, ...] = (
    *("idle", "releasing", "status", "node", "counts", "queue_allocated"),
    *("queue_allocated_non_preemptible", "node_version", "decided_at", "size"),
)
_MUTABLE_ORDERS = ("order", "place", "free")
_MUTABLE_WORLD = ("waits", "chunk", "cursor", "started_s", "pending", "slots", "free_slots", "size")


def player(course: Course, asked: Sequence[int], is_over: IsOver = lambda: False) -> Player:
    """Plays futures until all jobs that are asked about have started. Compiled ones take tenths of
    a second and are played to their end; others raise `OutOfTime`.
    """
    compiled = _Compiled.of(course, asked)
    if compiled is not None:
        return compiled.starts
    return lambda future: forward_by_sessions.starts(course, future, asked, is_over)


class _Compiled:
    """The columns of one session, for one future after another."""

    @classmethod
    def of(cls, course: Course, asked: Sequence[int]) -> "_Compiled | None":
        """None: somebody waits, or a rule counts, that the compiled run does not know."""
        session = Session(course.snapshot, course.rules.policy, course.now_s)
        shares = session.policy.queue_shares()
        if shares is None or shares.claims is None or not kernel.suits(session):
            return None
        if session.configured.queue_depth or set(_key_sources(session)) - _KNOWN_KEYS:
            return None
        queue = JobQueue(session, "allocate", among=course.is_simulated)
        compiled = kernel.AllocateKernel(session, queue)
        for shape in _shapes(course, queue.waiting.tasks).tolist():
            compiled.answer(shape)
            if compiled.state.shapes.state[shape] not in _ANSWERED:
                return None
        if (compiled.state.shapes.packing == LEAST_FRAGMENTATION).any():
            return None
        if not course.snapshot.jobs.is_plain[queue.state.heap].all():
            return None
        return cls(course, asked, session, queue, compiled, shares)

    def __init__(
        self,
        course: Course,
        asked: Sequence[int],
        session: Session,
        queue: JobQueue,
        compiled: kernel.AllocateKernel,
        shares: QueueShares,
    ) -> None:
        self._course = course
        self._asked = np.array(asked, dtype=np.int64)
        self._ledger, self._state, self._heaps = session.ledger, compiled.state, queue.state
        self._shares = _shares(shares, session)
        self._world = _world(course, session, queue, compiled)
        self._world.is_asked[self._asked] = True
        numerics.count_chunks(self._ledger.handle, self._state, self._world)
        numerics.count_slots(self._ledger.handle, self._state, self._world)
        columns = session.ledger.columns
        self._kept: list[tuple[Ints | Floats, Ints | Floats]] = [
            (column, column.copy())
            for column in (
                *(getattr(columns, name) for name in _MUTABLE_LEDGER),
                *(getattr(self._state.orders, name) for name in _MUTABLE_ORDERS),
                *(getattr(self._world, name) for name in _MUTABLE_WORLD),
                self._state.waiting.cursor,
                queue.state.job_keys,
                queue.state.chunk,
            )
        ]

    def starts(self, future: Future) -> Floats:
        for column, before in self._kept:
            column[...] = before
        world, course = self._world, self._course
        world.size[numerics.ASKED] = len(self._asked)
        for at_s, kind in ((future.ends_s, numerics.ENDS), (future.comes_s, numerics.COMES)):
            for job in np.flatnonzero(np.isfinite(at_s)).tolist():
                numerics.push_event(world, float(at_s[job]), job, kind)
        span = numerics.Span(course.now_s, course.now_s + course.horizon_s, course.period_s)
        why = numerics.play(
            self._ledger.handle,
            self._state,
            self._heaps,
            world,
            self._shares,
            np.ascontiguousarray(future.runs_s),
            span,
            course.is_exact,
        )
        assert why == numerics.FINISHED, "everybody who waits was asked about before"
        return world.started_s.copy()


def _key_sources(session: Session) -> tuple[str, ...]:
    return session.policy.job_key_sources(np.flatnonzero(session.snapshot.jobs.live)[:1])


def _shapes(course: Course, tasks: Ints) -> Ints:
    return np.unique(course.snapshot.tasks.shape[tasks]).astype(np.int64)


def _shares(found: QueueShares, session: Session) -> numerics.Shares:
    claims = found.claims
    assert claims is not None
    total = np.array([amount / unit for amount, unit in zip(found.total, QUEUE_UNIT, strict=True)])
    return numerics.Shares(
        divide.forest_of(claims),
        _plain(claims.quota),
        _plain(claims.limit),
        _plain(session.snapshot.queues.limit),
        _plain(claims.weight),
        _plain(claims.usage),
        total,
        np.array([found.usage_weight]),
    )


def _plain(amounts: Floats) -> Floats:
    """In one memory layout, so that kernels are compiled for no other."""
    return np.ascontiguousarray(amounts, dtype=np.float64)


def _world(
    course: Course, session: Session, queue: JobQueue, compiled: kernel.AllocateKernel
) -> numerics.World:
    snapshot, waiting = course.snapshot, queue.waiting
    jobs, nodes = len(snapshot.jobs.live), len(snapshot.nodes)
    shapes = _shapes(course, waiting.tasks)
    slot_row = np.full(len(snapshot.shapes), -1, dtype=np.int64)
    slot_row[shapes] = np.arange(len(shapes))
    order = queue.state.heap.copy()
    waits = np.zeros(jobs, dtype=np.bool_)
    waits[order] = True
    waits[course.comes] = False
    start, rows = course.tasks_by_job
    only_shape = _only_shapes(snapshot.tasks.shape, waiting)
    kinds = _kinds(snapshot.jobs.queue, only_shape, queue.chunk, waiting)
    asks = snapshot.demand.request[shapes] > 0
    sources = _key_sources(session)
    column = sources.index("elastic") if "elastic" in sources else -1
    return numerics.World(
        task_start=start,
        tasks=rows,
        order=order,
        only_shape=only_shape,
        kind=kinds,
        queued=np.zeros(int(kinds.max(initial=0)) + 1, dtype=np.int64),
        waits=waits,
        chunk=np.zeros(jobs, dtype=np.int64),
        cursor=waiting.start[:-1].copy(),
        started_s=np.full(jobs, np.nan),
        is_asked=np.zeros(jobs, dtype=np.bool_),
        pending=_pending(course),
        slot_row=slot_row,
        shape_of_row=shapes,
        asked_start=np.append(0, np.cumsum(asks.sum(axis=1))).astype(np.int64),
        asked=np.nonzero(asks)[1].astype(np.int64),
        slots=np.zeros((len(shapes), nodes), dtype=np.int64),
        free_slots=np.zeros(len(shapes), dtype=np.int64),
        least=np.zeros(len(shapes), dtype=np.int64),
        grown_key=np.array([column, AT, ABOVE], dtype=np.float64),
        at_s=np.zeros(2 * jobs + 1),
        event=np.zeros(2 * jobs + 1, dtype=np.int64),
        size=np.zeros(4, dtype=np.int64),
    )


def _only_shapes(shape: Ints, waiting: Waiting) -> Ints:
    """The one shape of all that a job waits with, -1 where there are several: int64[J]."""
    start, of_task = waiting.start, shape[waiting.tasks]
    found = np.full(len(start) - 1, -1, dtype=np.int64)
    for job in np.flatnonzero(np.diff(start)).tolist():
        own = of_task[start[job] : start[job + 1]]
        found[job] = own[0] if bool((own == own[0]).all()) else -1
    return found


def _kinds(queue: Ints, only_shape: Ints, chunk: Ints, waiting: Waiting) -> Ints:
    """Jobs that ask for the same in one queue have the same number: int64[J]."""
    asked = np.column_stack((queue, only_shape, chunk, np.diff(waiting.start)))
    _, kinds = np.unique(asked, axis=0, return_inverse=True)
    return kinds.reshape(-1).astype(np.int64)


def _pending(course: Course) -> Ints:
    """What queues ask for besides what they hold, without those who are still to come."""
    snapshot = course.snapshot
    pending = snapshot.queues.pending.copy()
    for job in course.comes.tolist():
        leaf = int(snapshot.jobs.queue[job])
        chain = snapshot.queues.chain[leaf] if leaf >= 0 else snapshot.queues.chain[:0, 0]
        rows = course.tasks_of(job)
        rows = rows[snapshot.tasks.status[rows] == TaskStatus.PENDING]
        units = snapshot.demand.queue_units[snapshot.tasks.shape[rows]].sum(axis=0)
        for queue in chain[chain >= 0].tolist():
            pending[queue] -= units
    return pending
