"""Refusals of searches name the queue, the job or the budget, and until when they hold."""

from typing import Any

import pytest

from muster.base.timefmt import rfc3339
from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.cluster_objects import ClusterObjects, DisruptionAllowance
from muster.model.reasons import Reason
from muster.model.records import ClusterRecords
from muster.model.selectors import LabelSelector
from muster.model.tables import snapshot_of
from muster.testing import make

NODE = make.node("n1", gpu=4)


def why(world: ClusterRecords, conf: str) -> set[str]:
    """What the job called `wants` is told."""
    read = parse_conf(conf)
    snapshot = snapshot_of(world)
    result = run_cycle(
        snapshot, build_policy(read, EngineSettings()), build_actions(read), make.NOW_S
    )
    assert result.plan.evictions == ()
    return set(result.explanation.sentences("default/wants"))


def running(name: str, queue: str, gpu: int = 4, **more: Any) -> make.Workload:
    return make.gang(name, 1, queue=queue, gpu=gpu, nodes=("n1",), is_preemptible=True, **more)


def wants(queue: str, gpu: int = 4, **more: Any) -> make.Workload:
    return make.gang("wants", 1, queue=queue, gpu=gpu, is_preemptible=True, **more)


def test_a_queue_at_its_fair_share_is_named_in_the_refusal() -> None:
    world = make.cluster(
        NODE,
        make.queue("a", quota_gpu=4),
        make.queue("b", weight=0),
        running("r", "a"),
        wants("b"),
    )
    assert why(world, "actions: reclaim") == {
        "Queue b has its share: it holds 0 GPUs and its share is 0 GPUs, so it may use what is "
        "free, and take nothing from others."
    }


def test_queues_that_would_fall_below_their_fair_share_are_named() -> None:
    world = make.cluster(
        NODE,
        make.queue("a", quota_gpu=2),
        make.queue("b", quota_gpu=4),
        make.queue("c", quota_gpu=2),
        running("ra", "a", 2),
        running("rc", "c", 2),
        wants("b"),
    )
    assert why(world, "actions: reclaim") == {
        "Queue a would fall below its share: it holds 2 GPUs and its share is 2 GPUs, so it need "
        "not give what the job needs.",
        "Queue c would fall below its share: it holds 2 GPUs and its share is 2 GPUs, so it need "
        "not give what the job needs.",
    }


@pytest.mark.parametrize(("action", "queue"), [("reclaim", "b"), ("preempt", "a")])
def test_a_protected_job_is_named_with_the_end_of_its_protection(action: str, queue: str) -> None:
    until = rfc3339(make.NOW_S + 300)
    world = make.cluster(
        NODE,
        make.queue("a", reclaim_min_runtime_s=900.0, preempt_min_runtime_s=900.0),
        make.queue("b", quota_gpu=4),
        running("later", "a", 2, priority=50, last_start_s=make.NOW_S - 60),
        running("sooner", "a", 2, priority=50, last_start_s=make.NOW_S - 600),
        wants(queue, priority=75),
    )
    assert why(world, f"actions: {action}") == {
        f"Job default/sooner, which would have to make way, may run undisturbed until {until}."
    }


def test_a_preemption_delay_is_refused_with_its_end() -> None:
    until = rfc3339(make.NOW_S + 240)
    world = make.cluster(
        NODE,
        make.queue("a"),
        make.queue("b", quota_gpu=4),
        running("r", "a"),
        wants("b", created_s=make.NOW_S - 60, preemption_delay_s=300.0),
    )
    assert why(world, "actions: reclaim") == {f"It may not cause evictions before {until}."}


def test_an_exhausted_pod_disruption_budget_is_named() -> None:
    allowance = DisruptionAllowance("default", LabelSelector(), 0)
    world = make.cluster(
        NODE, make.queue("a"), make.queue("b", quota_gpu=4), running("r", "a"), wants("b")
    )
    objects = ClusterObjects(disruption_allowances={"default/stay": allowance})
    world = make.with_fields(world, cluster_objects=objects)
    assert why(world, "actions: reclaim") == {
        "Pod disruption budget default/stay lets no more pods go."
    }


def test_an_exhausted_configured_disruption_budget_is_named_with_its_queue() -> None:
    world = make.cluster(
        NODE, make.queue("a"), make.queue("b", quota_gpu=4), running("r", "a"), wants("b")
    )
    conf = "{actions: reclaim, disruptionBudget: {queues: {a: {maxEvictedPerCycle: 2}}}}"
    assert why(world, conf) == {"The disruption budget of a is spent."}


def test_a_job_without_possible_victims_is_refused_with_that_reason() -> None:
    world = make.cluster(NODE, make.queue("a", quota_gpu=4), wants("a", gpu=4), running("r", "a"))
    assert why(world, "actions: preempt") == {
        "Nothing that runs may be evicted for it: all of it cannot be preempted, is within its "
        "queue's share, or is of the same or a higher priority."
    }


def test_a_job_that_no_eviction_can_help_is_refused_before_any_search() -> None:
    world = make.cluster(
        NODE, make.queue("a"), make.queue("b", quota_gpu=8), running("r", "a"), wants("b", gpu=8)
    )
    read = parse_conf("actions: reclaim")
    policy = build_policy(read, EngineSettings())
    result = run_cycle(snapshot_of(world), policy, build_actions(read), make.NOW_S)
    assert result.plan.evictions == ()
    assert result.explanation.counters.get("reclaim.tried", 0) == 0
    (refusal,) = result.explanation.refusals["default/wants"]
    assert refusal.reason is Reason.TOO_LARGE
