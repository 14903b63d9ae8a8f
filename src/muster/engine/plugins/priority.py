"""Jobs of higher priority go first (and are evicted last)."""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.numerics.arrays import Floats, Rows


class Priority:
    """KAI's `priority`."""

    name = "priority"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        return _ByPriority(view)


class _ByPriority(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._priority = view.snapshot.jobs.priority

    def job_keys(self, jobs: Rows) -> Floats:
        return -self._priority[jobs, np.newaxis].astype(np.float64)
