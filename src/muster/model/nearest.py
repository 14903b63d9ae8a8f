"""Which of the names that there are was perhaps meant by one that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_MOST_LETTERS: Final = 2
_MOST_COMPARED: Final = 500


def nearest(name: str, known: Iterable[str], alike_from: float = 0.7) -> str:
    """The one of the names that was perhaps meant; "" where none is like it, by how much of both is
    the same."""
    alike = [one for one in known if abs(len(one) - len(name)) <= _MOST_LETTERS]
    found = get_close_matches(name, alike[:_MOST_COMPARED], n=1, cutoff=alike_from)
    return found[0] if found else ""
