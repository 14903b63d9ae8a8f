"""How much nodes have, for the general path and for searches."""

import numpy as np

from muster.model.ledger import Ledger
from muster.model.tables import snapshot_of
from muster.numerics.axis import CPU
from muster.numerics.fit import most_free_later
from muster.testing import make


def test_most_free_later_is_the_maximum_over_the_allowed_nodes() -> None:
    ledger = Ledger(snapshot_of(make.cluster(make.node("a"), make.node("b"))))
    ledger.idle[:, CPU], ledger.releasing[:, CPU] = (5, 2), (1, 0)
    both, second = np.array([True, True]), np.array([False, True])
    assert most_free_later(ledger.handle, CPU, both) == 6
    assert most_free_later(ledger.handle, CPU, second) == 2
    ledger.idle[:, CPU] -= 9
    assert most_free_later(ledger.handle, CPU, both) == 0
