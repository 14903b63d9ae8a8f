"""Victims are the smallest set that the rules allow: against all sets there are.

The reference knows nothing of how victims are searched for. It takes every combination of what jobs
could give up, keeps those that make room and that the rules accept, and picks by the same words as
the contract: no more of any rank and those above it than the order of the rules would take; least
resources; least out of turn; low ranks before high; least work lost.
"""

from collections.abc import Iterator
from itertools import accumulate, product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.hooks import Scenario
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.engine.search import solver
from muster.engine.session import Session
from muster.model.records import ClusterRecords, JobRecord, TaskRecord
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.axis import GPU_UNIT
from muster.testing import make

_POLICY = build_policy(parse_conf(""), EngineSettings(allow_consolidating_reclaim=False))
_CAREFULLY = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
_MOST_STEPS = 12

Gone = frozenset[str]
Key = tuple[int, int, tuple[int, ...], int]


def evicted(world: ClusterRecords, action: str) -> Gone:
    actions = build_actions(parse_conf(f"actions: allocate, {action}"))
    plan = run_cycle(snapshot_of(world), _POLICY, actions, make.NOW_S).plan
    return frozenset(evict.task for evict in plan.evictions)


def in_the_order_of_the_rules(
    monkeypatch: pytest.MonkeyPatch, world: ClusterRecords, action: str
) -> Gone:
    """What goes when the first set that does is carried out."""
    with monkeypatch.context() as patch:
        patch.setattr(solver, "MOST_REFINEMENTS", 0)
        return evicted(world, action)


# -- the reference -------------------------------------------------------------------------------


