"""The order of queues, for jobs that wait and for victims, against its eight steps in words."""

import math
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.hooks import QueueShares
from muster.engine.search.victim_order import QueueStanding
from muster.model.ledger import Ledger
from muster.model.records import ClusterRecords, QueueRecord
from muster.model.tables import snapshot_of
from muster.numerics import queue_order
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU, QUEUE_WIDTH
from muster.numerics.divide import UNLIMITED

_MOST = 4


class Siblings(NamedTuple):
    """Queues side by side; columns [Q, 3], amounts are small so that many are equal."""

    priority: list[int]
    held: Ints
    fair: Floats
    own: Floats
    quota: Floats
    total: Floats


@st.composite
def siblings(draw: st.DrawFn) -> Siblings:
    count = draw(st.integers(2, _MOST))

    def amounts(least: int) -> Floats:
        rows = st.lists(st.integers(least, 3), min_size=QUEUE_WIDTH, max_size=QUEUE_WIDTH)
        drawn = np.array(draw(st.lists(rows, min_size=count, max_size=count)), dtype=np.float64)
        drawn[:, QUEUE_GPU] *= np.where(drawn[:, QUEUE_GPU] > 0, GPU_UNIT, 1)
        return drawn

    priority = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    total = np.array([4.0, 4.0, 4.0 * GPU_UNIT])
    fair, own, quota = amounts(-1), amounts(-1), amounts(-1)
    return Siblings(priority, amounts(0).astype(np.int64), fair, own, quota, total)


def goes_before(q: Siblings, left: int, right: int, added: Floats, taken: Floats) -> bool:
    """Whether the left one goes before the right one, which is younger if it comes later, with so
    much added to each and taken from each: float64[Q, 3].
    """
    ours, theirs = (
        steps(q, left, added[left], taken[left]),
        steps(q, right, added[right], taken[right]),
    )
    if ours != theirs:
        return ours < theirs
    own = [[math.inf if part == UNLIMITED else part for part in q.own[at]] for at in (left, right)]
    pairs = list(zip(*own, strict=True))
    if own[0] != own[1] and all(a <= b for a, b in pairs):
        return True
    if own[0] != own[1] and all(a >= b for a, b in pairs):
        return False
    return left < right


def steps(q: Siblings, at: int, added: Floats, taken: Floats) -> tuple[float, ...]:
    held, after = q.held[at], q.held[at] + added
    resources = range(QUEUE_WIDTH)
    return (
        all(q.fair[at, r] != UNLIMITED and q.fair[at, r] < held[r] for r in resources),
        not all(q.quota[at, r] == UNLIMITED or after[r] <= q.quota[at, r] for r in resources),
        -q.priority[at],
        any(q.own[at, r] == 0 and after[r] > 0 for r in resources),
        max(share(q, at, r, after[r] - taken[r]) for r in resources),
        max(share(q, at, r, held[r]) for r in resources),
    )


def share(q: Siblings, at: int, resource: int, held: float) -> float:
    own = q.total[resource] if q.own[at, resource] == UNLIMITED else q.own[at, resource]
    if own:
        return float(held / own)
    return float(held * 1000 / (GPU_UNIT if resource == QUEUE_GPU else 1))


def heaps(q: Siblings, chunk: Ints) -> queue_order.JobHeaps:
    """Each queue with one job that waits."""
    rows = np.arange(len(q.priority))
    queues = queue_order.Queues(
        np.full(len(rows), -1, dtype=np.int64), np.array(q.priority), rows, q.held
    )
    jobs = queue_order.Jobs(rows, np.zeros((len(rows), 1)), rows, rows, chunk)
    return queue_order.job_heaps(queues, queue_order.Shares(q.fair, q.own, q.quota, q.total), jobs)


def standing(q: Siblings, *, has_shares: bool = True) -> QueueStanding:
    records = [
        QueueRecord(f"q{at}", uid=f"q{at}", priority=priority, created_s=float(at))
        for at, priority in enumerate(q.priority)
    ]
    snapshot = snapshot_of(ClusterRecords(queues=tuple(records)))
    ledger = Ledger(snapshot)
    ledger.queue_allocated[:] = q.held
    shares = QueueShares(q.fair, q.own, q.quota, q.total) if has_shares else None
    return QueueStanding(snapshot, ledger, shares)


def stands_better(stands: QueueStanding, left: int, right: int, taken: Floats) -> bool:
    ours, theirs = stands.key(left, taken[left]), stands.key(right, taken[right])
    return ours < theirs if ours != theirs else stands.settles_tie(left, right)


_AMOUNTS = st.lists(
    st.lists(st.integers(0, 2), min_size=QUEUE_WIDTH, max_size=QUEUE_WIDTH),
    min_size=_MOST,
    max_size=_MOST,
).map(lambda rows: np.array(rows, dtype=np.int64) * [1, 1, GPU_UNIT])


@given(siblings(), _AMOUNTS)
def test_the_job_that_is_next_is_of_the_queue_that_goes_before_all_others(
    q: Siblings, chunk: Ints
) -> None:
    rows = range(len(q.priority))
    nothing = np.zeros_like(chunk, dtype=np.float64)
    state = heaps(q, chunk[: len(q.priority)])
    for left in rows:
        for right in rows:
            if left != right:
                found = queue_order.queue_goes_before(state, left, right)
                assert found == goes_before(q, left, right, chunk.astype(float), nothing)


@given(siblings(), _AMOUNTS)
def test_victims_are_taken_from_the_queue_that_goes_behind_all_others(
    q: Siblings, taken: Ints
) -> None:
    stands, lost = standing(q), taken.astype(np.float64)
    rows = range(len(q.priority))
    for left in rows:
        for right in rows:
            if left != right:
                found = stands_better(stands, left, right, lost)
                assert found == goes_before(q, left, right, np.zeros_like(lost), lost)


@given(siblings())
def test_queues_stand_for_victims_as_they_do_for_jobs_when_nothing_comes_and_nothing_goes(
    q: Siblings,
) -> None:
    none = np.zeros((_MOST, QUEUE_WIDTH), dtype=np.int64)
    state, stands = heaps(q, none[: len(q.priority)]), standing(q)
    for left in range(len(q.priority)):
        for right in range(left):
            before = queue_order.queue_goes_before(state, left, right)
            assert stands_better(stands, left, right, none.astype(float)) == before


@given(siblings(), _AMOUNTS)
def test_columns_for_many_queues_sort_them_as_their_keys_do(q: Siblings, taken: Ints) -> None:
    """Except for who has less to its name: that is no order of all queues, and age decides."""
    stands, rows = standing(q), np.arange(len(q.priority))
    lost = taken[rows].astype(np.float64)
    columns = stands.columns(rows, lost)
    found = sorted(rows.tolist(), key=lambda at: tuple(columns[at]))
    assert found == sorted(rows.tolist(), key=lambda at: (stands.key(at, lost[at]), at))


@given(siblings())
def test_without_shares_the_oldest_queue_stands_best(q: Siblings) -> None:
    stands, nothing = standing(q, has_shares=False), np.zeros((_MOST, QUEUE_WIDTH))
    for left in range(len(q.priority)):
        for right in range(len(q.priority)):
            if left != right:
                assert stands_better(stands, left, right, nothing) == (left < right)
