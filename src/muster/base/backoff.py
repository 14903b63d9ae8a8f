"""Exponential backoff as a pure function."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that start at `first_s`, grow by `factor` and never exceed `longest_s`."""

    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 60.0

    def delay_s(self, failures: int) -> float:
        """How long to wait after that many failures in a row (1 for the first)."""
        if failures <= 0:
            return 0.0
        # Past 64 doublings the power overflows long after it stopped mattering.
        return min(self.first_s * self.factor ** min(failures - 1, 64), self.longest_s)
