"""Regular expressions of schemas: the syntax of Go, searched anywhere in the text."""

from functools import lru_cache
from typing import Any

import re2


class BadPattern(ValueError):
    """The text is no regular expression."""


def found_in(pattern: str, text: str) -> bool:
    """Whether the pattern matches somewhere in the text. A pattern that is none matches nothing."""
    try:
        return compiled(pattern).search(text) is not None
    except BadPattern:
        return False


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _quiet())
    except re2.error as refused:
        raise BadPattern(str(refused)) from None


@lru_cache(maxsize=1)
def _quiet() -> Any:
    """RE2 prints what it refuses unless its log is disabled."""
    options = re2.Options()
    options.log_errors = False
    return options
