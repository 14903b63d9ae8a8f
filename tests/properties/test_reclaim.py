"""What queues may lose, and the verdict on what they would lose, are those of the rules as read."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.numerics.arrays import Floats, Ints
from muster.numerics.divide import UNLIMITED
from muster.numerics.reclaim import (
    FAIR,
    OUTGROWS,
    TAKES_OF_A_SHARE,
    Sides,
    Taken,
    losses,
    verdict,
)
from muster.numerics.tree import diverging, path

PARENT = [-1, -1, 0, 0, 1, 1]
LEAVES = [2, 3, 4, 5]
QUEUES = len(PARENT)

amounts = st.lists(st.integers(0, 4), min_size=3, max_size=3)
bounds = st.lists(st.sampled_from([UNLIMITED, 0.0, 1.0, 2.0, 4.0]), min_size=3, max_size=3)
held_by_queue = st.lists(amounts, min_size=QUEUES, max_size=QUEUES)
bounds_by_queue = st.lists(bounds, min_size=QUEUES, max_size=QUEUES)


@dataclass(frozen=True)
class World:
    """Two top queues with two leaves each; `own` takes."""

    own: int
    request: Floats
    held: Ints
    sides: Sides


@st.composite
def worlds(draw: st.DrawFn) -> World:
    own = draw(st.sampled_from(LEAVES))
    parent = np.array(PARENT, dtype=np.int64)
    parts = [diverging(parent, own, queue) for queue in range(QUEUES)]
    ours, theirs = np.array(parts, dtype=np.int64).T.copy()
    columns = (np.array(draw(bounds_by_queue)) for _ in range(3))
    held = np.array(draw(held_by_queue), dtype=np.int64)
    request = np.array(draw(amounts), dtype=np.float64)
    return World(own, request, held, Sides(ours, theirs, parent, *columns))


def exceeds(amount: Floats | Ints, bound: Floats) -> list[bool]:
    pairs = zip(amount.tolist(), bound.tolist(), strict=True)
    return [most != UNLIMITED and amount > most for amount, most in pairs]


@given(worlds())
@settings(max_examples=300, deadline=None)
def test_reclaimable_amounts_follow_the_rules_of_quota_and_fair_share(world: World) -> None:
    sides, held, request = world.sides, world.held, world.request
    may, most = losses(sides, held, request)
    for queue in range(QUEUES):
        ours, theirs = sides.ours[queue], sides.theirs[queue]
        is_over = any(exceeds(held[ours] + request, sides.quota[ours]))
        quota, has = sides.quota[theirs], held[theirs]
        asked = [r for r in range(3) if request[r] > 0 and quota[r] != UNLIMITED]
        expected = any(exceeds(has, sides.share[theirs]))
        if not is_over:
            expected = any(has[r] > quota[r] for r in asked)
            expected = expected or not any(has[r] < quota[r] for r in asked)
        assert may[queue] == expected
        bound = np.where(is_over | (quota == UNLIMITED), sides.share[theirs], quota)
        above = exceeds(has, bound)
        surplus = np.inf if above[0] or above[1] else float(has[2] - bound[2]) * above[2]
        assert most[queue] == surplus


def fullness(held: float, share: float) -> float:
    if share == UNLIMITED:
        return 0.0
    if share > 0:
        return held / share
    return np.inf if held > 0 else 0.0


def judged(world: World, taken: Taken, saturation: float) -> tuple[int, int]:
    """The rules, one chunk and one resource at a time."""
    sides, remaining = world.sides, world.held.astype(np.float64)
    lost = dict[int, Floats]()
    for leaf in dict.fromkeys(taken.queue.tolist()):
        ours, theirs = int(sides.ours[leaf]), int(sides.theirs[leaf])
        over = any(exceeds(world.held[ours] + world.request, sides.quota[ours]))
        left = remaining[theirs].copy()
        for chunk in taken.amount[taken.queue == leaf]:
            is_above = any(exceeds(left, sides.share[theirs]))
            if not (is_above or (not over and any(exceeds(left, sides.quota[theirs])))):
                return TAKES_OF_A_SHARE, theirs
            left -= chunk
        gone = taken.amount[taken.queue == leaf].sum(axis=0)
        for queue in path(sides.parent, leaf):
            remaining[queue] -= gone
            lost[queue] = lost.get(queue, np.zeros(3)) + gone
    for queue in path(sides.parent, world.own):
        siblings = [q for q in lost if q != queue and PARENT[q] == PARENT[queue]]
        for sibling, r in ((sibling, r) for sibling in siblings for r in range(3)):
            ours_full = fullness(remaining[queue, r] + world.request[r], sides.fair[queue, r])
            theirs_full = fullness(remaining[sibling, r], sides.fair[sibling, r])
            counts = world.request[r] > 0 or lost[sibling][r] > 0
            is_fuller = ours_full > 1 and ours_full * saturation >= theirs_full
            if counts and sides.fair[sibling, r] > 0 and is_fuller:
                return OUTGROWS, world.own
    return FAIR, -1


@given(worlds(), st.lists(st.tuples(st.sampled_from(LEAVES), amounts)), st.sampled_from([1.0, 2.0]))
@settings(max_examples=300, deadline=None)
def test_the_reclaim_verdict_equals_the_slow_reference(
    world: World, chunks: list[tuple[int, list[int]]], saturation: float
) -> None:
    others = sorted(chunk for chunk in chunks if chunk[0] != world.own)
    taken = Taken(
        np.array([queue for queue, _ in others], dtype=np.int64),
        np.array([amount for _, amount in others], dtype=np.float64).reshape(-1, 3),
    )
    found = verdict(world.sides, world.held, world.request, world.own, taken, saturation)
    assert found == judged(world, taken, saturation)


def test_a_queue_that_would_be_as_saturated_as_its_sibling_may_not_reclaim_from_it() -> None:
    parent, amount = np.array([-1, -1]), np.array([[0.0, 0.0, 1.0]])
    unlimited, fair = np.full((2, 3), UNLIMITED), np.full((2, 3), 2.0)
    share = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    sides = Sides(np.array([0, 0]), np.array([0, 1]), parent, unlimited, share, fair)
    held, taken = np.array([[0, 0, 3], [0, 0, 5]]), Taken(np.array([1]), amount)
    assert verdict(sides, held, amount[0], 0, taken, 1.0) == (OUTGROWS, 0)
    held[0, 2] = 2
    assert verdict(sides, held, amount[0], 0, taken, 1.0) == (FAIR, -1)
