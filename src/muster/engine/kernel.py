"""The compiled allocate loop on a session: what it may do itself, and what it must ask.

`AllocateKernel` gives the kernel the ledger's own columns and translates: shapes are answered when
the kernel first needs them, plugins hear what was placed before anybody asks them again, failures
become refusals. Jobs that are not for it are placed by `engine.placement`.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from muster.engine.gang import are_growing
from muster.engine.hooks import Dependence
from muster.engine.node_choice import (
    Shortage,
    is_compiled,
    no_node,
    packing_of,
    plugin_codes,
    preferences,
)
from muster.engine.ordering import JobQueue, Waiting
from muster.engine.session import Session
from muster.model.bounds import over_bound, queue_bounds
from muster.model.ledger import Entries, EntryKind
from muster.model.reasons import Refusal
from muster.model.shapes import Shape
from muster.model.status import TaskStatus
from muster.numerics import allocate, fit, node_scores, node_search
from muster.numerics import allocate_state as numerics
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import CPU, GPU, GPU_UNIT

_NEVER = np.iinfo(np.int64).max
_ANSWERS_AT_ONCE = 63
"""Coming back to the kernel costs as much as an answer."""
_MOST_NODE_SCORES = 1 << 22
"""Scores of nodes for shapes that are kept: 32 MiB."""
_SMALLEST_GAP = 10.0
"""Scores that differ by at least this much cannot be overtaken by packing."""


@dataclass(frozen=True, slots=True)
class Step:
    """Why the kernel came back, and about which job or shape."""

    why: int
    subject: int


class AllocateKernel:
    """One run of the compiled loop over the pending jobs of a session."""

    def __init__(self, session: Session, job_queue: JobQueue) -> None:
        self._session = session
        self._job_queue = job_queue
        self._fits: list[Bools] = []
        self._scores: list[Floats] = []
        self._notified = session.ledger.version
        self._seen_version = session.ledger.node_version.copy()
        waiting = job_queue.waiting
        self._shares = _most_shares(session, waiting)
        session.ledger.reserve(2 * len(waiting.tasks), self._shares)
        self.state = _allocate_state(session, waiting)
        wanted = np.unique(session.snapshot.tasks.shape[waiting.tasks])
        self._jobs_with = _jobs_by_shape(session, waiting)
        self._unanswered = iter(wanted.tolist())
        orders = np.unique(self.state.shapes.order[wanted])
        for which in orders[orders >= 0].tolist():
            node_search.sort_nodes(session.ledger.columns, self.state.orders, which)

    def advance(self) -> Step:
        """Let the kernel work until it needs something."""
        why, subject = allocate.run(self._session.ledger.handle, self.state, self._job_queue.state)
        if why == numerics.FALLBACK:
            self.state.jobs.is_supported[subject] = False
        if why != numerics.SHAPE:
            self._notify_plugins()
        return Step(int(why), int(subject))

    def answer(self, row: int) -> None:
        """Tell the kernel what plugins say about a shape, and about others that it will ask for."""
        self._answer(row)
        more = itertools.islice(self._unanswered, _ANSWERS_AT_ONCE)
        for other in more:
            if self.state.shapes.state[other] == numerics.UNKNOWN:
                self._answer(other)

    def _answer(self, row: int) -> None:
        session, shape = self._session, self._session.snapshot.shapes[row]
        shapes, answers = self.state.shapes, session.answers(shape)
        known = numerics.SCORED
        jobs = self._jobs_with[row]
        refused = sum(session.refused_everywhere(shape, job) is not None for job in jobs)
        if answers.dependence > Dependence.STATIC or not is_compiled(session, shape):
            known = numerics.UNSUPPORTED
        elif refused:
            # The kernel knows one answer per shape: what differs by queue is not for it.
            known = numerics.REFUSED if refused == len(jobs) else numerics.UNSUPPORTED
        elif shapes.order[row] >= 0 and _is_uniform(session, shape, answers.fits, answers.score):
            known = numerics.ORDERED
        shapes.state[row] = known
        shapes.answer_row[row] = self._answer_row(answers.fits, answers.score)

    def changed_outside(self) -> None:
        """Somebody else placed tasks: bring the kernel's own orders up to date."""
        ledger = self._session.ledger
        ledger.reserve(2 * len(self._job_queue.waiting.tasks), self._shares)
        for node in np.flatnonzero(ledger.node_version != self._seen_version).tolist():
            node_search.resort_node(ledger.handle, self.state.orders, node)
            node_scores.note_change(self.state.node_scores, node)
        self._notified = ledger.version

    def refuse_the_rest(self) -> None:
        """Put what the kernel refused into the session, equal refusals as one value."""
        columns, session = self.state.jobs, self._session
        is_bound = columns.outcome == numerics.BOUND
        bound = np.flatnonzero(is_bound).tolist()
        session.refuse_each(bound, [(self._bound_refusal(job),) for job in bound])
        jobs = np.flatnonzero((columns.outcome != numerics.SERVED) & ~is_bound)
        leaves, rows = columns.leaf[jobs], jobs.tolist()
        names, minimum = session.snapshot.leaves.names, session.snapshot.leaves.minimum
        alike = list(
            zip(
                columns.failure[jobs].tolist(),
                minimum[leaves].tolist(),
                map(names.__getitem__, leaves.tolist()),
                are_growing(session, leaves).tolist(),
                strict=True,
            )
        )
        # Of jobs that are alike the first is looked at.
        first = dict(zip(reversed(alike), reversed(rows), strict=True))
        shared = {key: (self._refusal(key[0], job),) for key, job in first.items()}
        session.refuse_each(rows, list(map(shared.__getitem__, alike)))

    def _notify_plugins(self) -> None:
        """Plugins hear of everything placed since they last heard."""
        session, ledger = self._session, self._session.ledger
        self._seen_version[:] = ledger.node_version
        notified, self._notified = self._notified, ledger.version
        if notified == ledger.version or not session.policy.is_answered("on_ledger_change"):
            return
        placed = np.flatnonzero(ledger.decided_at >= notified)
        placed = placed[np.argsort(ledger.decided_at[placed])]
        starts = ledger.status[placed] == TaskStatus.ALLOCATED
        kinds = np.where(starts, int(EntryKind.ALLOCATE), int(EntryKind.PIPELINE))
        session.policy.on_ledger_change(
            Entries(placed, ledger.node[placed], kinds.astype(np.int64))
        )

    def _answer_row(self, fits: Bools, score: Floats) -> int:
        """Where the answers are; equal ones are kept once."""
        for row, (known_fits, known_score) in enumerate(zip(self._fits, self._scores, strict=True)):
            if known_fits is fits:
                return row
            if np.array_equal(known_fits, fits) and np.array_equal(known_score, score):
                return row
        self._fits.append(fits)
        self._scores.append(score)
        answers = self.state.answers._replace(
            fits=np.stack(self._fits), score=np.stack(self._scores)
        )
        self.state = self.state._replace(answers=answers)
        return len(self._fits) - 1

    def _refusal(self, row: int, job: int) -> Refusal:
        session, failures, leaf = self._session, self.state.failures, self.state.jobs.leaf[job]
        facts = failures.facts[row]
        shape = session.snapshot.shapes[int(facts[numerics.FACT_SHAPE])]
        if self.state.jobs.outcome[job] == numerics.IS_REFUSED:
            refused = session.refused_everywhere(shape, job)
            assert refused is not None, "the kernel was told so by the same answer"
            return refused
        codes = np.zeros(len(session.snapshot.nodes), dtype=np.int64)
        if failures.counts[row, fit.PLUGINS]:
            codes = plugin_codes(session, shape)
        shortage = Shortage(shape, failures.counts[row], facts, codes, session.all_nodes[:0] > 0)
        minimum = int(session.snapshot.leaves.minimum[leaf])
        return no_node(session, shortage, leaf, int(facts[numerics.FACT_FOUND]), minimum)

    def _bound_refusal(self, job: int) -> Refusal:
        facts = (int(fact) for fact in self.state.jobs.broken_bound[job])
        return over_bound(self._session.snapshot.queues, *facts)


