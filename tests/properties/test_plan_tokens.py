"""A token of a plan is void when what was planned would be otherwise, and holds when it would not.

The judge knows nothing of tokens: it puts the job into the changed cluster, lets a whole cycle
decide, and compares what happens with what would have happened before.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.support.draws import EXPLORE

from muster.foresight.plan import (
    BadToken,
    Plan,
    Submission,
    Verdict,
    checked,
    held,
    plan,
    token_of,
)
from muster.foresight.situation import Situation
from muster.foresight.smallest import start_of
from muster.foresight.variants import Variants
from muster.model.public_reasons import why_of
from muster.model.record_changes import Delta, changed
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.testing import make
from muster.testing.contended import contended_clusters

_KEY = b"secret"
_RULES = "rules"
_FEW = settings(
    max_examples=500 if os.environ.get(EXPLORE) else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
Draw = Callable[[Any], Any]


def without_one(world: ClusterRecords) -> tuple[ClusterRecords, Submission]:
    """One job that waits is taken out, to be planned."""
    waiting = sorted({task.job for task in world.tasks if task.status is TaskStatus.PENDING})
    assume(waiting)
    key = waiting[0]
    job = next(one for one in world.jobs if one.key == key)
    tasks = tuple(task for task in world.tasks if task.job == key)
    rest = changed(world, Delta(gone_jobs=(key,), gone_tasks=tuple(task.uid for task in tasks)))
    return rest, Submission((job,), tasks, "m")


def asked(world: ClusterRecords, submission: Submission) -> tuple[Situation, Plan]:
    situation = Situation.of(world, make.NOW_S)
    return situation, plan(situation, Variants(world), submission)


def is_held(world: ClusterRecords, other: ClusterRecords, submission: Submission) -> bool:
    """Whether a token that was made in one world is good in another."""
    situation, first = asked(world, submission)
    token = checked(token_of(first, submission, situation, _RULES, _KEY), _KEY)
    try:
        held(token, asked(other, submission)[1], submission, _RULES, make.NOW_S)
    except BadToken:
        return False
    return True


def happens(world: ClusterRecords, submission: Submission) -> tuple[object, ...]:
    """What becomes of the job when it is there: where it starts and who goes for it, or whether it
    only waits.
    """
    result = Situation.of(changed(world, submission.edit), make.NOW_S).result
    (job,) = submission.jobs
    start = start_of(result, job.key)
    if start is not None:
        return sorted(start.nodes), sorted(evict.task for evict in start.evictions)
    why = why_of(result.explanation.refusals.get(job.key, ()))
    category = str(why.dominant.category) if why else ""
    return ("never" if category in ("never", "broken") else "waits", category == "broken")


def a_node_is_gone(draw: Draw, world: ClusterRecords) -> Delta:
    name = draw(st.sampled_from([node.name for node in world.nodes]))
    gone = tuple(task.uid for task in world.tasks if task.node == name)
    return Delta(gone_nodes=(name,), gone_tasks=gone)


def a_node_comes(draw: Draw, world: ClusterRecords) -> Delta:
    return Delta(nodes=(make.node("new-node", gpu=draw(st.integers(0, 8))),))


def somebody_ends(draw: Draw, world: ClusterRecords) -> Delta:
    runs = sorted({task.job for task in world.tasks if task.node})
    assume(runs)
    key = draw(st.sampled_from(runs))
    gone = tuple(task.uid for task in world.tasks if task.job == key)
    return Delta(gone_jobs=(key,), gone_tasks=gone)


def somebody_comes(draw: Draw, world: ClusterRecords) -> Delta:
    queue = draw(st.sampled_from([queue.name for queue in world.queues]))
    node = draw(st.sampled_from(["", *(node.name for node in world.nodes)]))
    nodes = (node,) if node else ()
    work = make.gang("comes", 1, gpu=draw(st.integers(0, 4)), queue=queue, nodes=nodes)
    return Delta(jobs=(work.job,), tasks=work.tasks)


def a_queue_is_changed(draw: Draw, world: ClusterRecords) -> Delta:
    queue = draw(st.sampled_from(world.queues))
    field, gpus = draw(st.sampled_from(["quota", "limit"])), draw(st.integers(0, 16))
    like = make.queue(queue.name, **{f"{field}_gpu": gpus})
    return Delta(queues=(msgspec.structs.replace(queue, **{field: getattr(like, field)}),))


def a_queue_is_made(draw: Draw, world: ClusterRecords) -> Delta:
    return Delta(queues=(make.queue("made", quota_gpu=draw(st.integers(0, 8))),))


def a_label_is_written(draw: Draw, world: ClusterRecords) -> Delta:
    node = draw(st.sampled_from(world.nodes))
    return Delta(nodes=(msgspec.structs.replace(node, labels={**node.labels, "looked-at": "yes"}),))


_ANY = (
    a_node_is_gone,
    a_node_comes,
    somebody_ends,
    somebody_comes,
    a_queue_is_changed,
    a_queue_is_made,
    a_label_is_written,
)


@_FEW
@given(contended_clusters(), st.data())
def test_a_token_is_good_exactly_as_long_as_the_same_would_happen(
    drawn: ClusterRecords, data: st.DataObject
) -> None:
    world, submission = without_one(drawn)
    other = changed(world, data.draw(st.sampled_from(_ANY))(data.draw, world))
    is_same = happens(world, submission) == happens(other, submission)
    assert is_held(world, other, submission) == is_same


@_FEW
@given(contended_clusters(), st.data())
def test_what_nobody_asks_about_leaves_a_token_good(
    drawn: ClusterRecords, data: st.DataObject
) -> None:
    """A label that no pod names, and another queue that holds and is promised nothing."""
    world, submission = without_one(drawn)
    idle = Delta(queues=(make.queue("idle"),))
    other = changed(changed(world, a_label_is_written(data.draw, world)), idle)
    assert is_held(world, other, submission)


@_FEW
@given(contended_clusters())
def test_a_node_that_was_planned_on_and_goes_voids_a_token(drawn: ClusterRecords) -> None:
    world, submission = without_one(drawn)
    _, first = asked(world, submission)
    assume(first.verdict in (Verdict.STARTS, Verdict.EVICTS))
    (job,) = first.jobs
    node = min(job.placement)
    gone = tuple(task.uid for task in world.tasks if task.node == node)
    other = changed(world, Delta(gone_nodes=(node,), gone_tasks=gone))
    assert not is_held(world, other, submission)
