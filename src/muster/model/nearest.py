"""Which of the names that there are was perhaps meant by one that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_MOST_LETTERS: Final = 2
_MOST_COMPARED: Final = 500


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of the names that was perhaps meant; "" where none is like it."""
    alike = [one for one in known if abs(len(one) - len(name)) <= _MOST_LETTERS]
    found = get_close_matches(name, alike[:_MOST_COMPARED], n=1, cutoff=0.7)
    return found[0] if found else ""
