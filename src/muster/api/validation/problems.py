"""One thing that is wrong with an object, and checks that several kinds share."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from muster.api.meta import Struct
from muster.api.object_names import is_subdomain


class Severity(Enum):
    """An error means that the object cannot do what it says; a warning, that it may surprise."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """Where, what, and how to mend it."""

    path: str
    message: str
    fix: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.fix})"


Problems = Iterator[Problem]


def warning(path: str, message: str, fix: str) -> Problem:
    return Problem(path, message, fix, Severity.WARNING)


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that must not be ignored."""
    return [problem for problem in problems if problem.severity is Severity.ERROR]


def warnings(problems: Iterable[Problem]) -> list[Problem]:
    """Those that may surprise."""
    return [problem for problem in problems if problem.severity is Severity.WARNING]


def given(path: str, struct: Struct | None, *names: str) -> Iterator[tuple[str, Any]]:
    """Those of these fields that are set, with their paths; of no struct, none."""
    if struct is None:
        return
    described: Any = struct
    encoded = {field.name: field.encode_name for field in msgspec.structs.fields(described)}
    for name in names:
        if (value := getattr(struct, name)) is not None:
            yield f"{path}.{encoded[name]}", value


def is_label_key(text: str) -> bool:
    """Whether a node could carry a label of that name."""
    prefix, slash, name = text.rpartition("/")
    return bool(_LABEL_NAME.fullmatch(name)) and (not slash or is_subdomain(prefix))


def is_label_value(text: str) -> bool:
    return not text or bool(_LABEL_NAME.fullmatch(text))


def is_dns_label(text: str) -> bool:
    """Whether it could be part of a host's name, as names of Services and pods are."""
    return len(text) <= DNS_LABEL_MAX and bool(_DNS_LABEL.fullmatch(text))


DNS_LABEL_MAX: Final = 63
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


def unlike(path: str, value: str, choices: tuple[str, ...]) -> Problems:
    """A problem if `value` is not one of the choices."""
    if value not in choices:
        known = ", ".join(choices[:-1]) + f" or {choices[-1]}" if choices[1:] else choices[0]
        yield Problem(path, f"unknown value {value!r}", f"write {known}")
