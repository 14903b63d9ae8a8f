"""Past use, with old use counting less.

Axes: S samples in time order, Q queues. A sample of age a counts 0.5 ** (a / half_life).
"""

import numpy as np

from muster.numerics.tree import Floats


def decayed_usage(
    held: Floats, capacity: Floats, age_s: Floats, half_life_s: float | None
) -> Floats:
    """The fraction of the cluster that each queue held: float64[Q].

    `held` float64[S, Q] and `capacity` float64[S] are amounts at the samples, `age_s` float64[S]
    how long ago they were taken. Without a half-life every sample counts alike. A cluster without
    capacity was not used.
    """
    counts = np.ones_like(age_s) if not half_life_s else np.power(0.5, age_s / half_life_s)
    there_was = float(counts @ capacity)
    if there_was <= 0.0:
        return np.zeros(held.shape[1])
    return np.asarray(counts @ held / there_was, dtype=np.float64)
