"""What all futures of a cluster have in common, and what one of them draws."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.foresight.situation import Rules
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools, Floats, Ints, Rows

IsOver = Callable[[], bool]
"""Whether the time for playing futures is over."""


class OutOfTime(Exception):
    """A future was not played to its end."""


@dataclass(frozen=True, slots=True)
class Future:
    """When things happen in one future; float64[J], inf: never."""

    ends_s: Floats
    """Of jobs that run."""
    comes_s: Floats
    """Of jobs that may come."""
    runs_s: Floats
    """How long each job runs from its start."""


@dataclass(frozen=True)
class Course:
    """A cluster from which futures begin. Nobody is evicted in them; jobs that share GPUs stay
    where they are.
    """

    snapshot: ClusterSnapshot
    """With jobs that may come as rows that wait."""
    comes: Rows
    """Which jobs may come: they are not there yet."""
    rules: Rules
    now_s: float
    horizon_s: float
    period_s: float
    """How often the scheduler looks."""
    is_exact: bool = False
    """Whether who cannot fit has its turn in the order too, as in a cycle."""

    def tasks_of(self, job: int) -> Rows:
        start, rows = self.tasks_by_job
        return rows[start[job] : start[job + 1]]

    @cached_property
    def tasks_by_job(self) -> tuple[Ints, Rows]:
        """(start int64[J + 1], rows)."""
        tasks = self.snapshot.tasks
        rows = np.flatnonzero(tasks.live & (tasks.job >= 0)).astype(np.int64)
        order = rows[np.argsort(tasks.job[rows], kind="stable")]
        wanted = np.arange(len(self.snapshot.jobs.live) + 1)
        return np.searchsorted(tasks.job[order], wanted).astype(np.int64), order

    @cached_property
    def is_simulated(self) -> Bools:
        """Jobs without shared GPUs: [J]."""
        simulated = self.snapshot.jobs.live.copy()
        shared = self.snapshot.demand.sharing[self.snapshot.tasks.shape] >= 0
        rows = shared & self.snapshot.tasks.live & (self.snapshot.tasks.job >= 0)
        simulated[self.snapshot.tasks.job[rows]] = False
        return simulated
