"""The compiled allocate loop on a session: what it may do itself, and what it must be told.

`AllocateKernel` gives the kernel the ledger's own columns and translates: shapes are answered when
the kernel first needs them, plugins are told what was placed before anybody asks them again,
failures become refusals. Jobs that it hands out are placed by `engine.placement`.
"""

from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import Dependence
from muster.engine.ordering import JobQueue, Waiting
from muster.engine.session import Session
from muster.model.ledger import Entries, EntryKind
from muster.model.reasons import Evidence, NodeCount, Reason, Refusal
from muster.model.shapes import Shape
from muster.model.status import TaskStatus
from muster.numerics import allocate, node_search
from muster.numerics import allocate_state as numerics
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import CPU, GPU, QUEUE_RESOURCES

_ORDER_OF = {True: 0, False: 1}
_NEVER = np.iinfo(np.int64).max
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
        self._reported = session.ledger.version
        self._seen_version = session.ledger.node_version.copy()
        self.state = _allocate_state(session, job_queue.waiting)
        shapes = self.state.shapes
        followed = np.unique(shapes.pack[session.snapshot.tasks.shape[job_queue.waiting.tasks]])
        for which in followed[followed >= 0].tolist():
            node_search.sort_nodes(self.state, which)

    def advance(self) -> Step:
        """Let the kernel work until it needs something."""
        why, subject = allocate.run(self.state, self._job_queue.state)
        self._session.ledger.version = int(self.state.scalars[numerics.VERSION])
        if why == numerics.FALLBACK:
            self.state.jobs.is_supported[subject] = False
        if why != numerics.SHAPE:
            self._notify_plugins()
        return Step(int(why), int(subject))

    def answer(self, row: int) -> None:
        """Tell the kernel what plugins say about a shape."""
        session, shape = self._session, self._session.snapshot.shapes[row]
        shapes, answers = self.state.shapes, session.answers(shape)
        known = numerics.SCORED
        if answers.dependence > Dependence.STATIC or self._spreads(shape):
            known = numerics.UNSUPPORTED
        elif session.refused_everywhere(shape, self._head_job()) is not None:
            known = numerics.REFUSED
        elif shapes.pack[row] >= 0 and _is_uniform(session, shape, answers.fits, answers.score):
            known = numerics.ORDERED
        shapes.state[row] = known
        shapes.answer_row[row] = self._answer_row(answers.fits, answers.score)

    def changed_outside(self) -> None:
        """Somebody else placed tasks: bring the kernel's own orders up to date."""
        ledger = self._session.ledger
        for node in np.flatnonzero(ledger.node_version != self._seen_version).tolist():
            node_search.resort_node(self.state.nodes, self.state.orders, node)
        self.state.scalars[numerics.VERSION] = ledger.version
        self._reported = ledger.version

    def refuse_the_rest(self) -> None:
        """Put what the kernel refused into the session, equal refusals as one value."""
        columns, session = self.state.jobs, self._session
        jobs = np.flatnonzero(columns.outcome > numerics.SERVED)
        minimum = columns.minimum[columns.leaf[jobs]]
        facts = np.column_stack((jobs, columns.outcome[jobs], columns.failure[jobs], minimum))
        shared = dict[tuple[int, int], tuple[Refusal, ...]]()
        for job, outcome, row, least in facts.tolist():
            if outcome in (numerics.OVER_LIMIT, numerics.OVER_QUOTA):
                session.refuse(job, (self._bound_refusal(job, outcome),))
                continue
            if (row, least) not in shared:
                shared[row, least] = (self._refusal(row, job, outcome),)
            session.refuse(job, shared[row, least])

    def _notify_plugins(self) -> None:
        """Plugins hear of everything placed since they last heard."""
        session, ledger = self._session, self._session.ledger
        self._seen_version[:] = ledger.node_version
        reported, self._reported = self._reported, ledger.version
        if reported == ledger.version or not session.policy.is_answered("on_ledger_change"):
            return
        placed = np.flatnonzero(ledger.decided_at >= reported)
        placed = placed[np.argsort(ledger.decided_at[placed])]
        starts = ledger.status[placed] == TaskStatus.ALLOCATED
        kinds = np.where(starts, int(EntryKind.ALLOCATE), int(EntryKind.PIPELINE)).astype(np.int64)
        session.policy.on_ledger_change(Entries(placed, ledger.node[placed], kinds))

    def _spreads(self, shape: Shape) -> bool:
        packing = self._session.packing
        return (packing.gpu if shape.needs_gpu else packing.cpu) == "spread"

    def _head_job(self) -> int:
        return int(self._job_queue.state.first[0])

    def _answer_row(self, fits: Bools, score: Floats) -> int:
        """Where the answers are; equal ones are kept once."""
        for row, (known_fits, known_score) in enumerate(zip(self._fits, self._scores, strict=True)):
            if np.array_equal(known_fits, fits) and np.array_equal(known_score, score):
                return row
        self._fits.append(fits)
        self._scores.append(score)
        answers = self.state.answers._replace(
            fits=np.stack(self._fits), score=np.stack(self._scores)
        )
        self.state = self.state._replace(answers=answers)
        return len(self._fits) - 1

    def _refusal(self, row: int, job: int, outcome: int) -> Refusal:
        session, facts = self._session, self.state.failures.facts[row]
        shape = session.snapshot.shapes[int(facts[numerics.FACT_SHAPE])]
        if outcome == numerics.IS_REFUSED:
            refused = session.refused_everywhere(shape, job)
            assert refused is not None, "the kernel was told so by the same answer"
            return refused
        counts = self._node_counts(shape, self.state.failures.counts[row])
        return Refusal(
            Reason.NO_NODE,
            found=int(facts[numerics.FACT_FOUND]),
            minimum=int(self.state.jobs.minimum[self.state.jobs.leaf[job]]),
            nodes=tuple(sorted(counts, key=lambda c: (-c.nodes, c.reason, c.subject))),
            evidence=self._evidence(shape, facts),
        )

    def _node_counts(self, shape: Shape, counts: Ints) -> list[NodeCount]:
        session = self._session
        found = [
            NodeCount(Reason.RESOURCES, int(counts[1 + column]), name)
            for column, name in enumerate(session.snapshot.axis.names)
            if counts[1 + column]
        ]
        if counts[0]:
            refused = np.flatnonzero(~session.answers(shape).fits)
            codes = session.policy.filter_reasons(shape, refused)
            codes = np.where(codes == Reason.NONE, int(Reason.PLUGIN), codes)
            for code, nodes in zip(*np.unique(codes, return_counts=True), strict=True):
                found.append(NodeCount(Reason(int(code)), int(nodes)))
        return found

    def _evidence(self, shape: Shape, facts: Ints) -> tuple[Evidence, ...]:
        column, node = int(facts[numerics.FACT_COLUMN]), int(facts[numerics.FACT_NODE])
        if column < 0 or node < 0:
            return ()
        snapshot = self._session.snapshot
        free = max(0, int(facts[numerics.FACT_FREE]))
        need = int(shape.request[column])
        return (Evidence(snapshot.axis.names[column], need, free, snapshot.nodes.names[node]),)

    def _bound_refusal(self, job: int, outcome: int) -> Refusal:
        queue, resource, held = (int(fact) for fact in self.state.jobs.bound_facts[job])
        queues = self._session.snapshot.queues
        over_limit = outcome == numerics.OVER_LIMIT
        bound = (queues.limit if over_limit else queues.quota)[queue, resource]
        name = queues.records[queue].display_name or queues.names[queue]
        need = int(self._job_queue.chunk[job, resource])
        free = max(0, int(bound) - held)
        evidence = Evidence(QUEUE_RESOURCES[resource], need, free, name)
        reason = Reason.OVER_LIMIT if over_limit else Reason.OVER_QUOTA
        return Refusal(reason, subject=name, evidence=(evidence,))


