"""Hard bounds: no queue above its limit, nothing non-preemptible above a quota.

The rule is `numerics.queue_bounds`'; here it is asked for jobs, tasks and nodes.
"""

import numpy as np

from muster.engine.hooks import View
from muster.model.bounds import over_bound, queue_bounds
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Rows
from muster.numerics.queue_bounds import OVER_LIMIT, WITHIN, broken_bound


class Capacity:
    """The bounds of queues against what they hold now."""

    def __init__(self, view: View) -> None:
        self._snapshot = view.snapshot
        self._bounds = queue_bounds(view.ledger)

    def refusal(self, job: int, tasks: Rows) -> Refusal | None:
        """Why the queues of a job may not hold these tasks too."""
        return self.refusal_of(job, int(self._snapshot.jobs.queue[job]), self.request(tasks))

    def request(self, tasks: Rows) -> Floats:
        """What tasks ask of their queue before their nodes are known: float64[queue resources].

        GPU memory counts by the largest GPU, which is the least it can come to.
        """
        units = self._snapshot.demand.least_units[self._snapshot.tasks.shape[tasks]]
        return np.asarray(units.sum(axis=0), dtype=np.float64)

    def refusal_of(self, job: int, queue: int, asked: Floats) -> Refusal | None:
        """The first bound that the request breaks, from the leaf up."""
        is_preemptible = bool(self._snapshot.jobs.is_preemptible[job])
        which, above, resource = broken_bound(self._bounds, queue, asked, is_preemptible)
        if which == WITHIN:
            return None
        bounds = self._bounds
        held = bounds.allocated if which == OVER_LIMIT else bounds.non_preemptible
        return over_bound(
            self._snapshot.queues, which, above, resource, asked[resource], held[above, resource]
        )

    def keeps_quota(self, job: int, asked: Floats) -> bool:
        """Whether no quota is exceeded by a job that cannot be preempted."""
        refusal = self.refusal_of(job, int(self._snapshot.jobs.queue[job]), asked)
        return refusal is None or refusal.reason is not Reason.OVER_QUOTA

    def allows_on(self, job: int, shape: Shape, rows: Rows) -> Bools:
        """On which nodes the queues may hold one such task, at the price the node gives it."""
        snapshot = self._snapshot
        prices = snapshot.demand.placed_units[snapshot.demand.sharing[shape.row]]
        queue = int(snapshot.jobs.queue[job])
        allowed = [self.refusal_of(job, queue, price) is None for price in prices.astype(float)]
        return np.array(allowed, dtype=np.bool_)[snapshot.nodes.gpu_size[rows]]
