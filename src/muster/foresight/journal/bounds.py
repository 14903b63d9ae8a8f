"""How much a journal keeps: a value of its own, so that whoever configures one loads no engine."""

from dataclasses import dataclass

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept."""

    decisions_s: float = 90 * _DAY_S
    inputs_s: float = 1 * _DAY_S
    size_max_bytes: int = 2 * 2**30
