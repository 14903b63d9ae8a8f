"""Who may take from whom.

A job may reclaim as long as its queue stays within its fair share. What it takes is judged at the
level where its queue's path and the victim's path part: there the victim's side must hold more than
its own share, or more than its quota while the reclaimer's side is within its quota. Afterwards no
queue on the reclaimer's path may be fuller, relative to its share, than a sibling it took from.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import Scenario
from muster.engine.plugins.fair_share.amounts import exceeds, is_within
from muster.engine.plugins.fair_share.shares import Shares
from muster.model.ledger import Ledger
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.divide import UNLIMITED
from muster.numerics.tree import diverging, path


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """The rules over the shares of one cycle.

    `saturation` above 1 asks for more distance between a reclaimer and the siblings it takes from.
    """

    snapshot: ClusterSnapshot
    ledger: Ledger
    shares: Shares
    saturation: float

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
        return np.array(
            [self._may_lose(own, request, int(queue)) for queue in queues], dtype=np.bool_
        )

    def _may_lose(self, own: int, request: Floats, queue: int) -> bool:
        if own == queue:
            return False
        ours, theirs = diverging(self.snapshot.queues.parent, own, queue)
        held, quota = self.ledger.queue_allocated, self.shares.quota
        if not is_within(held[ours] + request, quota[ours]):
            return bool(exceeds(held[theirs], self.shares.own[theirs]).any())
        counts = (request > 0) & (quota[theirs] != UNLIMITED)
        if (counts & (held[theirs] > quota[theirs])).any():
            return True
        return not bool((counts & (held[theirs] < quota[theirs])).any())

    def objection(self, scenario: Scenario, request: Floats) -> Refusal | None:
        """Why the scenario would be unfair."""
        snapshot = self.snapshot
        own = int(snapshot.jobs.queue[scenario.job])
        remaining = scenario.held_before.astype(np.float64)
        lost: dict[int, Floats] = {}
        for queue, chunks in self._chunks_by_queue(scenario).items():
            ours, theirs = diverging(snapshot.queues.parent, own, queue)
            may_guarantee = is_within(scenario.held_before[ours] + request, self.shares.quota[ours])
            for chunk in chunks:
                if not self._may_take(remaining[theirs], theirs, may_guarantee):
                    return self._refused(Reason.OVER_SHARE, own)
                for above in path(snapshot.queues.parent, queue):
                    remaining[above] -= chunk
                    lost[above] = lost.get(above, np.zeros(3)) + chunk
        if self._outgrows_a_sibling(own, request, remaining, lost):
            return self._refused(Reason.OVER_SHARE, own)
        if not snapshot.jobs.is_preemptible[scenario.job]:
            for above in path(snapshot.queues.parent, own):
                if not is_within(scenario.fixed_before[above] + request, self.shares.quota[above]):
                    return self._refused(Reason.OVER_QUOTA, above)
        return None

    def _may_take(self, remaining: Floats, queue: int, may_guarantee: bool) -> bool:
        if exceeds(remaining, self.shares.own[queue]).any():
            return True
        return may_guarantee and bool(exceeds(remaining, self.shares.quota[queue]).any())

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

    def _chunks_by_queue(self, scenario: Scenario) -> dict[int, list[Floats]]:
        """What each leaf queue loses, smallest chunk first, so that the verdict has no chance in
        it: if any order of taking is fair, that one is.
        """
        found: dict[int, list[Floats]] = {}
        for job, tasks in self._by_job(scenario.lost):
            queue = int(self.snapshot.jobs.queue[job])
            if queue >= 0:
                found.setdefault(queue, []).extend(self._chunks(tasks))
        return {
            queue: sorted(chunks, key=lambda chunk: (chunk[2], chunk[0], chunk[1]))
            for queue, chunks in found.items()
        }

    def _by_job(self, tasks: Rows) -> Iterator[tuple[int, list[int]]]:
        by_job: dict[int, list[int]] = {}
        for task in tasks.tolist():
            by_job.setdefault(int(self.snapshot.tasks.job[task]), []).append(task)
        yield from by_job.items()

    def _chunks(self, tasks: list[int]) -> Iterator[Floats]:
        """The tasks of a sub-group beyond its minimum go one by one, the others together."""
        core = np.zeros(3)
        seen: dict[int, int] = {}
        for task in tasks:
            leaf = int(self.snapshot.tasks.leaf[task])
            seen[leaf] = seen.get(leaf, 0) + 1
            units = self.ledger.queue_units(task, int(self.snapshot.tasks.node[task]))
            if seen[leaf] <= self.snapshot.leaves.minimum[leaf]:
                core = core + units
            else:
                yield units.astype(np.float64)
        if core.any():
            yield core

    def _refused(self, reason: Reason, queue: int) -> Refusal:
        record = self.snapshot.queues.records[queue]
        return Refusal(reason, subject=record.display_name or record.name)


def _saturation(held: Floats | Ints, share: Floats) -> Floats:
    """How full a queue is relative to its share: infinitely, if it holds something of nothing."""
    held = np.asarray(held, dtype=np.float64)
    without = np.where(held > 0, np.inf, 0.0)
    ratio = np.divide(held, share, out=without.copy(), where=share > 0)
    return np.where(share == UNLIMITED, 0.0, ratio)
