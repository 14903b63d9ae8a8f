"""Whose turn it is: every step of the comparison decides when those before it are equal."""

import numpy as np
import pytest

from muster.numerics import queue_order
from muster.numerics.queue_order import JobHeaps, Jobs, Queues, Shares

GPU = 1000


def _heaps(
    *,
    held: tuple[int, int] = (0, 0),
    fair: tuple[int, int] = (4, 4),
    own: tuple[int, int] = (4, 4),
    quota: tuple[int, int] = (0, 0),
    priority: tuple[int, int] = (100, 100),
    age: tuple[int, int] = (0, 1),
    chunk: tuple[int, int] = (1, 1),
) -> JobHeaps:
    """Two queues with one job each (0 and 1) that want `chunk` GPUs; CPU and memory are open."""

    def column(gpus: tuple[int, int], rest: float) -> np.ndarray:
        return np.array([[rest, rest, gpu * GPU] for gpu in gpus], dtype=np.float64)

    parent = np.array([-1, -1], dtype=np.int64)
    queues = Queues(
        parent, np.array(priority), np.array(age), column(held, 0).astype(np.int64),
    )  # fmt: skip
    shares = Shares(column(fair, 0), column(own, -1), column(quota, -1), np.full(3, 8.0 * GPU))
    jobs = Jobs(
        np.arange(2), np.zeros((2, 1)), np.arange(2), np.arange(2),
        column(chunk, 0).astype(np.int64),
    )  # fmt: skip
    return queue_order.job_heaps(queues, shares, jobs)


@pytest.mark.parametrize(
    ("case", "first"),
    [
        pytest.param({"quota": (0, 2)}, 1, id="within its quota goes first"),
        pytest.param({"priority": (100, 200)}, 1, id="higher priority"),
        pytest.param({"own": (0, 4)}, 1, id="without a share goes last"),
        pytest.param({"own": (4, 8)}, 1, id="smaller dominant share with the job"),
        pytest.param({"chunk": (3, 1)}, 1, id="a smaller job leaves a smaller share"),
        pytest.param({"age": (1, 0)}, 1, id="older goes first"),
        pytest.param({}, 0, id="all equal: age"),
    ],
)
def test_each_step_of_the_queue_comparison_decides(
    case: dict[str, tuple[int, int]], first: int
) -> None:
    assert queue_order.pop(_heaps(**case)) == first


def test_a_queue_that_was_served_is_compared_again() -> None:
    heaps = _heaps()
    job = int(queue_order.pop(heaps))
    assert job == 0
    heaps.allocated[0] += heaps.chunk[0]
    queue_order.push(heaps, job)
    queue_order.refresh(heaps, 0)
    assert queue_order.pop(heaps) == 1


def test_jobs_of_a_queue_are_popped_by_their_keys_then_by_age() -> None:
    rows = np.arange(5)
    parent = np.array([-1], dtype=np.int64)
    queues = Queues(parent, np.array([100]), np.array([0]), np.zeros((1, 3), dtype=np.int64))
    keys = np.array([[2.0], [1.0], [1.0], [3.0], [0.0]])
    age = np.array([0, 4, 1, 2, 3])
    jobs = Jobs(rows, keys, age, np.zeros(5, dtype=np.int64), np.zeros((5, 3), dtype=np.int64))
    heaps = queue_order.job_heaps(queues, None, jobs)
    taken = []
    while (job := int(queue_order.pop(heaps))) >= 0:
        taken.append(job)
        queue_order.refresh(heaps, 0)
    assert taken == [4, 2, 1, 0, 3]


def test_jobs_of_a_refused_class_are_skipped() -> None:
    classes, refused_at, passed = np.array([0, 1]), np.array([7, -1]), np.zeros(2, dtype=np.int64)
    job, count = queue_order.pop_unrefused(_heaps(), classes, refused_at, 7, passed)
    assert (job, passed[:count].tolist()) == (1, [0])


def test_a_refusal_at_an_older_ledger_version_counts_no_more() -> None:
    classes, refused_at, passed = np.array([0, 1]), np.array([7, -1]), np.zeros(2, dtype=np.int64)
    job, count = queue_order.pop_unrefused(_heaps(), classes, refused_at, 8, passed)
    assert (job, count) == (0, 0)


def test_equal_jobs_are_popped_together_up_to_the_first_other_one() -> None:
    heaps, passed = _heaps(), np.zeros(2, dtype=np.int64)
    assert queue_order.pop_equals(heaps, np.array([5, 6]), 5, passed) == 1
    assert passed[0] == 0
    assert queue_order.pop(heaps) == 1


def test_a_run_of_equal_jobs_is_popped_where_no_other_queue_has_jobs() -> None:
    queues = Queues(
        np.array([-1]), np.array([100]), np.array([0]), np.zeros((1, 3), dtype=np.int64),
    )  # fmt: skip
    jobs = Jobs(
        np.arange(4), np.zeros((4, 0)), np.arange(4), np.zeros(4, dtype=np.int64),
        np.zeros((4, 3), dtype=np.int64),
    )  # fmt: skip
    heaps = queue_order.job_heaps(queues, None, jobs)
    classes, refused_at = np.array([0, 1, 1, 2]), np.array([7, -1, -1])
    passed, run = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    taken, count = queue_order.pop_run(heaps, -1, classes, refused_at, 7, passed, run)
    assert (run[:taken].tolist(), passed[:count].tolist()) == ([1, 2], [0])
    taken, count = queue_order.pop_run(heaps, 0, classes, refused_at, 7, passed, run)
    assert (run[:taken].tolist(), count) == ([3], 0)
    assert queue_order.pop_run(heaps, -1, classes, refused_at, 7, passed, run) == (0, 0)


def test_only_one_job_is_popped_where_another_queue_has_jobs() -> None:
    classes, refused_at = np.array([5, 5]), np.full(6, -1)
    passed, run = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    taken, _ = queue_order.pop_run(_heaps(), -1, classes, refused_at, 7, passed, run)
    assert run[:taken].tolist() == [0]