def suits(session: Session) -> bool:
    """Whether the kernel knows all the rules that this policy has for placing plain jobs."""
    policy = session.policy
    return policy.enforces_queue_bounds() or not policy.is_answered("over_capacity")


def _is_uniform(session: Session, shape: Shape, fits: Bools, score: Floats) -> bool:
    """Whether nodes differ only by how full they are, whether they have room now, and whether a
    GPU that is shared already has some.
    """
    _, column = packing_of(session, shape)
    scores = score[fits]
    if len(scores) and bool((scores != scores[0]).any()):
        return False
    if not shape.is_shared and shape.request[column] <= 0:
        return False
    availability, sharing = session.availability_score, session.sharing_score
    values = {0.0, availability}
    if shape.is_shared:
        values |= {sharing, availability + sharing}
    return min(values) >= 0.0 and all(
        above - below >= _SMALLEST_GAP for below, above in itertools.pairwise(sorted(values))
    )


def _jobs_by_shape(session: Session, waiting: Waiting) -> dict[int, list[int]]:
    """Of each shape that waits, a job in each queue that it waits in."""
    snapshot = session.snapshot
    shape, job = snapshot.tasks.shape[waiting.tasks], snapshot.tasks.job[waiting.tasks]
    pair = shape * (len(snapshot.queues.names) + 1) + snapshot.jobs.queue[job]
    _, first = np.unique(pair, return_index=True)
    found: dict[int, list[int]] = {}
    for row, one in zip(shape[first].tolist(), job[first].tolist(), strict=True):
        found.setdefault(row, []).append(one)
    return found


