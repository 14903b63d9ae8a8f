"""Defragmentation: running work moves so that free GPUs can be used, with nobody waiting for them.

What is gained is counted by the measure of `numerics.fragmentation`: of the free GPUs of all nodes,
those that the mix of tasks here could not use. A round tries the jobs of a node together, the
smallest first, for nodes that lose most for the least that is on them; it takes what gains most for
each pod, and does so again until its budget is used up. Nothing is moved for nothing: what is moved
has room elsewhere at once, and at least as many more GPUs can be used as it holds itself (half of
one for each pod at the least). So the sum of what is lost falls with every move, and in a cluster
that does not change nobody is moved twice; in one that does, not within a day.

A round begins when one is due (`config.defragmentation`) in a cycle that decides nothing else. When
the last one was is handed on in memory; a process that knows of none counts from its first cycle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.config.defragmentation import NAME, Defragmentation
from muster.engine.holds import spared_jobs
from muster.engine.placement import Attempt, Placed, place_job
from muster.engine.search.batches import active_tasks
from muster.engine.search.disruption import disruption_objection, spared
from muster.engine.search.evictable import Evictable
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.engine.task_mix import task_mix
from muster.model.status import TaskStatus
from muster.numerics import fragmentation
from muster.numerics.arrays import Floats, Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU

MOVED = f"{NAME}.moved"
"""The counter of pods that a round moves."""
_REST_S = 86_400.0
"""So long a job that lost a pod is left alone."""
_LEAST_OF_POD = 0.5
"""GPUs that must be gained for a pod at the least, however little it holds."""
_MOST_TRIED = 256
"""Sets of jobs that a round looks at, and that it looks at again."""
_MOST_TOGETHER = 8
"""Jobs of one node that are tried together."""


@dataclass(frozen=True, slots=True)
class _Gain:
    """What moving some jobs together would gain."""

    jobs: tuple[int, ...]
    pods: int
    gpus: float


def defragment(session: Session) -> None:
    """Move work if a round is due and the cycle has nothing else to do."""
    wanted = session.configured.defragmentation
    if wanted is None:
        return
    last_s = session.acted_s.get(NAME)
    is_due = last_s is not None and wanted.may_begin(session.now_s, last_s)
    if last_s is not None and (not is_due or session.has_decided or session.holds):
        return
    session.acted_s = {**session.acted_s, NAME: session.now_s}
    if is_due:
        _Round(session, wanted).run()


class _Round:
    """One round on one session."""

    def __init__(self, session: Session, wanted: Defragmentation) -> None:
        self._session = session
        self._left = wanted.most_moves
        fits = session.answers
        has_mix = session.mix is not fragmentation.NO_MIX
        self._mix = (
            session.mix if has_mix else task_mix(session.snapshot, lambda shape: fits(shape).fits)
        )
        self._losses = self._losses_of(session.all_nodes)
        self._tasks: dict[int, Rows] = {}

    def run(self) -> None:
        found = [self._gain(jobs) for jobs in self._sets()]
        # The most for each pod comes first, and of equal ones who stands first.
        by_worth = sorted(
            (gain for gain in found if gain is not None), key=lambda gain: -gain.gpus / gain.pods
        )
        moved: set[int] = set()
        for gain in by_worth:
            if gain.pods <= self._left and moved.isdisjoint(gain.jobs):
                again = self._gain(gain.jobs, keeps=True)
                if again is not None:
                    moved.update(gain.jobs)
                    self._left -= gain.pods
                    self._session.counters[MOVED] += gain.pods

    def _sets(self) -> Iterator[tuple[int, ...]]:
        """Jobs to move together, those that promise most first."""
        session = self._session
        by_node = self._jobs_by_node()
        held = {job: self._held(self._tasks[job]) for jobs in by_node.values() for job in jobs}
        worth = {
            node: float(self._losses[node]) / (1.0 + sum(held[job] for job in jobs))
            for node, jobs in by_node.items()
        }
        names, keys = session.snapshot.nodes.names, session.snapshot.jobs.keys
        count = 0
        for node in sorted(by_node, key=lambda node: (-worth[node], names[node])):
            jobs = sorted(by_node[node], key=lambda job: (held[job], keys[job]))
            for size in range(1, min(len(jobs), _MOST_TOGETHER) + 1):
                if count == _MOST_TRIED:
                    return
                count += 1
                yield tuple(jobs[:size])

    def _jobs_by_node(self) -> dict[int, list[int]]:
        """Jobs that may move, by those of their nodes that lose something."""
        session = self._session
        found: dict[int, list[int]] = {}
        for job in self._movable().tolist():
            tasks = np.array(active_tasks(session, job), dtype=np.int64)
            if len(tasks) > self._left or not self._all_run(tasks):
                continue
            self._tasks[job] = tasks
            for node in np.unique(session.ledger.node[tasks]).tolist():
                if self._losses[node] > 0:
                    found.setdefault(node, []).append(job)
        return found

    def _movable(self) -> Rows:
        session = self._session
        records = session.snapshot.jobs.records
        jobs = spared(session, Evictable(session).jobs)
        jobs = np.setdiff1d(jobs, spared_jobs(session.snapshot, session.holds))
        lately_s = session.now_s - _REST_S
        rested = [
            job
            for job in jobs.tolist()
            if (at_s := records[job].last_eviction_s) is None or at_s <= lately_s
        ]
        return np.array(rested, dtype=np.int64)

    def _all_run(self, tasks: Rows) -> bool:
        """Whether nothing of it is on its way."""
        return len(tasks) > 0 and bool(
            (self._session.ledger.status[tasks] == TaskStatus.RUNNING).all()
        )

    def _held(self, tasks: Rows) -> float:
        """GPUs that tasks hold."""
        snapshot = self._session.snapshot
        units = snapshot.demand.queue_units[snapshot.tasks.shape[tasks], QUEUE_GPU]
        return float(units.sum()) / GPU_UNIT

    def _gain(self, jobs: Sequence[int], keeps: bool = False) -> _Gain | None:
        """What is gained if these jobs move; None: they cannot, or it is too little."""
        session = self._session
        tasks = np.concatenate([self._tasks[job] for job in jobs])
        held = self._held(tasks)
        if disruption_objection(session, held * GPU_UNIT, tasks) is not None:
            return None
        old = session.ledger.node[tasks].copy()
        within = np.asarray((session.ledger.releasing <= 0).all(axis=1), dtype=np.bool_)
        within[old] = False
        with Statement(session) as statement:
            for task in tasks.tolist():
                statement.evict(task, Eviction(NAME, -1))
            for job in jobs:
                attempt = Attempt(
                    session, statement, job, within, may_start=False, tasks=self._tasks[job]
                )
                if not isinstance(place_job(attempt), Placed):
                    return None
            nodes = np.unique(np.concatenate((old, session.ledger.node[tasks])))
            losses = self._losses_of(nodes)
            gpus = float(self._losses[nodes].sum() - losses.sum())
            if gpus < max(held, _LEAST_OF_POD * len(tasks)) - 1e-9:
                return None
            if keeps:
                self._losses[nodes] = losses
                statement.commit()
        return _Gain(tuple(jobs), len(tasks), gpus)

    def _losses_of(self, nodes: Rows) -> Floats:
        """GPUs of nodes that the mix could not use: float64[len(nodes)]."""
        ledger = self._session.ledger
        return np.asarray(fragmentation.node_losses(ledger.handle, self._mix, nodes))
