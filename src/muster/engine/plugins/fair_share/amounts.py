"""Amounts and bounds of queues: arrays [..., queue resources] in units of the axis.

UNLIMITED (-1) may stand only as a bound, and then nothing exceeds it.
"""

import numpy as np

from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.divide import UNLIMITED

Amounts = Floats | Ints


def exceeds(amount: Amounts, bound: Amounts) -> Bools:
    """Where an amount is above its bound; elementwise."""
    return np.asarray((bound != UNLIMITED) & (amount > bound), dtype=np.bool_)


def is_within(amount: Amounts, bound: Amounts) -> bool:
    """Whether no resource is above its bound."""
    return not bool(exceeds(amount, bound).any())
