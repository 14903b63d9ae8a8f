"""No more GPUs are evicted than must be: up to six nodes and forty pods, against all sets.

All who run are single pods on whole GPUs of queues that may lose everything. So what a set makes
free on one node does not depend on the others: the reference takes every set of each node, and then
every way to share out the wanted slots.
"""

from itertools import count, product

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.engine.search import action as search_action
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make

_POLICY = build_policy(parse_conf(""), EngineSettings(allow_consolidating_reclaim=False))
_MOST_PODS = 40

Node = tuple[int, tuple[int, ...]]
"""GPUs that are free, and those of each pod."""


@st.composite
def full_nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for size in draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=6)):
        free = size
        pods: list[int] = []
        keeps = draw(st.sampled_from([0, 0, 0, 1, 2]))
        while free > keeps and sum(len(p) for _, p in nodes) + len(pods) < _MOST_PODS:
            pods.append(draw(st.sampled_from([g for g in (1, 1, 2, 2, 3, 4) if g <= free])))
            free -= pods[-1]
        nodes.append((free, tuple(pods)))
    return tuple(nodes)


def least(nodes: tuple[Node, ...], need: int, wanted: int) -> int | None:
    """GPUs that must go for so many slots; None: there are not as many."""
    best: dict[int, int] = {0: 0}
    for free, pods in nodes:
        costs: dict[int, int] = {}
        for gone in product((0, 1), repeat=len(pods)):
            lost = sum(gpus for gpus, goes in zip(pods, gone, strict=True) if goes)
            slots = (free + lost) // need
            costs[slots] = min(lost, costs.get(slots, lost))
        sums: dict[int, int] = {}
        for (have, cost), (slots, lost) in product(best.items(), costs.items()):
            at = min(wanted, have + slots)
            sums[at] = min(cost + lost, sums.get(at, cost + lost))
        best = sums
    return best.get(wanted)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    nodes=full_nodes(),
    need=st.sampled_from([1, 2, 3, 4, 6, 8]),
    wanted=st.integers(1, 5),
    action=st.sampled_from(["reclaim", "preempt"]),
)
@example(
    nodes=((0, (2, 2, 1, 1, 2)), (1, (2, 1, 4)), (0, (2, 2)), (0, (2,)),
           (0, (2, 1, 1, 1, 1, 1, 1)), (0, (2, 1, 1, 3, 1))),
    need=2, wanted=1, action="preempt",
)  # fmt: skip
@example(
    nodes=((1, (2, 1, 2, 2)), (0, (1, 1, 2)), (2, (1, 2, 1, 2)), (0, (2, 1, 1, 2, 1, 1)),
           (0, (1, 1, 1, 1, 1, 2, 1)), (1, (1, 1, 1))),
    need=8, wanted=1, action="preempt",
)  # fmt: skip
@example(
    nodes=((1, (3, 1, 1, 2)), (0, (4, 1, 1, 2)), (1, (1, 2, 4)), (0, (1, 3, 2, 2)),
           (0, (1, 1, 2, 2, 2)), (0, (1, 3, 4))),
    need=2, wanted=5, action="reclaim",
)  # fmt: skip
def test_no_more_gpus_are_evicted_than_must_be(
    nodes: tuple[Node, ...], need: int, wanted: int, action: str
) -> None:
    world = world_of(nodes, need, wanted, action)
    must = least(nodes, need, wanted)
    due = (0 if must is None else wanted, must or 0)
    assert ends(world, action) == due
    # As in large clusters, where sets are not tried one after another.
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(search_action, "is_large", lambda *_: True)
        assert ends(world, action) == due


def world_of(nodes: tuple[Node, ...], need: int, wanted: int, action: str) -> ClusterRecords:
    everything = sum(free + sum(pods) for free, pods in nodes)
    parts: list[make.Part] = [
        make.queue("has", quota_gpu=0, created_s=0.0),
        make.queue("poor", quota_gpu=everything, created_s=9.0),
    ]
    age = count()
    for at, (free, pods) in enumerate(nodes):
        parts.append(make.node(f"n{at}", gpu=free + sum(pods)))
        parts += [
            make.gang(
                f"v{at}-{pod}",
                1,
                queue="has",
                gpu=gpus,
                nodes=(f"n{at}",),
                created_s=make.NOW_S - 9000 + next(age),
                last_start_s=make.NOW_S - 2000,
            )
            for pod, gpus in enumerate(pods)
        ]
    queue = "poor" if action == "reclaim" else "has"
    parts.append(make.gang("wants", wanted, queue=queue, gpu=need, priority=90))
    return make.cluster(*parts)


def ends(world: ClusterRecords, action: str) -> tuple[int, int]:
    """(Tasks that wanted a place and have one, GPUs of those who go)."""
    actions = build_actions(parse_conf(f"actions: allocate, {action}"))
    plan = run_cycle(snapshot_of(world), _POLICY, actions, make.NOW_S).plan
    gpus = {task.uid: task.gpu.devices for task in world.tasks}
    placed = [*(bind.task for bind in plan.binds), *(waits.task for waits in plan.nominations)]
    return (
        sum(uid.startswith("wants") for uid in placed),
        sum(gpus[evict.task] for evict in plan.evictions),
    )


def test_a_small_gang_goes_in_a_large_search_where_surplus_would_be_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three slots of two: the surplus of a gang of four-GPU pods frees two at a time."""
    monkeypatch.setattr(search_action, "is_large", lambda *_: True)
    world = make.cluster(
        *(make.node(f"n{at}", gpu=size) for at, size in enumerate((4, 4, 4, 2))),
        make.queue("has", quota_gpu=0),
        make.queue("poor", quota_gpu=14),
        make.gang("wide", 3, queue="has", gpu=4, minimum=1, nodes=("n0", "n1", "n2")),
        make.gang("small", 1, queue="has", gpu=2, nodes=("n3",)),
        make.gang("wants", 3, queue="poor", gpu=2, priority=90),
    )
    assert ends(world, "reclaim") == (3, 6)
