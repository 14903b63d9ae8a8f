"""Pods that share GPUs, by Volcano's and kube-batch's words: they get GPUs, not only nodes."""

import pytest
from tests.support.batch import Batch, bound, evicted

from muster.model.records import GpuKind, GpuRequest
from muster.testing.invariants import broken

HALF = GpuRequest(GpuKind.FRACTION, 1, portion=500)
ALL = GpuRequest(GpuKind.FRACTION, 1, portion=900)
TIERS = """
actions: "{action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


def full(queue: str) -> Batch:
    """One GPU, which two pods of the queue share; CPU there is plenty."""
    made = Batch().queue("a").queue("b")
    made.node("n0", 64, has={"gpu": 1000}, gpu_memory_mib=80_000)
    for name in ("one", "two"):
        made.gang(name, queue, 0, on=["n0"], cpus=8, gpu=HALF, gpu_shares=("n0-gpu",))
    return made


CASES = [
    ("kube-batch", "preempt", "a"),
    ("kube-batch", "reclaim", "b"),
    ("volcano", "preempt", "a"),
    ("volcano", "reclaim", "b"),
    ("volcano", "gangpreempt", "a"),
    ("volcano", "gangreclaim", "b"),
]


@pytest.mark.parametrize(("profile", "action", "queue"), CASES)
def test_a_part_of_a_gpu_is_had_when_a_tenant_has_gone_for_it(
    profile: str, action: str, queue: str
) -> None:
    made = full(queue).gang("new", "a", 1, waiting=1, priority=10, gpu=HALF)
    result = made.run(TIERS.format(action=action), profile)
    assert len(evicted(result)) == 1
    (wait,) = result.plan.nominations
    assert (wait.task, wait.node, wait.gpu_shares) == ("new-0", "n0", ("n0-gpu",))
    assert broken(made.records(), result.plan) == []


@pytest.mark.parametrize(("profile", "action", "queue"), CASES)
def test_nobody_stays_on_a_gpu_that_was_given_away(profile: str, action: str, queue: str) -> None:
    """Both tenants have to go, though the node has CPU for all three, and nobody asks what is due:
    that would be half of the GPU.
    """
    made = full(queue).gang("new", "a", 1, waiting=1, priority=10, gpu=ALL)
    conf = TIERS.format(action=action).replace("{name: proportion}, ", "")
    result = made.run(conf, profile)
    assert evicted(result) == ["one-0", "two-0"]
    assert broken(made.records(), result.plan) == []


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_parts_of_gpus_count_in_what_a_queue_may_hold(plugin: str) -> None:
    made = Batch().queue("a", capability={"gpu": 1}).queue("b")
    made.node("n0", 64, has={"gpu": 2000}, gpu_memory_mib=80_000)
    made.gang("half", "a", 0, waiting=4, gpu=HALF)
    conf = TIERS.format(action="allocate").replace("proportion", plugin)
    assert len(bound(made.run(conf, "volcano"))) == 2


@pytest.mark.parametrize("profile", ["kube-batch", "volcano"])
def test_nobody_reclaims_more_of_a_gpu_than_is_due(profile: str) -> None:
    made = full("b").gang("new", "a", 1, waiting=1, gpu=ALL)
    assert evicted(made.run(TIERS.format(action="reclaim"), profile)) == []
