"""What the API server's no to a decision means: who said it, and whether it passes. Pure."""

from dataclasses import dataclass
from enum import Enum

from muster.client.errors import (
    ApiError,
    Forbidden,
    Throttled,
    Unauthorized,
    Unreachable,
    asked_wait_s,
)

_THROTTLED_S_MIN = 1.0
_TEXT_MAX = 300
"""Webhooks may say anything, and it goes into conditions and events."""
_ADMISSION = ("admission webhook", "failed calling webhook", "ValidatingAdmissionPolicy")
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


class Cause(Enum):
    """Who refused. The value is the label of meters."""

    BUDGET = "disruption budget"
    SEVERAL_BUDGETS = "several disruption budgets"
    THROTTLED = "throttled by server"
    ADMISSION = "refused by admission"
    FORBIDDEN = "not permitted"
    INVALID = "not accepted by server"
    TROUBLE = "server or network trouble"
    OUTDATED = "decision outdated"
    """Nobody refused: what was decided no longer applies, and was not asked for."""


_PHRASES = {
    Cause.BUDGET: "a disruption budget does not allow it now",
    Cause.SEVERAL_BUDGETS: "several disruption budgets cover the pod, and Kubernetes allows one",
    Cause.THROTTLED: "the API server has too much to do",
    Cause.ADMISSION: "admission refused it",
    Cause.FORBIDDEN: "the scheduler may not do it",
    Cause.INVALID: "the API server does not accept it",
    Cause.TROUBLE: "the API server gave no clear answer",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A write that did not come to pass, or of which nobody knows."""

    cause: Cause
    text: str
    """For people."""
    is_passing: bool
    """Whether waiting a little helps: nobody has to change anything."""
    is_undone: bool = True
    """Whether it is certain that nothing was done."""
    retry_after_s: float = 0.0
    """Where the server only has too much to do: how long it is to be left alone."""


def refusal_of(error: Exception) -> Refused:
    cause = cause_of(error)
    said = _said(error)
    said = said if len(said) <= _TEXT_MAX else said[:_TEXT_MAX] + "..."
    is_passing = cause in (Cause.THROTTLED, Cause.TROUBLE)
    wait_s = max(asked_wait_s(error), _THROTTLED_S_MIN) if cause is Cause.THROTTLED else 0.0
    text, is_undone = f"{_PHRASES[cause]}: {said}", cause is not Cause.TROUBLE
    return Refused(cause, text, is_passing, is_undone, wait_s)


def cause_of(error: Exception) -> Cause:
    """Admission comes first: it may refuse with any code it likes."""
    if not isinstance(error, ApiError):
        return Cause.TROUBLE
    if any(sign in error.message for sign in _ADMISSION):
        return Cause.ADMISSION
    if _SEVERAL_BUDGETS in error.message:
        return Cause.SEVERAL_BUDGETS
    if isinstance(error, Throttled):
        return Cause.BUDGET if error.is_by_budget else Cause.THROTTLED
    if isinstance(error, Forbidden | Unauthorized):
        return Cause.FORBIDDEN
    return Cause.TROUBLE if error.is_passing else Cause.INVALID


def _said(error: Exception) -> str:
    if isinstance(error, Throttled) and error.is_by_budget:
        return " ".join(cause.message for cause in error.causes) or error.message
    if isinstance(error, ApiError | Unreachable):
        return str(error) or repr(error)
    return type(error).__name__  # Nobody foresaw it: its text may be about us.
