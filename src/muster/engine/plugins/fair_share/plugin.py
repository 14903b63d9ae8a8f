"""The plugin: shares once per cycle, then answers from them and from what queues hold now."""

from collections.abc import Sequence

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Actor, LossBudget, QueueShares, Scenario, SessionPlugin, View
from muster.engine.plugins.fair_share.capacity import Capacity
from muster.engine.plugins.fair_share.reclaim import ReclaimRules
from muster.engine.plugins.fair_share.shares import shares_of
from muster.model.reasons import Refusal
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Rows

RECLAIM = "reclaim"
_MOST_NAMED = 3
"""Of the queues that may lose nothing, so many are named to who wonders."""
# The second spelling is KAI's, the third is what its documents say.
_SATURATION = (
    "reclaimerSaturationMultiplier",
    "relcaimerSaturationMultiplier",
    "reclaimerUtilizationMultiplier",
)


class FairShare:
    """KAI's `proportion`.

    `kValue` (1.0): how strongly past use counts against a queue. `reclaimerSaturationMultiplier`
    (1.0, at least 1): how much emptier than its victims a reclaiming queue must remain.
    """

    name = "proportion"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("kValue", *_SATURATION))
        self._usage_weight = max(0.0, arguments.key("kValue").number(1.0))
        self._saturation = 1.0
        for spelling in _SATURATION:
            self._saturation = max(self._saturation, arguments.key(spelling).number(1.0))

    def open(self, view: View) -> SessionPlugin:
        return _Shares(view, self._usage_weight, self._saturation)


class _Shares(SessionPlugin):
    def __init__(self, view: View, usage_weight: float, saturation: float) -> None:
        self._snapshot = view.snapshot
        self._usage_weight = usage_weight
        self._shares = shares_of(view.snapshot, usage_weight)
        self._capacity = Capacity(view)
        self._reclaim = ReclaimRules(view.snapshot, view.ledger, self._shares, saturation)

    def queue_shares(self) -> QueueShares:
        shares = self._shares
        return QueueShares(
            fair_share=shares.fair,
            allocatable_share=shares.own,
            quota=shares.quota,
            total=shares.total,
            claims=shares.claims,
            usage_weight=self._usage_weight,
        )

    def over_capacity(self, job: int, tasks: Rows) -> Refusal | None:
        return self._capacity.refusal(job, tasks)

    def enforces_queue_bounds(self) -> bool:
        return True

    def capacity_on(self, job: int, shape: Shape, rows: Rows) -> Bools:
        return self._capacity.allows_on(job, shape, rows)

    def may_reclaim(self, jobs: Rows, requests: Floats) -> Bools:
        return np.array(
            [
                self._reclaim.may_reclaim(int(job), request)
                for job, request in zip(jobs, requests, strict=True)
            ],
            dtype=np.bool_,
        )

    def may_preempt(self, jobs: Rows, requests: Floats) -> Bools:
        """What cannot be preempted must stay within quotas; limits count when it is placed."""
        may: Bools = self._snapshot.jobs.is_preemptible[jobs]
        for at in np.flatnonzero(~may).tolist():
            may[at] = self._capacity.keeps_quota(int(jobs[at]), requests[at])
        return may

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools | None:
        if action != RECLAIM:
            return None
        queues = np.arange(len(self._snapshot.queues), dtype=np.int64)
        may = self._reclaim.may_lose(actor.job, actor.request, queues)
        of_none = False  # -1, the queue of a job without one, is the last
        return np.append(may, of_none)[self._snapshot.jobs.queue[jobs]]

    def why_protected(self, action: str, actor: Actor, jobs: Rows) -> Sequence[Refusal]:
        if action != RECLAIM:
            return ()
        queues = np.bincount(self._snapshot.jobs.queue[jobs]).nonzero()[0]
        return self._reclaim.spared(actor.job, actor.request, queues, _MOST_NAMED)

    def max_reclaimable(self, action: str, actor: Actor, queues: Rows) -> LossBudget:
        if action != RECLAIM:
            return LossBudget(queues, queues, np.full(len(queues), np.inf))
        return self._reclaim.max_reclaimable(actor.job, actor.request, queues)

    def accept(self, scenario: Scenario) -> Refusal | None:
        if scenario.action != RECLAIM:
            return None
        return self._reclaim.objection(scenario, scenario.request)
