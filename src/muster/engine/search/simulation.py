"""Would it work? Victims leave, the job is placed, victims find a place again where they can.

First everybody is served in the order of the queues, the job among its victims, as the next cycles
would. If that leaves no place for the job, it is served first. Nothing starts in a simulation: all
placements wait for what the victims leave.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from muster.engine import gang
from muster.engine.ordering import add_chunk_units, job_heaps
from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.search.atomic_disruption import is_disrupted_atomically, place_all_again
from muster.engine.search.candidates import VictimSearch
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.model.status import TaskStatus
from muster.numerics import queue_order
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import QUEUE_WIDTH
from muster.numerics.tree import diverging


def dry_run(
    search: VictimSearch,
    statement: Statement,
    tasks: Sequence[int],
    victims: Sequence[int],
    is_accepted: Callable[[], bool],
    goes_first: bool = True,
) -> bool:
    """Evict the victims, place the actor's tasks and ask whether that may be; False leaves the
    statement as it was. `goes_first`: before its victims, if the order of queues has no place for
    it among them.
    """
    within, _ = search.feasible.copy(), search.moved_before
    start = statement.checkpoint()
    why = Eviction(search.action, search.actor.job)
    for task in victims:
        statement.evict(task, why)
    evicted = statement.checkpoint()
    ledger = search.session.ledger
    within[[int(ledger.node[task]) for task in victims]] = True
    jobs = _jobs_of(search.session, victims)
    trial = _Trial(search, statement, np.array(tasks, dtype=np.int64), within)
    is_served = trial.serve(_by_queues(search.session, search.actor.job, jobs))
    if is_served and is_accepted():
        return True
    statement.rollback(evicted)
    if (is_served or goes_first) and _may_go_first(search, jobs):
        order = _actor_first(search.session, search.actor.job, jobs)
        if trial.serve(order, again=True) and is_accepted():
            return True
    statement.rollback(start)
    return False


def _may_go_first(search: VictimSearch, victims: Rows) -> bool:
    """Whether no victim is of a queue with a higher priority, where its path parts from ours."""
    queues, queue_of = search.session.snapshot.queues, search.session.snapshot.jobs.queue
    own = int(queue_of[search.actor.job])
    pairs = (diverging(queues.parent, own, int(queue)) for queue in np.unique(queue_of[victims]))
    return all(queues.priority[ours] >= queues.priority[theirs] for ours, theirs in pairs)


class _Trial:
    """Serves jobs in turn. Victims that find no place stay evicted; the actor must find one."""

    def __init__(
        self, search: VictimSearch, statement: Statement, tasks: Rows, within: Bools
    ) -> None:
        self._search = search
        self._statement = statement
        self._tasks = tasks
        self._within = within

    def serve(self, order: Iterator[int], again: bool = False) -> bool:
        """Whether the actor found a place. `again`: victims get back all they can, not only what
        they need to start.
        """
        actor = self._search.actor.job
        is_placed = False
        for job in order:
            served = self._place(job, self._tasks if job == actor else None)
            if job == actor:
                is_placed = served
                if not served:
                    return False
            while served and again and job != actor and self._has_evicted(job):
                served = self._place(job, None)
        return is_placed

    def _place(self, job: int, tasks: Rows | None) -> bool:
        session = self._search.session
        attempt = Attempt(session, self._statement, job, self._within, may_start=False, tasks=tasks)
        if tasks is None and is_disrupted_atomically(session, job):
            return place_all_again(attempt)
        return isinstance(place_job(attempt), Placed)

    def _has_evicted(self, job: int) -> bool:
        """Whether the next thing the job wants back is something it lost here."""
        session = self._search.session
        chunk = gang.next_chunk(session, job, is_real=False)
        return bool((session.ledger.status[chunk] == TaskStatus.RELEASING).any())


def _actor_first(session: Session, actor: int, victims: Rows) -> Iterator[int]:
    yield actor
    yield from (job for job in _by_queues(session, actor, victims) if job != actor)


def _by_queues(session: Session, actor: int, victims: Rows) -> Iterator[int]:
    """The actor and the victims in the order of their queues.

    Other pending jobs are in the order too, because a queue stands as its first job lets it stand;
    they are passed over.
    """
    involved = np.union1d(victims, [actor]).astype(np.int64)
    jobs = np.union1d(_pending(session), involved).astype(np.int64)
    jobs = jobs[session.snapshot.jobs.queue[jobs] >= 0]
    state = _job_heaps(session, jobs)
    asked = set(involved.tolist())
    while (job := int(queue_order.pop(state))) >= 0:
        if job in asked:
            yield job
        queue_order.refresh(state, int(session.snapshot.jobs.queue[job]))


def _job_heaps(session: Session, jobs: Rows) -> queue_order.JobHeaps:
    snapshot = session.snapshot
    columns = session.policy.job_keys(jobs)
    keys = np.zeros((len(snapshot.jobs.live), columns.shape[1]))
    keys[jobs] = columns
    chunk: Ints = np.zeros((len(snapshot.jobs.live), QUEUE_WIDTH), dtype=np.int64)
    add_chunk_units(session, jobs, chunk, is_real=False)
    return job_heaps(session, jobs, keys, chunk)


def _pending(session: Session) -> Rows:
    """Jobs with pending tasks in leaf queues."""
    snapshot = session.snapshot
    waits = session.ledger.counts[:, TaskStatus.PENDING] > 0
    jobs = np.unique(snapshot.leaves.job[waits])
    queue = snapshot.jobs.queue[jobs]
    in_leaf = (queue >= 0) & snapshot.queues.is_leaf[queue]
    return jobs[in_leaf & snapshot.jobs.live[jobs]].astype(np.int64)


def _jobs_of(session: Session, tasks: Sequence[int]) -> Rows:
    rows = session.snapshot.tasks.job[np.array(tasks, dtype=np.int64)]
    return np.unique(rows).astype(np.int64)
