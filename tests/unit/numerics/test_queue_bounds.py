"""Hard bounds of queues, on a root and one queue below it."""

import numpy as np
import pytest

from muster.numerics.axis import QUEUE_CPU, QUEUE_GPU, QUEUE_WIDTH
from muster.numerics.divide import UNLIMITED
from muster.numerics.queue_bounds import OVER_LIMIT, OVER_QUOTA, WITHIN, QueueBounds, broken_bound

ROOT, LEAF = 0, 1


def _bounds(
    limit: tuple[float, float] = (UNLIMITED, UNLIMITED),
    quota: tuple[float, float] = (UNLIMITED, UNLIMITED),
    held: int = 0,
) -> QueueBounds:
    """Limits and quotas of GPUs, of the root and of the leaf, both of which hold so many."""

    def column(gpus: tuple[float, float]) -> np.ndarray:
        column = np.full((2, QUEUE_WIDTH), float(UNLIMITED))
        column[:, QUEUE_GPU] = gpus
        return column

    holds = np.zeros((2, QUEUE_WIDTH), dtype=np.int64)
    holds[:, QUEUE_GPU] = held
    chain = np.array([[ROOT, -1], [LEAF, ROOT]], dtype=np.int64)
    return QueueBounds(chain, column(limit), column(quota), holds, holds)


def _broken(bounds: QueueBounds, is_preemptible: bool, **asked: float) -> tuple[int, int, int]:
    amounts = np.zeros(QUEUE_WIDTH)
    amounts[QUEUE_GPU], amounts[QUEUE_CPU] = asked.get("gpu", 0), asked.get("cpu", 0)
    which, queue, resource = broken_bound(bounds, LEAF, amounts, is_preemptible)
    return int(which), int(queue), int(resource)


NONE = (WITHIN, -1, -1)


@pytest.mark.parametrize("queue", [ROOT, LEAF])
def test_a_queue_is_filled_up_to_its_limit_and_no_further(queue: int) -> None:
    limit = (2000.0, UNLIMITED) if queue == ROOT else (UNLIMITED, 2000.0)
    bounds = _bounds(limit=limit, held=1000)
    for is_preemptible in (True, False):
        assert _broken(bounds, is_preemptible, gpu=1000) == NONE
        assert _broken(bounds, is_preemptible, gpu=1001) == (OVER_LIMIT, queue, QUEUE_GPU)


@pytest.mark.parametrize("queue", [ROOT, LEAF])
def test_only_what_cannot_be_preempted_stays_within_the_quota(queue: int) -> None:
    quota = (2000.0, UNLIMITED) if queue == ROOT else (UNLIMITED, 2000.0)
    bounds = _bounds(quota=quota, held=1000)
    assert _broken(bounds, False, gpu=1000) == NONE
    assert _broken(bounds, False, gpu=1001) == (OVER_QUOTA, queue, QUEUE_GPU)
    assert _broken(bounds, True, gpu=9000) == NONE


def test_a_queue_above_its_bounds_still_runs_what_needs_none_of_the_resource() -> None:
    bounds = _bounds(limit=(1000.0, 1000.0), quota=(1000.0, 1000.0), held=3000)
    assert _broken(bounds, False, cpu=500) == NONE
    assert _broken(bounds, False, gpu=1, cpu=500) == (OVER_LIMIT, LEAF, QUEUE_GPU)
