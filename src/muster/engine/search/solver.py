"""Grow the victim set until the job fits.

For one task after another would take many simulations, so the number of tasks doubles as long as
victims are found, and is bisected when they are not; victims found for fewer tasks are the start
for more. The last simulation, for all tasks, is the one that is kept. How many simulations a job
may cost is a count of placements first, which does not depend on the machine, and then a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from muster.engine.config.budgets import MANY_NODES, NODE_BY_NODE
from muster.engine.hooks import Scenario
from muster.engine.search.atomic_disruption import is_disrupted_atomically
from muster.engine.search.candidates import Batch, VictimSearch
from muster.engine.search.disruption import disruption_objection
from muster.engine.search.filters import FreeAfterEvictions
from muster.engine.search.giving_back import is_gang
from muster.engine.search.scenario import Stream, Victims, many_nodes, node_by_node
from muster.engine.search.simulation import dry_run
from muster.engine.search.victim_refinement import VictimSetImprover
from muster.engine.statement import Statement
from muster.model.reasons import Reason, Refusal
from muster.model.status import IS_ACTIVE_ALLOCATED, TaskStatus
from muster.numerics.arrays import Rows
from muster.numerics.axis import QUEUE_GPU

CONSOLIDATION = "consolidation"
STREAMS: tuple[tuple[str, Stream], ...] = (
    (NODE_BY_NODE, node_by_node),
    (MANY_NODES, many_nodes),
)
"""Ways to look for victims, in order, with the names by which KAI's budgets call them."""
LEAST_WORK = 400
WORK_PER_TASK = 10
"""Placements that one job may cost in simulations: so many, and so many more for each task that
could go, so that no search grows faster than the cluster. What KAI solves in its random cases took
at most 111, and at most 9 for each task that could go."""
_REFINING = 2
"""So many times as many to look for a smaller set when one was found."""
MOST_REFINEMENTS = 256
"""Further simulations, to look for a smaller set when one was found."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The ledger holds the solution; these tasks leave or move for it."""

    victims: Rows


@dataclass(frozen=True, slots=True)
class Unsolved:
    """Nothing was changed."""

    refusals: tuple[Refusal, ...]


class BudgetSpent(Exception):
    """One job has cost as much work as it may."""


def solve(search: VictimSearch) -> Solved | Unsolved:
    """Find victims for all tasks of the actor and commit their eviction."""
    solver = _Solver(search)
    if solver.solve_without_victims():
        return Solved(np.zeros(0, dtype=np.int64))
    try:
        for name, stream in STREAMS:
            solver.time = search.time.of_generator(name)
            solution = solver.solve_with(stream)
            if solution is not None:
                return solution
    except BudgetSpent:
        solver.refusals.append(Refusal(Reason.BUDGET_SPENT))
    if solver.is_cut_short:
        solver.refusals.append(Refusal(Reason.SEARCH_TIME))
    if not solver.refusals:
        solver.refusals.append(Refusal(Reason.NO_VICTIMS))
    return Unsolved(tuple(dict.fromkeys(solver.refusals)))


