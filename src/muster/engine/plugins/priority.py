"""Jobs of higher priority go first (and are evicted last)."""

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.numerics.arrays import Floats, Rows


class Priority(WithoutArguments):
    """KAI's `priority`."""

    name = "priority"

    def open(self, view: View) -> SessionPlugin:
        return _ByPriority(view)


class _ByPriority(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._priority = view.snapshot.jobs.priority

    def job_keys(self, jobs: Rows) -> Floats:
        return -self._priority[jobs, np.newaxis].astype(np.float64)
