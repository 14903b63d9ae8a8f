"""Whole numbers in texts that anybody may write: labels, annotations, states of conditions."""

from typing import Final

_MOST_DIGITS: Final = 18
"""What fits 64 bits. Python refuses to read a few thousand digits, and reckoning with them takes
long."""


def whole_number(text: str) -> int | None:
    """The number that plain digits spell, without sign or spaces; None for anything else."""
    is_plain = text.isascii() and text.isdigit()
    return int(text) if is_plain and len(text) <= _MOST_DIGITS else None