class _Solver:
    def __init__(self, search: VictimSearch) -> None:
        self._search = search
        self._tasks = search.actor.tasks.tolist()
        self._work_left: float = LEAST_WORK + WORK_PER_TASK * _running_tasks(search)
        self._best: Victims = ()
        self._is_refining = False
        self._refinements_left = 0
        self.refusals: list[Refusal] = []
        self.time = search.time
        self.is_cut_short = False

    def solve_without_victims(self) -> bool:
        """Earlier searches of the cycle may have made more room than they needed."""
        search = self._search
        with Statement(search.session) as statement:
            is_solved = dry_run(
                search, statement, self._tasks, (), lambda: self._is_accepted(self._tasks, [])
            )
            if is_solved:
                statement.commit()
        return is_solved

    def solve_with(self, stream: Stream) -> Solved | None:
        """Double, bisect, then solve for all tasks from what was found."""
        size = len(self._tasks)
        solved, unsolved, count = 0, None, 1
        recorded: Victims = ()
        while unsolved is None and solved < size:
            found = self._probe(stream, count, recorded)
            if found is None:
                unsolved = count
            else:
                recorded, solved, count = found, count, min(2 * count, size)
        while unsolved is not None and unsolved - solved > 1:
            middle = (solved + unsolved) // 2
            found = self._probe(stream, middle, recorded)
            if found is None:
                unsolved = middle
            else:
                recorded, solved = found, middle
        return self._commit(stream, recorded) if solved else None

    def _probe(self, stream: Stream, count: int, recorded: Victims) -> Victims | None:
        """Victims for the first `count` tasks; the ledger is left as it was."""
        tasks = self._tasks[:count]
        for victims in self._in_time(stream(self._search, tasks, recorded)):
            with Statement(self._search.session) as statement:
                if self._dry_run(statement, tasks, victims):
                    return self._recorded(victims)
        return None

    def _commit(self, stream: Stream, recorded: Victims) -> Solved | None:
        for victims in self._in_time(stream(self._search, self._tasks, recorded)):
            gone = self._simulated(victims)
            if gone is not None:
                return self._carry_out(self._refined(victims, gone))
        return None

    def _in_time(self, attempts: Iterator[Victims]) -> Iterator[Victims]:
        """As many of the attempts as there is time for."""
        for attempt in attempts:
            if self.time.is_over:
                self.is_cut_short = True
                return
            yield attempt

    def _simulated(self, victims: Victims) -> Rows | None:
        """Who leaves or moves, if it works; the ledger is left as it was."""
        with Statement(self._search.session) as statement:
            if self._dry_run(statement, self._tasks, victims):
                return self._gone(_tasks_of(victims))
        return None

    def _carry_out(self, victims: Victims) -> Solved:
        self._work_left = inf
        with Statement(self._search.session) as statement:
            works = self._dry_run(statement, self._tasks, victims)
            assert works, "what worked in a simulation works"
            statement.commit()
            return Solved(self._gone(_tasks_of(victims)))

    def _refined(self, victims: Victims, gone: Rows) -> Victims:
        """The best victims that work, as far as the session looks for them."""
        session = self._search.session
        if not session.refines:
            return victims
        # The order serves the job, so it may have the same for less; the room is held for it.
        self._is_refining = True
        self._refinements_left = MOST_REFINEMENTS
        self._search.failed.clear()
        most = LEAST_WORK + WORK_PER_TASK * _running_tasks(self._search)
        self._work_left = _REFINING * most
        try:
            smallest = self._without_idle_moves(self._smallest(victims, gone))
        except BudgetSpent:
            smallest = self._best
        session.has_refined |= smallest is not victims
        return smallest

    def _smallest(self, victims: Victims, gone: Rows) -> Victims:
        """The best victims that work, from these on."""
        self._best = victims
        sets = VictimSetImprover(self._search)
        free = FreeAfterEvictions(self._search, self._tasks, ())
        better = sets.better_than(gone)
        while self._may_refine() and (each := next(better, None)) is not None:
            if not free.suffices_with(each):
                continue
            self._refinements_left -= 1
            found = self._simulated(each)
            if found is not None:
                victims, gone = each, found
                self._best = victims
                better = sets.better_than(gone)
        return victims

    def _may_refine(self) -> bool:
        return self._refinements_left > 0 and not self.time.is_over

    def _without_idle_moves(self, victims: Victims) -> Victims:
        """The same, but pods stay that need not move with the others of their gang."""
        self._best = victims
        gone, moved = self._ends(victims) if self._may_refine() else (set(), set())
        for task in _of_gangs(self._search, victims):
            if task not in moved or not self._may_refine():
                continue
            self._refinements_left -= 1
            fewer = _without(self._best, task)
            left, still_moved = self._ends(fewer)
            if left and left < gone:
                self._best, gone, moved = fewer, left, still_moved
        return self._best

    def _ends(self, victims: Victims) -> tuple[set[int], set[int]]:
        """Who leaves or moves, and of these who moves; nobody if it fails or tears a gang."""
        session = self._search.session
        with Statement(session) as statement:
            works = self._dry_run(statement, self._tasks, victims)
            if not works or not all(is_gang(session, batch.job) for batch in victims):
                return set(), set()
            gone = self._gone(_tasks_of(victims))
            moves = session.ledger.status[gone] == TaskStatus.PIPELINED
            return set(gone.tolist()), set(gone[moves].tolist())

    def _dry_run(self, statement: Statement, tasks: Sequence[int], victims: Victims) -> bool:
        """Simulate and ask the rules; a set that failed is not simulated again."""
        evicted = _tasks_of(victims)
        attempt = (len(tasks), frozenset(evicted))
        if not evicted or attempt in self._search.failed:
            return False
        if self._work_left <= 0:
            raise BudgetSpent
        self._work_left -= len(tasks) + len(evicted)
        self._search.session.counters[f"{self._search.action}.simulated"] += 1
        if dry_run(
            self._search,
            statement,
            tasks,
            evicted,
            lambda: self._is_accepted(tasks, evicted),
            goes_first=self._is_refining,
        ):
            return True
        self._search.failed.add(attempt)
        return False

    def _is_accepted(self, tasks: Sequence[int], evicted: Sequence[int]) -> bool:
        refusal = objection(self._search, tasks, evicted)
        if refusal is not None:
            self.refusals.append(refusal)
        return refusal is None

    def _recorded(self, victims: Victims) -> Victims:
        """Batches of which something left or moved."""
        gone = set(self._gone(_tasks_of(victims)).tolist())
        return tuple(batch for batch in victims if not gone.isdisjoint(batch.tasks))

    def _gone(self, evicted: Sequence[int]) -> Rows:
        return still_evicted(self._search, evicted)


