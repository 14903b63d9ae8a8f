"""How long searches of one cycle may still go on. The time is told from outside: the engine has no
clock, and where nobody tells the time it stands still, so that the same input gives the same plan.

Searches also give way: while something waits for the next cycle, the queues of an action have a
second among them, and each its equal part of it. So hard jobs, however many, keep neither newcomers
waiting nor the searches of other queues.

As in KAI, time is looked at between one attempt and the next, never in the middle of one. Unlike
KAI's, a job that has used up its time does not end the action for the others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from muster.engine.config.budgets import SearchBudgets

ElapsedS = Callable[[], float]
"""Seconds since some fixed moment."""


IsAwaited = Callable[[], bool]
"""Whether something has happened since the snapshot, which the next cycle is to take in."""
GIVE_WAY_S = 1.0


def no_time_passes() -> float:
    """For whoever is not in a hurry."""
    return 0.0


def nobody_waits() -> bool:
    """For whoever looks at things as they were."""
    return False


@dataclass(frozen=True, slots=True)
class JobTime:
    """What one job has."""

    _elapsed_s: ElapsedS
    _budgets: SearchBudgets
    _ends_s: float
    is_reduced: bool
    """Whether the action leaves it less than jobs usually get."""

    @property
    def is_over(self) -> bool:
        return self._elapsed_s() >= self._ends_s

    def of_generator(self, name: str) -> "JobTime":
        """What the job has for one way to look for victims."""
        limit_s = self._budgets.generators_s[name] or inf
        ends_s = min(self._ends_s, self._elapsed_s() + limit_s)
        return JobTime(self._elapsed_s, self._budgets, ends_s, self.is_reduced)


UNLIMITED = JobTime(no_time_passes, SearchBudgets(), inf, is_reduced=False)


class ActionTime:
    """What one action has, from now on."""

    def __init__(self, action: str, budgets: SearchBudgets, elapsed_s: ElapsedS) -> None:
        self._budgets = budgets
        self._elapsed_s = elapsed_s
        self._ends_s = elapsed_s() + (budgets.actions_s.get(action, 0.0) or inf)

    @property
    def is_over(self) -> bool:
        """Whether not even one more job may be begun with."""
        return not self._budgets.least_job_s and self._elapsed_s() >= self._ends_s

    def of_job(self) -> JobTime:
        """What the next job has."""
        budgets, now_s = self._budgets, self._elapsed_s()
        usual_s = now_s + (budgets.job_s or inf)
        ends_s = max(min(self._ends_s, usual_s), now_s + budgets.least_job_s)
        return JobTime(self._elapsed_s, budgets, ends_s, is_reduced=ends_s < usual_s)


class QueueTime:
    """What the queues of one action have while the next cycle is awaited."""

    def __init__(self, queues: int, elapsed_s: ElapsedS, is_awaited: IsAwaited) -> None:
        """`queues`: how many have jobs that wait."""
        self._share_s = GIVE_WAY_S / max(queues, 1)
        self._elapsed_s = elapsed_s
        self._is_awaited = is_awaited
        self._spent_s: defaultdict[int, float] = defaultdict(float)

    @contextmanager
    def spent_by(self, queue: int) -> Iterator[None]:
        """What is done within is done for that queue."""
        if self._is_awaited is nobody_waits:
            yield
            return
        began_s = self._elapsed_s()
        yield
        self._spent_s[queue] += self._elapsed_s() - began_s

    def is_over(self, queue: int) -> bool:
        """Whether no more of its jobs may be begun with. Each queue begins with one at least."""
        return self._spent_s[queue] >= self._share_s and self._is_awaited()
