"""Objects of our kinds from a review, and their problems as an answer."""

from collections.abc import Iterable
from typing import TypeVar

from muster.api.codec import Unreadable, from_builtins
from muster.api.meta import Struct
from muster.api.validation import problems as api
from muster.services.admission.review import AdmissionProblem, AdmissionResponse, Object, unreadable

StructT = TypeVar("StructT", bound=Struct)


def decode_object(struct: type[StructT], thing: Object | None) -> StructT | AdmissionResponse:
    """The object as a struct, or the refusal of one that cannot be read."""
    try:
        return from_builtins(struct, thing or {})
    except Unreadable as error:
        path = error.path.removeprefix("$.")
        return unreadable(path, f"{path}: {error.reason}")


def answer_of(found: Iterable[api.Problem]) -> AdmissionResponse:
    """Errors refuse; warnings are told to whoever wrote the object."""
    problems, warnings = [], []
    for problem in found:
        if problem.severity is api.Severity.ERROR:
            problems.append(AdmissionProblem(problem.path, problem.message, problem.fix))
        else:
            warnings.append(problem.message)
    return AdmissionResponse(tuple(problems), tuple(warnings))