def _most_shares(session: Session, waiting: Waiting) -> int:
    """How many shared GPUs the tasks that wait can come to hold."""
    demand, snapshot = session.snapshot.demand, session.snapshot
    sharing = demand.sharing[snapshot.tasks.shape[waiting.tasks]]
    gpus = snapshot.nodes.allocatable[:, GPU].max(initial=0) // GPU_UNIT
    return int(np.minimum(demand.devices[sharing[sharing >= 0]], gpus).sum())


def _allocate_state(session: Session, waiting: Waiting) -> numerics.AllocateState:
    """The ledger's columns and the kernel's own, by what they are about."""
    snapshot, ledger = session.snapshot, session.ledger
    width, job_count, nodes = len(snapshot.axis), len(snapshot.jobs.live), len(snapshot.nodes)
    shapes = _shapes(session)
    return numerics.AllocateState(
        shapes=shapes,
        answers=numerics.Answers(
            fits=np.zeros((1, nodes), dtype=np.bool_),
            score=np.zeros((1, nodes)),
            preferences=preferences(session),
        ),
        orders=numerics.Orders(
            column=np.array([GPU, CPU], dtype=np.int64),
            order=_zeros(numerics.PACK_COLUMNS, nodes),
            place=_zeros(numerics.PACK_COLUMNS, nodes),
            free=_zeros(numerics.PACK_COLUMNS, nodes),
            is_kept=np.zeros(numerics.PACK_COLUMNS, dtype=np.bool_),
        ),
        waiting=numerics.Waiting(waiting.start, waiting.tasks, waiting.start[:-1].copy()),
        jobs=numerics.Jobs(
            leaf=waiting.leaf,
            is_supported=snapshot.jobs.is_plain.copy(),
            outcome=_zeros(job_count),
            failure=_zeros(job_count),
            broken_bound=_zeros(job_count, 5),
        ),
        bounds=queue_bounds(ledger, session.policy.enforces_queue_bounds()),
        failures=numerics.Failures(
            counts=_zeros(job_count, fit.COLUMNS + width),
            facts=_zeros(job_count, numerics.FACTS),
            size=_zeros(1),
        ),
        node_scores=_node_scores(session, shapes, waiting),
    )


def _node_scores(
    session: Session, shapes: numerics.Shapes, waiting: Waiting
) -> numerics.NodeScores:
    """Room for the scores of shapes that are placed by loss, as many as memory allows."""
    nodes = len(session.snapshot.nodes)
    wanted = np.unique(session.snapshot.tasks.shape[waiting.tasks])
    wanted = wanted[shapes.packing[wanted] == fit.LEAST_FRAGMENTATION]
    rows = min(len(wanted), max(1, _MOST_NODE_SCORES // max(nodes, 1)))
    row = np.full(len(shapes.packing), -1, dtype=np.int64)
    if rows:
        row[wanted] = np.arange(len(wanted)) % rows
    blocks = -(-nodes // node_scores.BLOCK)
    return numerics.NodeScores(
        row=row,
        owner=np.full(rows, -1, dtype=np.int64),
        total=np.empty((rows, nodes)),
        best=_zeros(rows, blocks),
        seen=_zeros(rows),
        changed=_zeros(2 * len(waiting.tasks) + node_scores.BLOCK),
        size=_zeros(1),
        loss=np.full(nodes, np.nan),
    )


def _zeros(*size: int) -> Ints:
    return np.zeros(size, dtype=np.int64)


def _shapes(session: Session) -> numerics.Shapes:
    shapes, demand = session.snapshot.shapes, session.snapshot.demand
    packing = np.array([packing_of(session, shape) for shape in shapes], dtype=np.int64)
    packing = packing.reshape(len(shapes), 2)
    is_ordered = packing[:, 0] == fit.BINPACK
    orders = np.where(packing[:, 1] == GPU, numerics.BY_GPU, numerics.BY_CPU)
    return numerics.Shapes(
        least_units=demand.least_units,
        priced_by_node=demand.is_memory,
        packing=np.ascontiguousarray(packing[:, 0]),
        column=np.ascontiguousarray(packing[:, 1]),
        order=np.where(is_ordered, orders, -1),
        state=np.full(len(shapes), numerics.UNKNOWN, dtype=np.int64),
        answer_row=_zeros(len(shapes)),
        failed_size=np.full(len(shapes), _NEVER, dtype=np.int64),
        failed_row=_zeros(len(shapes)),
    )
