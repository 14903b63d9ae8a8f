"""Session: snapshot, ledger, policy and now, for one cycle.

It also holds what is computed once and asked often (answers about nodes per shape, orders of tasks)
and what the cycle will have to say at its end (refusals, counters). It decides nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.holds import still_held
from muster.engine.hooks import LEAST_FRAGMENTATION, Dependence, View
from muster.engine.memory import EMPTY, CycleInputs, Memory, RefusalCache
from muster.engine.policy import Policy
from muster.engine.search_time import ElapsedS, IsAwaited, no_time_passes, nobody_waits
from muster.engine.task_mix import task_mix
from muster.model.ledger import Ledger
from muster.model.reasons import Refusal, Room
from muster.model.records import SubGroupRecord
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.numerics.arrays import Bools, Floats, Rows
from muster.numerics.fragmentation import NO_MIX, Mix

Reasons = tuple[Refusal, ...]

_STATIC = (Dependence.STATIC,)


@dataclass(frozen=True, slots=True)
class NodeAnswers:
    """What plugins say about all nodes for one shape, as far as it holds for the whole cycle."""

    fits: Bools  # [N]
    score: Floats  # [N]
    dependence: Dependence


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why a task was evicted."""

    action: str
    actor: int
    """The job it makes room for; -1 for none."""


