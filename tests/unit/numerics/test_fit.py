"""How much nodes have, for the general path and for searches."""

import numpy as np

from muster.numerics.fit import most_free_later


def test_the_most_that_is_free_later_is_that_of_a_node_that_may_be_used() -> None:
    idle, releasing = np.array([[5, 1], [2, 9]]), np.array([[1, 0], [0, 0]])
    both, second = np.array([True, True]), np.array([False, True])
    assert most_free_later(idle, releasing, 0, both) == 6
    assert most_free_later(idle, releasing, 0, second) == 2
    assert most_free_later(idle - 9, releasing, 0, both) == 0
