"""How many GPUs some parts of GPUs take at least, however they are put together.

Finding the least is hard; a bound is not. A *dual feasible function* maps sizes to sizes so that
whatever fits into one GPU still does: then so many GPUs are needed as the images add up to. Those
used here see what the plain sum does not: that two parts above a half, or three above a third,
never meet on one GPU.
"""

import numpy as np

from muster.numerics.arrays import Floats, Ints

_STEPS = 8
"""So many functions of each family: the first ones say most."""
_SLACK = 1e-9


def fewest_gpus(parts: Floats, counts: Ints) -> float:
    """A lower bound for `counts[i]` parts of `parts[i]` of a GPU each, float64[P] in (0, 1]."""
    if len(parts) == 0:
        return 0.0
    bounds = [float(parts @ counts)]
    bounds += [float(_rounded(parts, step) @ counts) for step in range(1, _STEPS + 1)]
    small = np.unique(parts[parts <= 0.5 + _SLACK])[-_STEPS:]
    bounds += [float(_without_small(parts, float(part)) @ counts) for part in small]
    return max(bounds)


def _rounded(parts: Floats, step: int) -> Floats:
    """`step + 1` times a part, rounded down, in parts of `1 / step`; the part itself where there is
    nothing to round.
    """
    times = parts * (step + 1)
    is_whole = np.abs(times - np.round(times)) < _SLACK
    return np.where(is_whole, parts, np.floor(times) / step)


def _without_small(parts: Floats, smallest: float) -> Floats:
    """Parts that leave less than `smallest` count as a whole GPU, parts below it as nothing."""
    counted = np.where(parts > 1 - smallest + _SLACK, 1.0, parts)
    return np.where(parts < smallest - _SLACK, 0.0, counted)
