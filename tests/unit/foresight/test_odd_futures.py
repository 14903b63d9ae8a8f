"""The queue played forward where nodes have gone, or have less than what runs there: both ways."""

import numpy as np
import pytest

from muster.foresight import forward_by_sessions
from muster.foresight.course import Course, Future
from muster.foresight.forward import player
from muster.foresight.situation import rules_of
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make

HOUR_S = 3600.0
BOTH = pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "by sessions"])


def starts(world: ClusterRecords, ends: str, asked: str, is_compiled: bool) -> float:
    """When `asked` starts if `ends` ends in an hour, and nothing else ever does; nan: never."""
    snapshot = snapshot_of(world)
    row, never = snapshot.jobs.row, np.full(len(snapshot.jobs.live), np.inf)
    ends_s = never.copy()
    ends_s[row[f"default/{ends}"]] = make.NOW_S + HOUR_S
    none = np.zeros(0, dtype=np.int64)
    rules = rules_of("actions: allocate")
    course = Course(snapshot, none, rules, make.NOW_S, 24 * HOUR_S, 0.0)
    future, rows = Future(ends_s, never, never), [row[f"default/{asked}"]]
    if is_compiled:
        return float(player(course, rows)(future)[rows[0]])
    return float(forward_by_sessions.starts(course, future, rows)[rows[0]])


@BOTH
def test_what_ends_on_a_node_that_is_gone_leaves_room_in_its_queue(is_compiled: bool) -> None:
    world = make.cluster(
        make.node("n0", gpu=2),
        make.queue("a", quota_gpu=1, limit_gpu=1),
        make.gang("lost", 1, queue="a", gpu=1, nodes=("gone",)),
        make.gang("here", 1, queue="a", cpu=1, nodes=("n0",)),
        make.gang("waits", 1, queue="a", gpu=1),
    )
    assert starts(world, "lost", "waits", is_compiled) == make.NOW_S + HOUR_S


@BOTH
def test_what_ends_on_a_node_without_gpus_leaves_none(is_compiled: bool) -> None:
    """The node had one, and lost it: who waits for a GPU waits on."""
    world = make.cluster(
        make.node("n0", gpu=0),
        make.queue("a", quota_gpu=4),
        make.gang("runs", 1, queue="a", gpu=1, nodes=("n0",)),
        make.gang("waits", 1, queue="a", gpu=1),
    )
    assert np.isnan(starts(world, "runs", "waits", is_compiled))


@BOTH
def test_a_node_that_holds_more_than_it_has_of_one_thing_gives_of_another(
    is_compiled: bool,
) -> None:
    """It has less CPU than its pods were given; who asks for none of it may come."""
    world = make.cluster(
        make.node("n0", gpu=2, cpu=1),
        make.queue("a", quota_gpu=4),
        make.gang("large", 1, queue="a", cpu=8, nodes=("n0",)),
        make.gang("runs", 1, queue="a", gpu=2, nodes=("n0",)),
        make.gang("waits", 1, queue="a", gpu=1),
    )
    assert starts(world, "runs", "waits", is_compiled) == make.NOW_S + HOUR_S
