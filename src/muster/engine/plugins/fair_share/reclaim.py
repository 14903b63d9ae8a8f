"""Who may take from whom.

A job may reclaim as long as its queue stays within its fair share. What it takes is judged at the
level where its queue's path and the victim's path part: there the victim's side must hold more than
its own share, or more than its quota while the reclaimer's side is within its quota. Afterwards no
queue on the reclaimer's path may be fuller, relative to its share, than a sibling it took from.
"""

from dataclasses import dataclass, field

import numpy as np

from muster.engine.hooks import LossBudget, Scenario
from muster.engine.plugins.fair_share.amounts import is_within
from muster.engine.plugins.fair_share.shares import Shares
from muster.model.ledger import Ledger
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.numerics.ledger import all_placed_units
from muster.numerics.queue_bounds import exceeded
from muster.numerics.reclaim import (
    FAIR,
    OUTGROWS,
    TAKES_OF_A_SHARE,
    Sides,
    Taken,
    losses,
    verdict,
)
from muster.numerics.tree import partings, path

_WHY = {TAKES_OF_A_SHARE: Reason.WITHIN_SHARE, OUTGROWS: Reason.OVER_SHARE}


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
        fixed = self.ledger.queue_allocated_non_preemptible
        is_preemptible = bool(self.snapshot.jobs.is_preemptible[job])
        return is_preemptible or self._keeps_quota(queue, fixed, request)

    def may_lose(self, job: int, request: Floats, queues: Rows) -> Bools:
        """Which leaf queues may lose something to the job: bool[len(queues)]."""
        own = int(self.snapshot.jobs.queue[job])
        may, _ = losses(self._sides(own), self.ledger.queue_allocated, request)
        return np.asarray(may[queues] & (queues != own), dtype=np.bool_)

    def spared(self, job: int, request: Floats, queues: Rows, most: int) -> list[Refusal]:
        """Which of these leaf queues may lose nothing to the job; the first so many."""
        kept = queues[~self.may_lose(job, request, queues)][:most]
        return [self._refused(Reason.WITHIN_SHARE, queue) for queue in kept.tolist()]

    def max_reclaimable(self, job: int, request: Floats, queues: Rows) -> LossBudget:
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
            columns = (self.shares.quota, self.shares.own, self.shares.fair)
            amounts = (np.ascontiguousarray(column, dtype=np.float64) for column in columns)
            parent = self.snapshot.queues.parent
            found = self.sides[own] = Sides(ours, theirs, parent, *amounts)
        return found

    def objection(self, scenario: Scenario, request: Floats) -> Refusal | None:
        """Why the scenario would be unfair."""
        snapshot = self.snapshot
        own = int(snapshot.jobs.queue[scenario.job])
        taken = self._taken(scenario.lost)
        found, queue = verdict(
            self._sides(own), scenario.held_before, request, own, taken, float(self.saturation)
        )
        if found != FAIR:
            return self._refused(_WHY[found], queue)
        if not snapshot.jobs.is_preemptible[scenario.job]:
            for above in path(snapshot.queues.parent, own):
                if not self._keeps_quota(above, scenario.non_preemptible_before, request):
                    return self._refused(Reason.OVER_QUOTA, above)
        return None

    def _keeps_quota(self, queue: int, fixed: Ints, request: Floats) -> bool:
        """Whether the queue stays within its quota with what of it cannot be preempted."""
        return bool(exceeded(self.snapshot.queues.quota, fixed, queue, request) < 0)

    def _taken(self, lost: Rows) -> Taken:
        """What leaf queues lose, smallest chunk first, so that the verdict has no chance in it: if
        any order of taking is fair, that one is.

        Tasks of a sub-group beyond its minimum go one by one, the others together.
        """
        snapshot, job = self.snapshot, self.snapshot.tasks.job[lost]
        amount = self._units(lost).astype(np.float64)
        if len(set(job.tolist())) < len(lost):
            leaf = snapshot.tasks.leaf[lost]
            is_core = _position_in_group(leaf) < snapshot.leaves.minimum[leaf]
            chunk = np.where(is_core, job, len(snapshot.jobs.live) + np.arange(len(lost)))
            _, first, of_task = np.unique(chunk, return_index=True, return_inverse=True)
            sums = np.zeros((len(first), QUEUE_WIDTH))
            np.add.at(sums, of_task, amount)
            job, amount = job[first], sums
        queue = snapshot.jobs.queue[job]
        order = np.lexsort((*amount.T[::-1], amount[:, QUEUE_GPU], queue))
        order = order[queue[order] >= 0]
        return Taken(queue[order], amount[order])

    def _units(self, tasks: Rows) -> Ints:
        """What tasks were charged where they were when the cycle began."""
        units: Ints = all_placed_units(self.ledger.handle, tasks, self.snapshot.tasks.node[tasks])
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