def suits(session: Session) -> bool:
    """Whether the kernel knows all the rules that this policy has for placing plain jobs."""
    policy = session.policy
    return policy.enforces_queue_bounds() or not policy.is_answered("over_capacity")


def _is_uniform(session: Session, shape: Shape, fits: Bools, score: Floats) -> bool:
    """Whether nodes differ only by how full they are and whether they have room now."""
    column = GPU if shape.needs_gpu else CPU
    scores = score[fits]
    is_flat = len(scores) == 0 or bool((scores == scores[0]).all())
    availability = session.availability_score
    return (
        is_flat
        and bool(shape.request[column] > 0)
        and (availability == 0.0 or availability >= _SMALLEST_GAP)
    )


def _allocate_state(session: Session, waiting: Waiting) -> numerics.AllocateState:
    """The ledger's columns and the kernel's own, by what they are about."""
    snapshot, ledger = session.snapshot, session.ledger
    jobs, width, job_count = snapshot.jobs, len(snapshot.axis), len(snapshot.jobs.live)
    nodes, places = len(snapshot.nodes), len(waiting.tasks)
    return numerics.AllocateState(
        nodes=numerics.Nodes(
            ledger.idle, ledger.releasing, snapshot.nodes.allocatable, ledger.node_version
        ),
        shapes=_shapes(session),
        answers=numerics.PluginAnswers(
            fits=np.zeros((1, nodes), dtype=np.bool_),
            score=np.zeros((1, nodes)),
            availability=np.array([session.availability_score]),
        ),
        orders=numerics.Orders(
            column=np.array([GPU, CPU], dtype=np.int64),
            order=_zeros(numerics.PACK_COLUMNS, nodes),
            place=_zeros(numerics.PACK_COLUMNS, nodes),
            free=_zeros(numerics.PACK_COLUMNS, nodes),
            is_kept=np.zeros(numerics.PACK_COLUMNS, dtype=np.bool_),
        ),
        tasks=numerics.Tasks(
            shape=snapshot.tasks.shape,
            status=ledger.status,
            node=ledger.node,
            decided_at=ledger.decided_at,
            wait_start=waiting.start,
            waiting=waiting.tasks,
            cursor=waiting.start[:-1].copy(),
        ),
        jobs=numerics.Jobs(
            leaf=waiting.leaf,
            is_supported=jobs.is_plain.copy(),
            is_preemptible=jobs.is_preemptible,
            minimum=snapshot.leaves.minimum,
            counts=ledger.counts,
            outcome=_zeros(job_count),
            failure=_zeros(job_count),
            bound_facts=_zeros(job_count, 3),
        ),
        queues=_queues(session),
        journal=numerics.Journal(_zeros(places), _zeros(places), _zeros(places)),
        failures=numerics.Failures(_zeros(job_count, width + 1), _zeros(job_count, numerics.FACTS)),
        scalars=np.array([ledger.version, 0], dtype=np.int64),
    )


