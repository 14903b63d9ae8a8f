"""A search for one pending job: what it wants, who may give way, and in which order.

The three searching actions differ in whom they consider and in what makes a scenario acceptable;
everything else is shared. A VictimSearch is made once per pending job; the order of its candidates
starts anew for every probe.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from muster.engine.hooks import Actor
from muster.engine.search.batches import active_tasks, next_batch
from muster.engine.search.idle_resources import free_gpus
from muster.engine.search.victim_order import Candidate, QueueStanding, VictimOrder
from muster.engine.search_time import UNLIMITED, JobTime
from muster.engine.session import Session
from muster.model.status import IS_ALLOCATED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import QUEUE_WIDTH
from muster.numerics.eligible import has_come_to


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks of one job that go together."""

    job: int
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class VictimSearch:
    """What stays the same while victims for one job are sought."""

    session: Session
    action: str
    actor: Actor
    candidates: Rows
    held_before: Ints
    non_preemptible_before: Ints
    failed: set[tuple[int, frozenset[int]]] = field(default_factory=set)
    """Simulated without success: how many tasks, and which victims."""
    time: JobTime = UNLIMITED

    @cached_property
    def feasible(self) -> Bools:
        """Nodes that have something to offer without evictions: bool[N]. To be asked before any.

        Nodes with GPUs, or all of them, if some task of the job needs none.
        """
        snapshot = self.session.snapshot
        leaves = snapshot.leaves_of_job(self.actor.job)
        tasks = np.concatenate([snapshot.tasks_of_leaf(int(leaf)) for leaf in leaves])
        shapes = np.unique(snapshot.tasks.shape[tasks]).tolist()
        if not all(snapshot.shapes[row].needs_gpu for row in shapes):
            return np.ones(len(snapshot.nodes), dtype=np.bool_)
        return free_gpus(self.session) > 0

    @cached_property
    def moved_before(self) -> Bools:
        """Tasks that got another place in this cycle, and must not lose it again: bool[T].

        To be asked before any eviction.
        """
        waits = self.session.ledger.status == TaskStatus.PIPELINED
        had_place = IS_ALLOCATED[self.session.snapshot.tasks.status]
        return np.asarray(waits & had_place, dtype=np.bool_)

    def is_moved(self, tasks: Rows) -> bool:
        """Whether some of these tasks got another place in this cycle, as the ledger is now."""
        status, before = self.session.ledger.status, self.session.snapshot.tasks.status
        return bool(has_come_to(tasks, status, int(TaskStatus.PIPELINED), before, IS_ALLOCATED))

    def standing(self) -> QueueStanding:
        """How well queues stand now."""
        session = self.session
        shares = session.policy.queue_shares()
        return QueueStanding(session.snapshot, session.ledger, shares)


class Accumulation:
    """Potential victims in their order, batch after batch. Recorded ones are passed over."""

    def __init__(self, search: VictimSearch, recorded: frozenset[int]) -> None:
        self._session = search.session
        self._recorded = recorded
        self._remaining: dict[int, list[int]] = {}
        self.batches: list[Batch] = []
        jobs = search.candidates
        keys = _job_keys(self._session, jobs)
        self._order = VictimOrder(
            self._session.snapshot,
            search.standing(),
            (self._candidate(int(job), key) for job, key in zip(jobs, keys, strict=True)),
        )

    def grow(self) -> Batch | None:
        """Add the next batch; None when nobody is left."""
        while (candidate := self._order.pop()) is not None:
            job = candidate.job
            remaining = self._remaining[job]
            batch = next_batch(self._session, job, remaining)
            if self._recorded.isdisjoint(batch):
                self._keep(job, [task for task in remaining if task not in set(batch)])
                self.batches.append(Batch(job, tuple(batch)))
                return self.batches[-1]
            self._keep(job, [task for task in remaining if task not in self._recorded])
        return None

    def _keep(self, job: int, remaining: list[int]) -> None:
        """Let what is left of a job come up again."""
        if not remaining:
            return
        ledger = self._session.ledger
        before = ledger.journal_length
        for task in set(active_tasks(self._session, job)).difference(remaining):
            ledger.evict(task)
        key = _job_keys(self._session, np.array([job], dtype=np.int64))[0]
        ledger.undo_to(before)
        self._order.push(self._candidate(job, key, remaining))

    def _candidate(
        self, job: int, key: tuple[float, ...], remaining: list[int] | None = None
    ) -> Candidate:
        tasks = active_tasks(self._session, job) if remaining is None else remaining
        self._remaining[job] = tasks
        queue = int(self._session.snapshot.jobs.queue[job])
        return Candidate(job, queue, key, held_by(self._session, tasks))


def held_by(session: Session, tasks: list[int]) -> Floats:
    """What tasks that are allocated hold of their queue: float64[queue resources]."""
    held = np.zeros(QUEUE_WIDTH)
    for task in tasks:
        if IS_ALLOCATED[session.ledger.status[task]]:
            held += session.ledger.queue_units(task, int(session.ledger.node[task]))
    return held


def _job_keys(session: Session, jobs: Rows) -> list[tuple[float, ...]]:
    columns = session.policy.job_keys(jobs)
    ages = session.snapshot.jobs.age_rank[jobs].astype(np.float64)
    return [tuple(row) for row in np.column_stack([columns, ages]).tolist()]
