"""The bound on GPUs that parts of GPUs need is never above what they need."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.numerics.packing import fewest_gpus


def least(parts: list[int], used: tuple[int, ...] = ()) -> int:
    """GPUs of 100 that the parts need, by trying everything."""
    if not parts:
        return len(used)
    first, rest = parts[0], parts[1:]
    best = least(rest, (*used, first))
    for at in {used[at]: at for at in range(len(used)) if used[at] + first <= 100}.values():
        best = min(best, least(rest, (*used[:at], used[at] + first, *used[at + 1 :])))
    return best


@given(st.lists(st.integers(1, 100), max_size=7))
def test_a_packing_bound_is_at_most_the_gpus_that_the_best_packing_needs(parts: list[int]) -> None:
    sizes, counts = np.unique(np.array(parts, dtype=np.int64), return_counts=True)
    assert fewest_gpus(sizes / 100, counts) <= least(sorted(parts, reverse=True)) + 1e-6


def test_parts_that_never_meet_on_one_gpu_are_counted_apart() -> None:
    assert fewest_gpus(np.array([0.6, 0.7]), np.array([64, 1])) == 65
    assert fewest_gpus(np.array([0.4, 0.7]), np.array([128, 1])) == 65
    assert fewest_gpus(np.array([0.3, 0.6, 0.7]), np.array([64, 64, 1])) == 65
    assert fewest_gpus(np.array([0.25]), np.array([8])) == 2
