"""Why is right: what it names starts the job when it is done, and the next smaller step does not.

The judge knows nothing of how changes are looked for: it makes the change on the records that the
cycle leaves, and runs a whole cycle on them.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.draws import EXPLORE

from muster.api.names import LABEL_HOSTNAME
from muster.engine.cycle import CycleResult
from muster.foresight.changes import Needs, Waiting, ladders
from muster.foresight.situation import Actions, Situation, decided
from muster.foresight.smallest import start_of
from muster.foresight.variants import Variants
from muster.foresight.why import Questions, State, Why
from muster.model.constraint_terms import Toleration
from muster.model.constraints import Constraints
from muster.model.public_reasons import Why as PublicWhy
from muster.model.public_reasons import why_of
from muster.model.reason_codes import Code
from muster.model.record_changes import Delta, changed
from muster.model.records import UNLIMITED, ClusterRecords, JobRecord, SubGroupRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ACTIVE_USED, ALIVE, TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.axis import GPU_UNIT, QUEUE_RESOURCES
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.strategies import ALL, clusters

_EXAMPLES, _EXAMPLES_TO_EXPLORE = 25, 400
"""Of clusters; each has several jobs that wait, so 400 are some thousand situations."""
_CAREFULLY = settings(
    max_examples=_EXAMPLES_TO_EXPLORE if os.environ.get(EXPLORE) else _EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_WORLDS = st.one_of(contended_clusters(), contended_clusters(has_racks=True), clusters(ALL))


def ends_of(situation: Situation) -> Mapping[str, float]:
    """When jobs that run end, as it were."""
    held = sorted({task.job for task in situation.left.tasks if task.status in ACTIVE_USED})
    return {job: situation.now_s + 60.0 * (1 + at) for at, job in enumerate(filter(None, held))}


def answers(questions: Questions) -> list[Why]:
    ends = ends_of(questions.situation)
    found = [questions.why(job, float("inf"), ends) for job in sorted(questions.state.jobs)]
    return [why for why in found if why.state is State.WAITING]


def next_cycle(
    situation: Situation, changed_cluster: ClusterSnapshot, actions: Actions | None = None
) -> CycleResult:
    """It knows of the room that was made for others: what is evicted goes for who it was."""
    told = situation.told_to_the_next
    return decided(changed_cluster, situation.rules, situation.now_s, told, actions)


@_CAREFULLY
@given(_WORLDS)
def test_every_change_that_is_named_starts_the_job_in_a_whole_cycle(world: ClusterRecords) -> None:
    situation = Situation.of(world, make.NOW_S)
    for why in answers(Questions(situation)):
        for change in why.changes:
            again = snapshot_of(changed(situation.left, change.edit))
            start = start_of(next_cycle(situation, again), why.job)
            assert start == change.start, (why.job, change.what)


@_CAREFULLY
@given(_WORLDS)
def test_no_change_that_was_searched_is_smaller(world: ClusterRecords) -> None:
    """The next smaller step of each that is named does not start the job, and neither does the
    smallest of all; nor is there a step before the one that was found first, where each was tried.
    """
    situation = Situation.of(world, make.NOW_S)
    questions = Questions(situation)
    for why in answers(questions):
        named = {(change.what, change.subject): change for change in why.changes}
        for ladder in ladders(waiting_of(questions, why)):
            change = named.get((ladder.what, ladder.subject))
            if change is None:
                continue
            before = list(ladder.steps)[: list(ladder.steps).index(change.after)]
            tried = {before[0], before[-1]} if ladder.is_ordered and before else before
            for step in tried:
                smaller = snapshot_of(changed(situation.left, ladder.edit(step)))
                actions = situation.rules.until_allocate if ladder.needs is Needs.ALLOCATE else None
                result = next_cycle(situation, smaller, actions)
                assert start_of(result, why.job) is None, (why.job, change.what, step)


@_CAREFULLY
@given(_WORLDS)
def test_changes_are_told_by_who_pays_for_them(world: ClusterRecords) -> None:
    """Waiting first, then what may be relaxed, a smaller job, and what others have to grant; inside
    of each what evicts nobody comes first.
    """
    for why in answers(Questions(Situation.of(world, make.NOW_S))):
        price = [(change.cost, bool(change.start.evictions)) for change in why.changes]
        assert price == sorted(price)


def waiting_of(questions: Questions, why: Why) -> Waiting:
    state = questions.state
    pending = tuple(t for t in state.tasks_of(why.job) if t.status is TaskStatus.PENDING)
    ends = ends_of(questions.situation)
    return Waiting(state, state.jobs[why.job], pending, why.refusals, ends)


@_CAREFULLY
@given(_WORLDS)
def test_a_variant_leaves_nothing_behind(world: ClusterRecords) -> None:
    situation = Situation.of(world, make.NOW_S)
    questions = Questions(situation)
    before = decided(snapshot_of(situation.left), situation.rules, situation.now_s)
    answers(questions)
    after = decided(questions.state.snapshot(), situation.rules, situation.now_s)
    assert after.plan == before.plan
    assert after.explanation == before.explanation


@pytest.mark.parametrize("at", range(3))
def test_a_variant_decides_as_a_cluster_that_is_built_so(at: int) -> None:
    """The tables that were changed and changed back, and tables built from nothing, agree."""
    world = make.cluster(
        *(make.node(f"n{i}", gpu=4) for i in range(3)),
        make.queue("a", quota_gpu=4),
        make.gang("big", 4, gpu=4, queue="a"),
        make.gang("small", 1, gpu=1, queue="a", nodes=("n0",)),
    )
    situation = Situation.of(world, make.NOW_S)
    variants = Variants(situation.left)
    space = ladders(waiting_of(Questions(situation), Questions(situation).why("default/big")))
    edit = space[at].edit(space[at].steps[-1])
    for _ in range(2):
        with variants.variant(edit) as snapshot:
            found = decided(snapshot, situation.rules, situation.now_s)
        built = snapshot_of(changed(situation.left, edit))
        assert found.plan == decided(built, situation.rules, situation.now_s).plan


_LARGE = {"cpu": 10**7, "memory": 2**50, "pods": 10**4, "gpu": 10**4 * GPU_UNIT}
_EMPTY_NODES = 8
_LARGE_GPU_MIB = 10**6


def without_bound(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """All bounds of the queue that is named are gone."""
    queue = next(one for one in world.queues if one.name == why.dominant.subject)
    unbounded = dict.fromkeys(QUEUE_RESOURCES, UNLIMITED)
    return Delta(queues=(msgspec.structs.replace(queue, quota=unbounded, limit=unbounded),))


def with_empty_nodes(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """Nodes like each that there is, empty and with more of everything than anybody asks for."""
    kinds = {tuple(sorted(node.labels.items())): node for node in world.nodes if node.is_ready}
    added = (
        msgspec.structs.replace(
            node,
            name=f"large-{kind}-{at}",
            labels={**node.labels, LABEL_HOSTNAME: f"large-{kind}-{at}"},
            allocatable={**node.allocatable, **_LARGE},
            taints=(),
            is_unschedulable=False,
            gpu_memory_mib=_LARGE_GPU_MIB,
        )
        for kind, node in enumerate(kinds.values())
        for at in range(_EMPTY_NODES)
    )
    return Delta(nodes=tuple(added))


def without_wishes(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """Its pods may go to any node that there is, and nodes say all of themselves."""
    anything = Constraints(tolerations=(Toleration("", "Exists"),))
    return Delta(
        tasks=tuple(
            msgspec.structs.replace(task, constraints=anything)
            for task in world.tasks
            if task.job == job.key
        ),
        nodes=tuple(
            msgspec.structs.replace(
                node, is_unschedulable=False, is_ready=True, gpu_memory_mib=80_000
            )
            for node in world.nodes
        ),
    )


def without_topology(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """Nothing has to be together."""

    def apart(group: SubGroupRecord) -> SubGroupRecord:
        below = tuple(map(apart, group.children))
        return msgspec.structs.replace(group, topology=None, children=below)

    return Delta(jobs=(msgspec.structs.replace(job, sub_groups=apart(job.sub_groups)),))


def with_what_there_is(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """The pods that there are suffice; of those that go or are over nothing comes."""
    there = Counter(
        task.sub_group for task in world.tasks if task.job == job.key and task.status in ALIVE
    )

    def enough(group: SubGroupRecord) -> SubGroupRecord:
        below = tuple(map(enough, group.children))
        least = min(group.minimum or 0, len(below) or there[group.name])
        return msgspec.structs.replace(group, minimum=least, children=below)

    return Delta(jobs=(msgspec.structs.replace(job, sub_groups=enough(job.sub_groups)),))


def without_others(world: ClusterRecords, why: PublicWhy, job: JobRecord) -> Delta:
    """Nobody else waits."""
    return Delta(
        tasks=tuple(
            msgspec.structs.replace(task, status=TaskStatus.GATED)
            for task in world.tasks
            if task.job != job.key and task.status is TaskStatus.PENDING
        )
    )


REMOVED: Mapping[Code, Callable[[ClusterRecords, PublicWhy, JobRecord], Delta]] = {
    Code.ABOVE_LIMIT: without_bound,
    Code.QUEUE_AT_LIMIT: without_bound,
    Code.NON_PREEMPTIBLE_OVER_QUOTA: without_bound,
    Code.TOO_LARGE: with_empty_nodes,
    Code.NO_ROOM: with_empty_nodes,
    Code.FRAGMENTED: with_empty_nodes,
    Code.NO_MATCHING_NODE: without_wishes,
    Code.TOPOLOGY_FULL: without_topology,
    Code.TOPOLOGY_TOO_SMALL: without_topology,
    Code.PODS_MISSING: with_what_there_is,
    Code.BEHIND_OTHERS: without_others,
}


@_CAREFULLY
@given(_WORLDS)
def test_the_dominant_reason_removed_alone_changes_the_answer(world: ClusterRecords) -> None:
    """The job starts, or it waits for something else."""
    situation = Situation.of(world, make.NOW_S)
    for key, refusals in situation.result.explanation.refusals.items():
        why = why_of(refusals)
        if why is None or start_of(situation.result, key) is not None:
            continue
        code = why.dominant.code
        job = next(one for one in world.jobs if one.key == key)
        edit = REMOVED[code](world, why, job)
        after = decided(snapshot_of(changed(world, edit)), situation.rules, situation.now_s)
        if start_of(after, key) is not None:
            continue
        again = why_of(after.explanation.refusals.get(key, ()))
        assert again is None or again.dominant.identity != why.dominant.identity, (key, code)