def still_evicted(search: VictimSearch, evicted: Sequence[int] | Rows) -> Rows:
    """Those of the tasks that leave or move in the end."""
    rows = np.asarray(evicted, dtype=np.int64)
    status = search.session.ledger.status[rows]
    gone: Rows = rows[(status == TaskStatus.RELEASING) | (status == TaskStatus.PIPELINED)]
    return gone


def objection(
    search: VictimSearch,
    tasks: Sequence[int] | Rows,
    evicted: Sequence[int] | Rows,
    lost: Rows | None = None,
) -> Refusal | None:
    """Why what the ledger holds must not be carried out; or, with `lost`, why it must not if these
    tasks were to go.
    """
    session = search.session
    victims = still_evicted(search, evicted) if lost is None else lost
    if lost is None:
        lost = victims[session.ledger.status[victims] == TaskStatus.RELEASING]
        is_moved = bool(search.moved_before[lost].any())
    else:
        is_moved = search.is_moved(lost)
    rows = np.asarray(tasks, dtype=np.int64)
    request = search.actor.request
    if len(rows) != len(search.actor.tasks):
        units = session.snapshot.demand.queue_units[session.snapshot.tasks.shape[rows]]
        request = units.sum(axis=0).astype(np.float64)
    refusal = disruption_objection(session, float(request[QUEUE_GPU]), victims)
    if refusal is not None or _moves_too_many(search, victims):
        return refusal or Refusal(Reason.DISRUPTION_BUDGET, subject=CONSOLIDATION)
    if search.action == CONSOLIDATION or is_moved:
        return Refusal(Reason.NO_VICTIMS) if len(lost) else None
    counted = lost
    if not session.configured.settings.allow_consolidating_reclaim:
        counted = np.asarray(evicted, dtype=np.int64)
    return session.policy.accept(
        Scenario(
            action=search.action,
            job=search.actor.job,
            tasks=rows,
            request=request,
            victims=victims,
            lost=counted,
            held_before=search.held_before,
            non_preemptible_before=search.non_preemptible_before,
        )
    )


def _running_tasks(search: VictimSearch) -> int:
    """How many tasks the candidates hold."""
    snapshot, jobs = search.session.snapshot, search.candidates
    leaves = snapshot.leaves.job
    is_candidate = np.zeros(len(snapshot.jobs.live), dtype=np.bool_)
    is_candidate[jobs] = True
    counts = search.session.ledger.counts[is_candidate[leaves]]
    return int(counts[:, IS_ACTIVE_ALLOCATED].sum())


def _moves_too_many(search: VictimSearch, victims: Rows) -> bool:
    """Whether consolidation would move more jobs than it may for one."""
    most = search.session.configured.settings.max_consolidation_victims
    if search.action != CONSOLIDATION or most is None:
        return False
    return len(np.unique(search.session.snapshot.tasks.job[victims])) > most


def _tasks_of(victims: Sequence[Batch]) -> list[int]:
    return list(dict.fromkeys(task for batch in victims for task in batch.tasks))


def _of_gangs(search: VictimSearch, victims: Victims) -> list[int]:
    """Tasks that go with others, and need not all share one lot."""
    return [
        task
        for batch in victims
        if len(batch.tasks) > 1 and not is_disrupted_atomically(search.session, batch.job)
        for task in batch.tasks
    ]


def _without(victims: Victims, task: int) -> Victims:
    """The same victims but one."""
    return tuple(
        Batch(batch.job, tuple(other for other in batch.tasks if other != task))
        for batch in victims
        if batch.tasks != (task,)
    )
