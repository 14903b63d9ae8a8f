"""How long searches of one cycle may still go on. The time is told from outside: the engine has no
clock, and where nobody tells the time it stands still, so that the same input gives the same plan.

As in KAI, time is looked at between one attempt and the next, never in the middle of one. Unlike
KAI's, a job that has used up its time does not end the action for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from muster.engine.config.budgets import SearchBudgets

ElapsedS = Callable[[], float]
"""Seconds since some fixed moment."""


def no_time_passes() -> float:
    """For whoever is not in a hurry."""
    return 0.0


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
