"""The compiled division of shares against a slow one, and what must hold for any input."""

from typing import TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.numerics.divide import UNLIMITED, Claims, fair_shares


class Queue(TypedDict):
    quota: float
    limit: float
    weight: float
    request: float
    usage: float
    priority: int


amounts = st.one_of(st.integers(0, 20).map(float), st.sampled_from([0.5, 1.6, 7.25]))
queues_of_one_parent = st.lists(
    st.fixed_dictionaries(
        {
            "quota": st.one_of(amounts, st.just(UNLIMITED)),
            "limit": st.one_of(amounts, st.just(UNLIMITED)),
            "weight": st.integers(0, 5).map(float),
            "request": amounts,
            "usage": st.sampled_from([0.0, 0.1, 0.25, 0.6]),
            "priority": st.sampled_from([50, 100, 200]),
        }
    ),
    min_size=1,
    max_size=6,
)
totals = st.integers(0, 40).map(float)
usage_weights = st.sampled_from([0.0, 1.0, 3.0])


def queue(
    request: float,
    quota: float = 0.0,
    weight: float = 1.0,
    limit: float = UNLIMITED,
    usage: float = 0.0,
    priority: int = 100,
) -> Queue:
    return Queue(
        quota=quota, limit=limit, weight=weight, request=request, usage=usage, priority=priority
    )


def shares(total: float, usage_weight: float, queues: list[Queue]) -> list[float]:
    count = len(queues)

    def column(values: list[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(values, dtype=np.float64).reshape(count, 1)

    claims = Claims(
        parent=np.full(count, -1, dtype=np.int64),
        rank=np.arange(count, dtype=np.int64),
        priority=np.array([q["priority"] for q in queues], dtype=np.int64),
        quota=column([q["quota"] for q in queues]),
        limit=column([q["limit"] for q in queues]),
        weight=column([q["weight"] for q in queues]),
        request=column([q["request"] for q in queues]),
        usage=column([q["usage"] for q in queues]),
    )
    found = fair_shares(claims, np.array([total]), usage_weight)
    return [float(share) for share in found[:, 0]]


@pytest.mark.parametrize(
    ("total", "usage_weight", "queues", "expected"),
    [
        (100.0, 1.0, [queue(100, 10, 3), queue(100, 10, 1)], [70, 30]),
        (10.0, 1.0, [queue(10), queue(10), queue(10)], [4, 3, 3]),
        (
            10.0,
            1.0,
            [*[queue(10, priority=200) for _ in range(3)], queue(5)],
            [3, 3, 3, 1],
        ),
        (8.0, 1.0, [queue(8, quota=6), queue(8, quota=6)], [6, 6]),
        (3.0, 1.0, [queue(1.6), queue(10)], [1.6, 1.4]),
        (10.0, 1.0, [queue(10, usage=0.6), queue(10)], [3, 7]),
        (10.0, 0.0, [queue(10, usage=0.6), queue(10)], [5, 5]),
        (10.0, 1.0, [queue(20, limit=3), queue(20)], [3, 7]),
        (10.0, 1.0, [queue(20, weight=0), queue(2)], [0, 2]),
    ],
)
def test_fair_shares_of_known_cases(
    total: float, usage_weight: float, queues: list[Queue], expected: list[float]
) -> None:
    assert shares(total, usage_weight, queues) == pytest.approx(expected)


@given(totals, usage_weights, queues_of_one_parent)
def test_the_kernel_and_the_slow_reference_give_the_same_fair_shares(
    total: float, usage_weight: float, queues: list[Queue]
) -> None:
    assert shares(total, usage_weight, queues) == pytest.approx(
        divided_slowly(total, usage_weight, queues)
    )


@given(totals, usage_weights, queues_of_one_parent)
def test_no_fair_share_exceeds_the_request_or_the_limit(
    total: float, usage_weight: float, queues: list[Queue]
) -> None:
    for share, q in zip(shares(total, usage_weight, queues), queues, strict=True):
        assert 0 <= share <= q["request"] + 1e-9
        assert q["limit"] == UNLIMITED or share <= q["limit"] + 1e-9


@given(totals, usage_weights, queues_of_one_parent)
def test_fair_shares_exceed_the_total_only_where_quotas_do(
    total: float, usage_weight: float, queues: list[Queue]
) -> None:
    guaranteed = sum(
        min(
            total if q["quota"] == UNLIMITED else q["quota"],
            q["request"],
            q["request"] if q["limit"] == UNLIMITED else q["limit"],
        )
        for q in queues
    )
    assert sum(shares(total, usage_weight, queues)) <= max(total, guaranteed) + 1e-9


@given(totals, queues_of_one_parent, st.data())
def test_more_weight_never_lowers_a_fair_share(
    total: float, queues: list[Queue], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(queues) - 1))
    heavier = [q.copy() for q in queues]
    heavier[index]["weight"] += data.draw(st.integers(1, 4))
    assert shares(total, 0.0, heavier)[index] >= shares(total, 0.0, queues)[index] - 1e-9


@given(st.integers(0, 30).map(float), st.integers(1, 30).map(float))
def test_child_queues_divide_the_fair_share_of_their_parent(total: float, request: float) -> None:
    claims = Claims(
        parent=np.array([2, 2, -1, -1], dtype=np.int64),
        rank=np.arange(4, dtype=np.int64),
        priority=np.full(4, 100, dtype=np.int64),
        quota=np.zeros((4, 1)),
        limit=np.full((4, 1), UNLIMITED),
        weight=np.ones((4, 1)),
        request=np.array([[request], [request], [2 * request], [request]]),
        usage=np.zeros((4, 1)),
    )
    found = fair_shares(claims, np.array([total]), 1.0)[:, 0]
    assert found[0] + found[1] == pytest.approx(found[2])
    assert found[2] + found[3] == pytest.approx(min(total, 3 * request))


@given(
    st.integers(8, 400).map(float),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.integers(1, 6),
    st.tuples(st.floats(0.0, 0.5), st.floats(0.0, 0.5)),
)
@pytest.mark.row(33)
def test_past_usage_corrects_as_strongly_at_every_depth(
    total: float, usage_weight: float, depth: int, used: tuple[float, float]
) -> None:
    """A line of queues that own all there is, and two at its end."""
    at_the_top = shares(total, usage_weight, [queue(total, usage=one) for one in used])
    count = depth + 2
    usage = np.array([sum(used)] * depth + list(used)).reshape(count, 1)
    claims = Claims(
        parent=np.array([*range(-1, depth - 1), depth - 1, depth - 1], dtype=np.int64),
        rank=np.arange(count, dtype=np.int64),
        priority=np.full(count, 100, dtype=np.int64),
        quota=np.zeros((count, 1)),
        limit=np.full((count, 1), UNLIMITED),
        weight=np.ones((count, 1)),
        request=np.full((count, 1), 2 * total),
        usage=usage,
    )
    found = fair_shares(claims, np.array([total]), usage_weight)[-2:, 0]
    assert found == pytest.approx(at_the_top)


@pytest.mark.row(33)
def test_queues_below_a_fifth_of_the_cluster_are_corrected_as_those_at_the_top() -> None:
    """Three quarters and one quarter of what their parent has: they change places, not 9 to 11."""
    parent = [-1, -1, 0, 0]
    column = [[40.0], [160.0], [40.0], [40.0]]
    claims = Claims(
        parent=np.array(parent, dtype=np.int64),
        rank=np.arange(4, dtype=np.int64),
        priority=np.full(4, 100, dtype=np.int64),
        quota=np.array([[40.0], [160.0], [0.0], [0.0]]),
        limit=np.full((4, 1), UNLIMITED),
        weight=np.ones((4, 1)),
        request=np.array(column),
        usage=np.array([[0.2], [0.8], [0.15], [0.05]]),
    )
    found = fair_shares(claims, np.array([200.0]), 1.0)
    assert found[2:, 0].tolist() == [10.0, 30.0]


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.sampled_from([1.0, 5.0, 50.0]))
def test_queues_below_the_top_divide_all_of_their_parent_however_much_they_used(
    first: float, second: float, usage_weight: float
) -> None:
    """Also where they used far more than their parent has now."""
    claims = Claims(
        parent=np.array([-1, -1, 0, 0], dtype=np.int64),
        rank=np.arange(4, dtype=np.int64),
        priority=np.full(4, 100, dtype=np.int64),
        quota=np.zeros((4, 1)),
        limit=np.full((4, 1), UNLIMITED),
        weight=np.ones((4, 1)),
        request=np.array([[200.0], [100.0], [100.0], [100.0]]),
        usage=np.array([[0.0], [0.0], [first], [second]]),
    )
    found = fair_shares(claims, np.array([100.0]), usage_weight)[:, 0]
    assert found[2] + found[3] == pytest.approx(found[0])


