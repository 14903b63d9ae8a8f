"""Whole numbers in texts that anybody may write: labels, annotations, states of conditions."""

from typing import Final

_DIGITS_MAX: Final = 18
"""What fits 64 bits. Python refuses to read a few thousand digits, and reckoning with them takes
long."""


def parse_int(text: str) -> int | None:
    """The number that plain digits spell, without sign or spaces; None for anything else."""
    is_plain = text.isascii() and text.isdigit()
    return int(text) if is_plain and len(text) <= _DIGITS_MAX else None