def _zeros(*size: int) -> Ints:
    return np.zeros(size, dtype=np.int64)


def _shapes(session: Session) -> numerics.Shapes:
    count, demand = len(session.snapshot.shapes), session.snapshot.demand
    return numerics.Shapes(
        request=demand.request,
        units=demand.queue_units,
        state=_first_states(session),
        pack=_pack(session),
        answer_row=_zeros(count),
        failed_size=np.full(count, _NEVER, dtype=np.int64),
        failed_row=_zeros(count),
    )


def _queues(session: Session) -> numerics.Queues:
    queues, ledger = session.snapshot.queues, session.ledger
    has_bounds = session.policy.enforces_queue_bounds()
    unbounded = np.full_like(queues.limit, -1.0)
    return numerics.Queues(
        chain=queues.chain,
        limit=queues.limit if has_bounds else unbounded,
        quota=queues.quota if has_bounds else unbounded,
        held=ledger.queue_allocated,
        held_non_preemptible=ledger.queue_allocated_non_preemptible,
    )


def _first_states(session: Session) -> Ints:
    """Of most shapes nothing is known yet."""
    shapes = session.snapshot.shapes
    states = [numerics.UNSUPPORTED if _is_unsupported(s) else numerics.UNKNOWN for s in shapes]
    return np.array(states, dtype=np.int64)


def _is_unsupported(shape: Shape) -> bool:
    """Parts of GPUs, and requests that cannot be counted, which are to be refused by name."""
    return bool(shape.is_shared or shape.gpu.claimed or shape.constraints.request_problem)


def _pack(session: Session) -> Ints:
    """Which order of nodes each shape follows: GPUs or CPU; -1 where packing does not count."""
    packing = session.packing
    is_packed = {True: packing.gpu == "binpack", False: packing.cpu == "binpack"}
    return np.array(
        [_ORDER_OF[s.needs_gpu] if is_packed[s.needs_gpu] else -1 for s in session.snapshot.shapes],
        dtype=np.int64,
    )
