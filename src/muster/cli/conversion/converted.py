"""What a conversion yields: native objects, and notes on what they do not say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that has no counterpart, or is said elsewhere: where it stood, and what to do."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Converted:
    """The native objects that stand for one that was given."""

    source: str
    """Kind and name of the one that was given."""
    objects: Sequence[Json] = ()
    notes: Sequence[Note] = ()


class CannotConvert(ValueError):
    """The text is nothing that we know: what, and what would do."""
