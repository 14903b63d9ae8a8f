"""Past use, with old use counting less."""

import numpy as np
import pytest

from muster.numerics.decay import decayed_usage

HELD = np.array([[4.0, 0.0], [0.0, 4.0]])
CAPACITY = np.array([8.0, 8.0])
AGE_S = np.array([60.0, 0.0])


def test_without_a_half_life_every_sample_counts_alike() -> None:
    assert decayed_usage(HELD, CAPACITY, AGE_S, None).tolist() == [0.25, 0.25]


def test_a_sample_one_half_life_old_counts_half() -> None:
    assert decayed_usage(HELD, CAPACITY, AGE_S, 60.0) == pytest.approx([2 / 12, 4 / 12])


def test_a_cluster_without_capacity_was_not_used() -> None:
    assert decayed_usage(HELD, np.zeros(2), AGE_S, 60.0).tolist() == [0.0, 0.0]