def divided_slowly(total: float, usage_weight: float, queues: list[Queue]) -> list[float]:
    """The division of one resource among siblings, written to be read; oldest queue first."""
    wanted = [
        q["request"] if q["limit"] == UNLIMITED else min(q["limit"], q["request"]) for q in queues
    ]
    share = [
        min(total if q["quota"] == UNLIMITED else q["quota"], w)
        for q, w in zip(queues, wanted, strict=True)
    ]
    remaining = total - sum(share)
    fractions: dict[int, dict[int, float]] = {}
    levels = sorted({q["priority"] for q in queues}, reverse=True)
    for level in levels if remaining > 0 else []:
        at_level = [i for i, q in enumerate(queues) if q["priority"] == level]
        left_over = fractions.setdefault(level, {})
        again = True
        while again and remaining > 0:
            again, give = False, remaining
            hungry = [i for i in at_level if wanted[i] > share[i]]
            weights = sum(max(0.0, queues[i]["weight"]) for i in hungry)
            if not weights:
                break
            pull = {}
            for i in hungry:
                part = max(0.0, queues[i]["weight"]) / weights
                pull[i] = max(0.0, part + usage_weight * (part - queues[i]["usage"]))
            pulls = sum(pull.values())
            if not pulls:
                break
            for i in hungry:
                if queues[i]["weight"] <= 0 or remaining <= 0:
                    continue
                due, missing = give * pull[i] / pulls, wanted[i] - share[i]
                left_over.pop(i, None)
                if missing <= due:
                    given = min(missing, remaining)
                else:
                    given = min(float(np.floor(due)), remaining)
                    if due > np.floor(due):
                        left_over[i] = due - float(np.floor(due))
                if given > 0:
                    share[i] += given
                    remaining -= given
                    again = again or missing < due
    for level in levels:
        by_fraction = sorted(fractions.get(level, {}).items(), key=lambda item: -item[1])
        for i, _ in by_fraction:
            given = max(0.0, min(1.0, remaining, wanted[i] - share[i]))
            share[i] += given
            remaining -= given
    return share
