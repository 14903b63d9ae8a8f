"""Chance enters here and nowhere else: a seeded source, handed in by whoever builds the program."""

import random


class Rand(random.Random):
    """A random source that is given its seed, so that any run can be repeated."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)

    def jittered(self, delay_s: float, spread: float = 0.1) -> float:
        """`delay_s`, longer or shorter by at most `spread` of itself."""
        return delay_s * (1.0 + spread * (2.0 * self.random() - 1.0))
