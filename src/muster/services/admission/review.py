"""An admission review as values: what is asked, and what is answered.

A refusal carries a sentence for the person who reads it and, for each thing that is wrong, the path
of the field and what to write instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.validation.problems import Problem

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes, as the API server knows him."""

    name: str = ""
    groups: Sequence[str] = ()

    def is_trusted(self, namespace: str) -> bool:
        """Whether it is one of our services, whose accounts are in `namespace`, or somebody who may
        do anything anyway.
        """
        is_ours = self.name.startswith(f"system:serviceaccount:{namespace}:")
        return is_ours or "system:masters" in self.groups


@dataclass(frozen=True, slots=True)
class Review:
    """One request: `thing` is the object as it would be stored, `old` as it is stored."""

    operation: str
    thing: Object | None = None
    old: Object | None = None
    namespace: str = ""
    by: Author = Author()


@dataclass(frozen=True, slots=True)
class AdmissionProblem:
    """One thing that is wrong: where, what, and how to mend it."""

    field: str
    message: str
    fix: str
    sentence: str = ""
    """The sentence for people, where the message is not to come first."""

    @property
    def told(self) -> str:
        """The message, which tools may match on, and then which field and what to do."""
        return self.sentence or f"{self.message}: {self.field}: {self.fix}"


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """Allowed or not, and why not."""

    problems: tuple[AdmissionProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    code: int = 403
    reason: str = "Forbidden"

    @property
    def allowed(self) -> bool:
        return not self.problems

    @property
    def message(self) -> str:
        """What tools match on: the original's words, where it has any."""
        return "\n".join(problem.sentence or problem.message for problem in self.problems)

    @property
    def sentence(self) -> str:
        """What people read: kubectl shows nothing else of a refusal."""
        return "\n".join(problem.told for problem in self.problems)


ALLOWED = AdmissionResponse()


def refused(field: str, message: str, fix: str, warnings: Sequence[str] = ()) -> AdmissionResponse:
    return AdmissionResponse((AdmissionProblem(field, message, fix),), tuple(warnings))


def with_sentence(problem: Problem) -> AdmissionProblem:
    """A problem whose sentence names the field and the fix: kubectl shows people nothing else."""
    path, message, fix = problem.path, problem.message, problem.fix
    return AdmissionProblem(path, message, fix, f"{path}: {message}; {fix}")


def unreadable(field: str, message: str) -> AdmissionResponse:
    """The object cannot be read at all."""
    fix = "write the field with the type that the reference names"
    return AdmissionResponse((AdmissionProblem(field, message, fix),), code=400, reason="")