class Session:
    """One cycle's working state."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        now_s: float,
        memory: Memory = EMPTY,
        elapsed_s: ElapsedS = no_time_passes,
        refines: bool = True,
        is_awaited: IsAwaited = nobody_waits,
    ) -> None:
        self.snapshot = snapshot
        self.ledger = Ledger(snapshot)
        self.now_s = now_s
        self.configured = policy
        self.policy = policy.open(View(snapshot, self.ledger, now_s, policy.settings))
        self.holds = still_held(memory.holds, snapshot, now_s)
        """Room that earlier cycles made; allocate serves whom it is for, and drops the rest."""
        # What is refused while room is held depends on for whom: it is not carried over.
        self.remembers = not self.holds
        self.packing = self.policy.packing()
        self.availability_score = self.policy.availability_score()
        self.sharing_score = self.policy.sharing_score()
        self.all_nodes: Rows = np.arange(len(snapshot.nodes), dtype=np.int64)
        self.refusals: dict[int, Reasons] = {}
        """By job; jobs that were refused alike share one value."""
        self._joined: dict[tuple[int, int], tuple[Reasons, Reasons, Reasons]] = {}
        self.unsaid: set[str] = set()
        """Jobs that were placed, but may not be bound: a plugin failed to say what goes along."""
        self.kept_out: set[int] = set()
        """Jobs that were not let in, so that nobody makes pods for them."""
        self.evictions: dict[int, Eviction] = {}
        self.evicted_for: set[int] = set()
        """Jobs that something was evicted for, and perhaps restored."""
        self.stale_since_s: dict[int, float | None] = {}
        """Jobs that became stale, or are no longer (None)."""
        self.counters: Counter[str] = Counter()
        self.elapsed_s = elapsed_s
        self.is_awaited = is_awaited
        self.is_cut_short = False
        """Whether jobs were refused for want of time rather than for what was found."""
        self.refines = refines
        """Whether smaller sets of victims are looked for than the order of the rules leads to."""
        self.has_refined = False
        """Whether one was taken."""
        self.gets_further = False
        """Whether the next cycle would come to jobs for which there was no time in this one."""
        self.covered: dict[str, Rows] | None = None
        """Tasks that each PodDisruptionBudget covers, once somebody asked."""
        self.refused_tasks: Rows | None = None
        """Tasks whose eviction was refused lately, likewise."""
        self.tiers: object | None = None
        """The rules of tiers (`engine.tiers.fold.tiers_of`), once an action asked for them."""
        self.acted_s = memory.acted_s
        """When plugins last did what they do only now and then, by name."""
        self.phases: dict[int, str] = {}
        """Phases of Volcano that this cycle gave to jobs."""
        self._answers: dict[int, NodeAnswers] = {}
        self._answers_by_kind: dict[int, NodeAnswers] = {}
        """Likewise, by `Shape.alike`."""
        self._no_answers = NodeAnswers(
            np.ones(len(snapshot.nodes), dtype=np.bool_),
            np.zeros(len(snapshot.nodes)),
            Dependence.IRRELEVANT,
        )
        """What shapes share to which no plugin has anything to say."""
        self._refused: dict[tuple[int, int], Refusal | None] = {}
        self.room_of_shape: dict[int, Room] = {}
        """Of shapes that no node could take, by row: what holds for the whole cycle."""
        self._task_order: dict[int, Rows] = {}
        self._pending_order: Rows | None = None
        self.mix = self._task_mix()
        """What fragmentation is measured by."""
        known = memory if self.remembers else EMPTY
        inputs = CycleInputs(snapshot, policy, self.policy, now_s, self.mix)
        self.refusal_cache = RefusalCache(known, inputs)

    def _task_mix(self) -> Mix:
        if LEAST_FRAGMENTATION not in (self.packing.gpu, self.packing.cpu):
            return NO_MIX
        return task_mix(self.snapshot, lambda shape: self.answers(shape).fits)

    def refuse(self, job: int, refusals: Reasons) -> None:
        """Remember why a job was not served; equal refusals once."""
        known = self.refusals.get(job, ())
        if not known and len(refusals) == 1:
            self.refusals[job] = refusals
            return
        # Equal jobs get one and the same value: it is joined with what they know once. The
        # values are kept with the result, so that no other value can have their identity.
        key = (id(known), id(refusals))
        found = self._joined.get(key)
        if found is None:
            found = self._joined[key] = (known, refusals, _joined(known, refusals))
        self.refusals[job] = found[2]

    def refuse_each(self, jobs: Sequence[int], refusals: Sequence[Reasons]) -> None:
        """Remember why jobs were not served, each for reasons of its own."""
        known, joined = self.refusals, self._joined
        if known.keys().isdisjoint(jobs) and set(map(len, refusals)) <= {1}:
            known.update(zip(jobs, refusals, strict=True))
            return
        for job, reasons in zip(jobs, refusals, strict=True):
            before = known.get(job)
            if before is None:
                if len(reasons) == 1:
                    known[job] = reasons
                else:
                    self.refuse(job, reasons)
            elif (found := joined.get((id(before), id(reasons)))) is not None:
                known[job] = found[2]
            else:
                self.refuse(job, reasons)

    def refuse_all(self, action: str, jobs: Sequence[int], refusals: Iterable[Reasons]) -> None:
        """Refuse jobs that had their turn in an action; later cycles may know it."""
        by_job = dict(zip(jobs, refusals, strict=False))
        self.refuse_each(list(by_job), list(by_job.values()))
        if not self.ledger.version:
            self.refusal_cache.store(action, by_job)

    def cached_refusal(self, action: str, job: int) -> Reasons | None:
        """Why an earlier cycle refused the job and this one would again; None: not known."""
        return None if self.ledger.version else self.refusal_cache.refusals(action).get(job)

    def evicted_for_whom(self) -> tuple[Rows, Rows]:
        """Tasks that were evicted, and the job that each makes room for (-1: none)."""
        tasks = np.fromiter(self.evictions, dtype=np.int64, count=len(self.evictions))
        actors = [why.actor for why in self.evictions.values()]
        return tasks, np.array(actors, dtype=np.int64)

    @property
    def has_decided(self) -> bool:
        """Whether the cycle has something to do so far."""
        return bool(self.ledger.version or self.stale_since_s)

    def answers(self, shape: Shape) -> NodeAnswers:
        """What plugins say about all nodes for this shape."""
        known = self._answers.get(shape.row)
        if known is None:
            known = self._answers[shape.row] = self._answers_alike(shape)
        return known

    def _answers_alike(self, shape: Shape) -> NodeAnswers:
        """The same object for shapes about which nobody can say different things."""
        if self.policy.reads_amounts or shape.alike < 0:
            return self._ask(shape)
        known = self._answers_by_kind.get(shape.alike)
        if known is None:
            failed = len(self.policy.failures.found)
            known = self._ask(shape)
            if len(self.policy.failures.found) == failed:  # else each fails for its own jobs
                self._answers_by_kind[shape.alike] = known
        return known

    def _ask(self, shape: Shape) -> NodeAnswers:
        dependence, rows = self.policy.dependence(shape), self.all_nodes
        if dependence is Dependence.IRRELEVANT:
            return self._no_answers
        fits, score = self.policy.fits, self.policy.score
        return NodeAnswers(fits(shape, rows, _STATIC), score(shape, rows, _STATIC), dependence)

    def refused_everywhere(self, shape: Shape, job: int) -> Refusal | None:
        """Why no node at all can take the shape for a job of this queue."""
        key = (shape.row, int(self.snapshot.jobs.queue[job]))
        if key not in self._refused:
            self._refused[key] = self.policy.pre_filter(shape, job)
        return self._refused[key]

    def tasks_in_order(self, leaf: int) -> Rows:
        """All tasks of a leaf in the order in which they start, and reversed are evicted."""
        known = self._task_order.get(leaf)
        if known is None:
            rows = self.snapshot.tasks_of_leaf(leaf)
            known = rows[_lexicographic(self.policy.task_keys(rows))] if len(rows) > 1 else rows
            self._task_order[leaf] = known
        return known

    def pending_in_order(self) -> Rows:
        """All tasks of leaves that were pending when the cycle began; those of a leaf in the order
        in which they start.
        """
        if self._pending_order is None:
            rows, tasks = self.snapshot.leaves.tasks, self.snapshot.tasks
            pending = rows[tasks.status[rows] == TaskStatus.PENDING]
            self._pending_order = self._in_task_order(pending)
        return self._pending_order

    def _in_task_order(self, rows: Rows) -> Rows:
        """Tasks, grouped by leaf and by age, sorted inside each leaf that has several."""
        leaf = self.snapshot.tasks.leaf[rows]
        _, first, size = np.unique(leaf, return_index=True, return_counts=True)
        if len(size) == 0 or int(size.max()) < 2:
            return rows
        crowded = np.flatnonzero(np.isin(leaf, leaf[first[size > 1]]))
        keys = self.policy.task_keys(rows[crowded])
        order = np.lexsort((*keys.T[::-1], leaf[crowded]))
        by_leaf = np.lexsort((leaf[crowded],))
        ordered = rows.copy()
        ordered[crowded[by_leaf]] = rows[crowded[order]]
        return ordered

    def waiting_tasks(self, leaf: int, is_real: bool = True) -> Rows:
        """Tasks of a leaf that look for a place, in order.

        In a simulation (`is_real` False) those that it evicted look for one too.
        """
        rows = self.tasks_in_order(leaf)
        status = self.ledger.status[rows]
        waits = status == TaskStatus.PENDING
        if not is_real:
            leaving = np.flatnonzero(status == TaskStatus.RELEASING)
            if len(leaving):
                is_evicted = self.ledger.is_evicted_here
                waits[leaving] = [is_evicted(int(task)) for task in rows[leaving]]
        waiting: Rows = rows[waits]
        return waiting

    def waiting_jobs(self) -> Bools:
        """Jobs with tasks that look for a place: bool[J]."""
        leaves = self.snapshot.leaves
        waits = np.zeros(len(self.snapshot.jobs.live), dtype=np.bool_)
        waits[leaves.job[self.ledger.counts[:, TaskStatus.PENDING] > 0]] = True
        return waits & self.snapshot.jobs.live

    def has_waiting(self, job: int) -> bool:
        """Whether some task of the job still looks for a place."""
        leaves = self.snapshot.leaves_of_job(job)
        return bool(self.ledger.counts[leaves, TaskStatus.PENDING].any())

    def ordered_sub_groups(
        self, job: int, groups: Sequence[SubGroupRecord]
    ) -> list[SubGroupRecord]:
        """Sibling sub-groups in the order in which they are served."""
        if len(groups) < 2:
            return list(groups)
        by_name = sorted(groups, key=lambda group: group.name)
        keys = self.policy.sub_group_keys(job, by_name)
        return [by_name[at] for at in _lexicographic(keys)]


def _joined(known: Reasons, new: Reasons) -> Reasons:
    """What is known, and what of the new is not among it."""
    joined = list(known)
    for refusal in new:
        for other in joined:
            if other is refusal or (
                other.reason is refusal.reason
                and other.subject == refusal.subject  # most differ here
                and other == refusal
            ):
                break
        else:
            joined.append(refusal)
    return tuple(joined)


def _lexicographic(keys: Floats) -> Rows:
    """Positions by the first column, then the second, and so on; equal ones stay in order."""
    if keys.shape[1] == 0:
        return np.arange(len(keys), dtype=np.int64)
    return np.lexsort(keys.T[::-1]).astype(np.int64)
