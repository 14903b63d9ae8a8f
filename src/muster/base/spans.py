"""What took how long, within what: a span as a value, for whoever collects them.

Spans are made when they have ended, so that nobody carries a half-finished one about.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to another, in seconds since 1970."""

    name: str
    start_s: float
    end_s: float
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    within: tuple["Span", ...] = ()
    """What it was made of, in order."""


Collect = Callable[[Span], None]
"""Takes a span; never waits and never fails."""


def uncollected(span: Span) -> None:
    """Nobody wants them."""
