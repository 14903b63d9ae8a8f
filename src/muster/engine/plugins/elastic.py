"""Jobs below their minimum go before those at it, and these before those above it."""

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.model.presence import active_allocated
from muster.numerics.arrays import Floats, Rows

BELOW, AT, ABOVE = 0.0, 1.0, 2.0


class Elastic(WithoutArguments):
    """KAI's `elastic`."""

    name = "elastic"

    def open(self, view: View) -> SessionPlugin:
        return _ByFilling(view)


class _ByFilling(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._snapshot = view.snapshot
        self._ledger = view.ledger

    def job_keys(self, jobs: Rows) -> Floats:
        """Over all sub-groups: below if one is, above if one is and none is below."""
        start, leaves = self._snapshot.jobs.start, self._snapshot.jobs.leaves
        counts = start[jobs + 1] - start[jobs]
        of_job = np.repeat(np.arange(len(jobs)), counts)
        offset = np.arange(len(of_job)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = leaves[start[jobs][of_job] + offset]
        held = active_allocated(self._ledger, rows)
        minimum = self._snapshot.leaves.minimum[rows]
        filling = np.full(len(jobs), AT)
        filling[of_job[held > minimum]] = ABOVE
        filling[of_job[held < minimum]] = BELOW
        return filling[:, np.newaxis]
