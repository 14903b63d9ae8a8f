"""Who may take from whom.

A job may reclaim as long as its queue stays within its fair share. What it takes is judged at the
level where its queue's path and the victim's path part: there the victim's side must hold more than
its own share, or more than its quota while the reclaimer's side is within its quota. Afterwards no
queue on the reclaimer's path may be fuller, relative to its share, than a sibling it took from.
"""

from dataclasses import dataclass, field

import numpy as np

from muster.engine.hooks import LossBudget, Scenario
from muster.engine.plugins.fair_share.amounts import exceeds, is_within
from muster.engine.plugins.fair_share.shares import Shares
from muster.model.ledger import Ledger
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.divide import UNLIMITED
from muster.numerics.reclaim import Sides, losses
from muster.numerics.tree import partings, path


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """The rules over the shares of one cycle.

    `saturation` above 1 asks for more distance between a reclaimer and the siblings it takes from.
    """

    snapshot: ClusterSnapshot
    ledger: Ledger
    shares: Shares
    saturation: float
    sides: dict[int, Sides] = field(default_factory=dict)

    def may_reclaim(self, job: int, request: Floats) -> bool:
        """Whether the job's queue stays within its fair share with the request."""
        queue = int(self.snapshot.jobs.queue[job])
        held = self.ledger.queue_allocated[queue]
        if not is_within(held + request, self.shares.fair[queue]):
            return False
        fixed = self.ledger.queue_fixed[queue]
        is_preemptible = bool(self.snapshot.jobs.is_preemptible[job])
        return is_preemptible or is_within(fixed + request, self.shares.quota[queue])

    def may_lose(self, job: int, request: Floats, queues: Rows) -> Bools:
        """Which leaf queues may lose something to the job: bool[len(queues)]."""
        own = int(self.snapshot.jobs.queue[job])
        may, _ = losses(self._sides(own), self.ledger.queue_allocated, request)
        return np.asarray(may[queues] & (queues != own), dtype=np.bool_)

    def spared(self, job: int, request: Floats, queues: Rows, most: int) -> list[Refusal]:
        """Which of these leaf queues may lose nothing to the job; the first so many."""
        kept = queues[~self.may_lose(job, request, queues)][:most]
        return [self._refused(Reason.WITHIN_SHARE, queue) for queue in kept.tolist()]

    def most_loss(self, job: int, request: Floats, queues: Rows) -> LossBudget:
        """What these queues hold above what protects them, where their paths part from ours.

        A queue that is above its bound in another resource may lose GPUs without bound.
        """
        sides = self._sides(int(self.snapshot.jobs.queue[job]))
        _, most = losses(sides, self.ledger.queue_allocated, request)
        return LossBudget(queues, sides.theirs[queues], most[queues])

    def _sides(self, own: int) -> Sides:
        """Where the path of every queue parts from that of `own`, and what protects it there."""
        found = self.sides.get(own)
        if found is None:
            ours, theirs = partings(self.snapshot.queues.chain, own)
            # One memory layout, so that kernels are compiled for no other.
            quota, share = map(np.ascontiguousarray, (self.shares.quota, self.shares.own))
            found = self.sides[own] = Sides(ours, theirs, quota, share)
        return found

    def objection(self, scenario: Scenario, request: Floats) -> Refusal | None:
        """Why the scenario would be unfair."""
        snapshot = self.snapshot
        own = int(snapshot.jobs.queue[scenario.job])
        remaining = scenario.held_before.astype(np.float64)
        lost: dict[int, Floats] = {}
        sides = self._sides(own)
        for queue, chunks in self._chunks_by_queue(scenario).items():
            ours, theirs = int(sides.ours[queue]), int(sides.theirs[queue])
            may_guarantee = is_within(scenario.held_before[ours] + request, self.shares.quota[ours])
            if not self._may_take(remaining[theirs], chunks, theirs, may_guarantee):
                return self._refused(Reason.WITHIN_SHARE, theirs)
            gone = chunks.sum(axis=0)
            for above in path(snapshot.queues.parent, queue):
                remaining[above] -= gone
                lost[above] = lost.get(above, np.zeros(3)) + gone
        if self._outgrows_a_sibling(own, request, remaining, lost):
            return self._refused(Reason.OVER_SHARE, own)
        if not snapshot.jobs.is_preemptible[scenario.job]:
            for above in path(snapshot.queues.parent, own):
                if not is_within(scenario.fixed_before[above] + request, self.shares.quota[above]):
                    return self._refused(Reason.OVER_QUOTA, above)
        return None

    def _may_take(self, held: Floats, chunks: Floats, queue: int, may_guarantee: bool) -> bool:
        """Whether the queue is above its bound each time before a chunk is taken from it."""
        before = held - np.vstack([np.zeros(3), np.cumsum(chunks, axis=0)[:-1]])
        is_above = exceeds(before, self.shares.own[queue]).any(axis=1)
        if may_guarantee:
            is_above |= exceeds(before, self.shares.quota[queue]).any(axis=1)
        return bool(is_above.all())

    def _outgrows_a_sibling(
        self, own: int, request: Floats, remaining: Floats, lost: dict[int, Floats]
    ) -> bool:
        parent = self.snapshot.queues.parent
        for queue in path(parent, own):
            ours = _saturation(remaining[queue] + request, self.shares.fair[queue])
            for sibling, amount in lost.items():
                if sibling == queue or parent[sibling] != parent[queue]:
                    continue
                share = self.shares.fair[sibling]
                counts = ((request > 0) | (amount > 0)) & (share > 0)
                theirs = _saturation(remaining[sibling], share)
                if (counts & (ours > 1) & (ours * self.saturation >= theirs)).any():
                    return True
        return False

    def _chunks_by_queue(self, scenario: Scenario) -> dict[int, Floats]:
        """What each leaf queue loses, float64[chunks, 3], smallest chunk first, so that the
        verdict has no chance in it: if any order of taking is fair, that one is.

        Tasks of a sub-group beyond its minimum go one by one, the others together.
        """
        snapshot, lost = self.snapshot, scenario.lost
        if len(lost) == 0:
            return {}
        job, leaf = snapshot.tasks.job[lost], snapshot.tasks.leaf[lost]
        is_core = _position_in_group(leaf) < snapshot.leaves.minimum[leaf]
        chunk = np.where(is_core, job, len(snapshot.jobs.live) + np.arange(len(lost)))
        _, first, of_task = np.unique(chunk, return_index=True, return_inverse=True)
        sums = np.zeros((len(first), 3))
        np.add.at(sums, of_task, self._units(lost))
        queue = snapshot.jobs.queue[job[first]]
        order = np.lexsort((sums[:, 1], sums[:, 0], sums[:, 2]))
        return {
            int(each): sums[order][queue[order] == each] for each in np.unique(queue[queue >= 0])
        }

    def _units(self, tasks: Rows) -> Ints:
        snapshot = self.snapshot
        shape = snapshot.tasks.shape[tasks]
        units = snapshot.demand.queue_units[shape].copy()
        for at in np.flatnonzero(snapshot.demand.is_memory[shape]).tolist():
            node = int(snapshot.tasks.node[tasks[at]])
            units[at] = self.ledger.queue_units(int(tasks[at]), node)
        return units

    def _refused(self, reason: Reason, queue: int) -> Refusal:
        record = self.snapshot.queues.records[queue]
        return Refusal(reason, subject=record.display_name or record.name)


def _position_in_group(group: Ints) -> Ints:
    """How many before it are of the same group: int64[len(group)]."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    start = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    counts = np.diff(np.append(start, len(group)))
    position = np.empty(len(group), dtype=np.int64)
    position[order] = np.arange(len(group)) - np.repeat(start, counts)
    return position


def _saturation(held: Floats | Ints, share: Floats) -> Floats:
    """How full a queue is relative to its share: infinitely, if it holds something of nothing."""
    held = np.asarray(held, dtype=np.float64)
    without = np.where(held > 0, np.inf, 0.0)
    ratio = np.divide(held, share, out=without.copy(), where=share > 0)
    return np.where(share == UNLIMITED, 0.0, ratio)