class Reference:
    """One pending job, which is the last, and everybody who could give way to it."""

    def __init__(self, world: ClusterRecords, action: str) -> None:
        self.world, self.action = world, action
        self.actor = world.jobs[-1]
        self.tasks = {task.uid: task for task in world.tasks}
        self.jobs = {job.key: job for job in world.jobs}
        self.session = Session(snapshot_of(world), _POLICY, make.NOW_S)
        self.steps = {job.key: steps(world, job) for job in world.jobs if self.may_go(job)}

    def may_go(self, job: JobRecord) -> bool:
        if not job.is_preemptible or job.key == self.actor.key:
            return False
        if self.action == "preempt":
            return job.queue == self.actor.queue and job.priority < self.actor.priority
        return job.queue != self.actor.queue

    def sets(self) -> Iterator[Gone]:
        """All that could be given up: of each job nothing, the first step, the first two, ..."""
        for taken in product(*(range(len(each) + 1) for each in self.steps.values())):
            yield frozenset(
                task
                for each, count in zip(self.steps.values(), taken, strict=True)
                for step in each[:count]
                for task in step
            )

    def is_whole(self, gone: Gone) -> bool:
        """Whether no gang goes only in part."""
        return gone == self.whole(gone)

    def whole(self, gone: Gone) -> Gone:
        """All steps of which some task has gone: gangs that go on in part count as if they went."""
        return frozenset(
            task
            for each in self.steps.values()
            for step in each
            if not gone.isdisjoint(step)
            for task in step
        )

    def makes_room(self, gone: Gone) -> bool:
        """Whether the pending tasks, all alike, find enough places."""
        wanted = [t for t in self.world.tasks if t.job == self.actor.key]
        need = wanted[0].gpu.devices
        places = 0
        for node in self.world.nodes:
            held = sum(
                task.gpu.devices
                for task in self.world.tasks
                if task.node == node.name and task.uid not in gone
            )
            places += (node.allocatable["gpu"] // GPU_UNIT - held) // need
        return places >= len(wanted)

    def is_accepted(self, gone: Gone) -> bool:
        session, row = self.session, self.session.snapshot.tasks.row
        wanted = np.array([row[t.uid] for t in self.world.tasks if t.job == self.actor.key])
        lost = np.array(sorted(row[uid] for uid in gone), dtype=np.int64)
        units = session.snapshot.demand.queue_units[session.snapshot.tasks.shape[wanted]]
        job = int(session.snapshot.tasks.job[wanted[0]])
        held, fixed = session.ledger.queue_allocated, session.ledger.queue_allocated_non_preemptible
        request = units.sum(axis=0).astype(np.float64)
        scenario = Scenario(self.action, job, wanted, request, lost, lost, held, fixed)
        return session.policy.accept(scenario) is None

    def key(self, gone: Gone, first: Gone) -> Key:
        """What is compared; the less the better."""
        queues = {job.queue for job in self.world.jobs}
        out_of_turn = sum(
            max(0, self.gpus(self.of_queue(gone, q)) - self.gpus(self.of_queue(first, q)))
            for q in queues
        )
        work = sum(self.work(self.tasks[uid]) for uid in gone)
        return self.gpus(gone), out_of_turn, tuple(self.by_rank(gone)), work

    def by_rank(self, gone: Gone) -> list[int]:
        """GPUs, highest priority first, and in it gangs before surplus."""
        ranks = sorted({(j.priority, kind) for j in self.world.jobs for kind in (0, 1)})[::-1]
        return [sum(self.gpus([t]) for t in gone if self.rank(t) == rank) for rank in ranks]

    def rank(self, uid: str) -> tuple[int, int]:
        job = self.tasks[uid].job
        return self.jobs[job].priority, int(uid in self.steps[job][-1])

    def takes_no_more(self, gone: Gone, first: Gone) -> bool:
        ours, theirs = accumulate(self.by_rank(gone)), accumulate(self.by_rank(first))
        return all(our <= their for our, their in zip(ours, theirs, strict=True))

    def work(self, task: TaskRecord) -> int:
        job = self.jobs[task.job]
        since_s = max(job.last_start_s or 0.0, job.checkpoint_s or 0.0)
        return round(make.NOW_S - since_s) * task.gpu.devices

    def of_queue(self, gone: Gone, queue: str) -> list[str]:
        return [uid for uid in gone if self.jobs[self.tasks[uid].job].queue == queue]

    def gpus(self, gone: Gone | list[str]) -> int:
        return sum(self.tasks[uid].gpu.devices for uid in gone)

    def best(self, first: Gone) -> Key:
        keys = [
            self.key(gone, first)
            for gone in self.sets()
            if self.takes_no_more(gone, first) and self.makes_room(gone) and self.is_accepted(gone)
        ]
        assume(keys)  # none does with as little, where pods of a gang stay
        return min(keys)


def steps(world: ClusterRecords, job: JobRecord) -> list[list[str]]:
    """What a job gives up: the last pod as long as there are more than its minimum, then all."""
    pods = [t.uid for t in world.tasks if t.job == job.key and t.status is TaskStatus.RUNNING]
    minimum = (
        job.sub_groups.children[0].minimum if job.sub_groups.children else job.sub_groups.minimum
    )
    given = []
    while len(pods) > (minimum or 0):
        given.append([pods.pop()])
    return [*given, pods] if pods else given


# -- worlds --------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn, most_nodes: int = 4, most_running: int = 8) -> ClusterRecords:
    """Full nodes of two queues, and one job of a third queue (or of the first) that wants in."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=most_nodes))
    parts: list[make.Part] = [make.node(f"n{i}", gpu=size) for i, size in enumerate(sizes)]
    quotas = [draw(st.sampled_from([0, 0, 1, 2, 4])) for _ in range(2)]
    parts += [make.queue(f"q{i}", quota_gpu=q, created_s=float(i)) for i, q in enumerate(quotas)]
    parts.append(make.queue("poor", quota_gpu=sum(sizes), created_s=9.0))
    free = dict(enumerate(sizes))
    for i in range(draw(st.integers(1, most_running))):
        parts.extend(_running(draw, f"run{i}", free, i))
    size = draw(st.integers(1, 3))
    parts.append(
        make.gang(
            "pend",
            size,
            queue=draw(st.sampled_from(["poor", "q0"])),
            gpu=draw(st.sampled_from([1, 2, 4])),
            priority=90,
            created_s=make.NOW_S - 10,
            is_preemptible=True,
        )
    )
    return make.cluster(*parts)


def _running(draw: st.DrawFn, name: str, free: dict[int, int], age: int) -> Iterator[make.Workload]:
    gpu = draw(st.sampled_from([1, 1, 2, 4]))
    places = []
    for _ in range(draw(st.integers(1, 3))):
        room = [node for node, left in free.items() if left >= gpu]
        if room:
            places.append(draw(st.sampled_from(room)))
            free[places[-1]] -= gpu
    if not places:
        return
    started_s = make.NOW_S - draw(st.integers(1, 5)) * 1000
    saved = draw(st.sampled_from([None, None, make.NOW_S - 100]))
    yield make.gang(
        name,
        len(places),
        queue=draw(st.sampled_from(["q0", "q1"])),
        gpu=gpu,
        minimum=draw(st.sampled_from([1, len(places)])),
        nodes=tuple(f"n{place}" for place in places),
        priority=draw(st.sampled_from([50, 50, 60])),
        created_s=make.NOW_S - 9000 + age,
        last_start_s=started_s,
        checkpoint_s=saved,
        is_preemptible=True,
    )


def action_for(world: ClusterRecords) -> str:
    return "reclaim" if world.jobs[-1].queue == "poor" else "preempt"


# -- properties ----------------------------------------------------------------------------------


@_CAREFULLY
@given(world=worlds())
def test_victims_are_the_smallest_set_that_the_rules_allow(world: ClusterRecords) -> None:
    action = action_for(world)
    reference = Reference(world, action)
    assume(sum(len(each) for each in reference.steps.values()) <= _MOST_STEPS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        first = in_the_order_of_the_rules(monkeypatch, world, action)
    assume(first and reference.is_whole(first))
    ours = evicted(world, action)
    # Less than the best, where pods stay that no set of whole steps would spare.
    assert reference.key(ours, first) <= reference.best(first)


@settings(_CAREFULLY, max_examples=30)
@given(world=worlds(most_nodes=3))
def test_victims_go_only_for_a_job_that_the_order_of_queues_would_serve(
    world: ClusterRecords,
) -> None:
    """Else the next allocate would put them back, and reclaim would evict them again."""
    action = action_for(world)
    with pytest.MonkeyPatch.context() as monkeypatch:
        gone = in_the_order_of_the_rules(monkeypatch, world, action)
    assume(gone)
    tasks = tuple(
        make.with_fields(task, status=TaskStatus.PENDING, node="") if task.uid in gone else task
        for task in world.tasks
    )
    actions = build_actions(parse_conf("actions: allocate"))
    emptied = snapshot_of(make.with_fields(world, tasks=tasks))
    plan = run_cycle(emptied, _POLICY, actions, make.NOW_S).plan
    actor = world.jobs[-1].key
    assert sum(bind.job == actor for bind in plan.binds) == sum(t.job == actor for t in tasks)


@_CAREFULLY
@given(world=worlds(most_nodes=3))
def test_nodes_without_candidates_do_not_change_the_victims(world: ClusterRecords) -> None:
    small = world.nodes[0]
    others = tuple(make.with_fields(small, name=f"other{n}", is_ready=False) for n in range(60))
    wide = make.with_fields(world, nodes=world.nodes + others)
    assert evicted(wide, action_for(world)) == evicted(world, action_for(world))


@_CAREFULLY
@given(world=worlds(most_nodes=6, most_running=24))
def test_bulk_search_evicts_no_more_gpus_than_the_rule_order(world: ClusterRecords) -> None:
    """As in large clusters, where sets are not tried one after another."""
    action = action_for(world)
    reference = Reference(world, action)
    with pytest.MonkeyPatch.context() as monkeypatch:
        first = in_the_order_of_the_rules(monkeypatch, world, action)
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)
        ours = evicted(world, action)
    assume(first and ours)
    assert reference.gpus(ours) <= reference.gpus(reference.whole(first))


@settings(_CAREFULLY, max_examples=30)
@given(world=worlds())
def test_bulk_search_evicts_as_few_gpus_as_any_set_that_the_rules_allow(
    world: ClusterRecords,
) -> None:
    action = action_for(world)
    reference = Reference(world, action)
    assume(sum(len(each) for each in reference.steps.values()) <= _MOST_STEPS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        first = in_the_order_of_the_rules(monkeypatch, world, action)
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)
        ours = evicted(world, action)
    assume(first and reference.is_whole(first) and ours)
    assert reference.gpus(ours) <= reference.best(first)[0]


@_CAREFULLY
@given(world=worlds(most_nodes=6, most_running=24))
def test_victims_are_never_more_than_those_of_the_rule_order(world: ClusterRecords) -> None:
    action = action_for(world)
    reference = Reference(world, action)
    with pytest.MonkeyPatch.context() as monkeypatch:
        first = in_the_order_of_the_rules(monkeypatch, world, action)
    ours = evicted(world, action)
    if first:
        assert ours
        assert reference.takes_no_more(ours, first)
