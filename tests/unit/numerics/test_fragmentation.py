"""How much of a node's free GPUs is lost to a mix of tasks: against counting, one by one."""

import numpy as np
import pytest

from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.model.tables import snapshot_of
from muster.numerics.fragmentation import MOST_PARTS, loss, step_of
from muster.testing import make

POLICY = build_policy(parse_conf("actions: allocate\nplacement: least-fragmentation\n"))
KINDS = ((1, 1, 0.0), (8, 1, 0.0), (4, 4, 0.0), (2, 0, 0.3), (2, 0, 0.6))
"""CPU, whole GPUs, share of one."""


def _waiting() -> list[make.Workload]:
    return [
        make.gang(f"kind-{at}", 1, queue="q", cpu=cpu, gpu=gpus or share)
        for at, (cpu, gpus, share) in enumerate(KINDS)
    ]


def _counted(cpu: int, whole: int, parts: tuple[int, ...]) -> float:
    """The mean over kinds of what each cannot use."""
    lost = 0.0
    for wants_cpu, gpus, share in KINDS:
        size = round(1000 * share) or 1000
        free = [1000] * whole + list(parts)
        fits = wants_cpu * 1000 <= cpu and sum(part >= size for part in free) >= max(gpus, 1)
        lost += sum(part for part in free if not fits or part < size)
    return lost / len(KINDS)


@pytest.mark.parametrize("cpu", [0, 1000, 3000, 64000])
@pytest.mark.parametrize("whole", [0, 1, 3, 4])
@pytest.mark.parametrize("parts", [(), (300,), (299, 700), (1, 599, 600, 999)])
def test_the_loss_of_a_node_is_the_mean_of_what_each_kind_of_task_cannot_use(
    cpu: int, whole: int, parts: tuple[int, ...]
) -> None:
    world = make.cluster(make.node("n", gpu=4), make.queue("q"), *_waiting())
    mix = Session(snapshot_of(world), POLICY, make.NOW_S).mix
    given = np.zeros(MOST_PARTS + 1, dtype=np.int64)
    given[: len(parts)] = parts
    found = loss(mix, int(mix.table[0]), cpu, whole, given, len(parts)) / mix.whole
    assert found == pytest.approx(_counted(cpu, whole, parts), rel=0.01, abs=1e-6)


def _node_of(*parts: object, task: str) -> str:
    world = make.cluster(*parts)  # type: ignore[arg-type]
    actions = (("allocate", allocate.execute),)
    plan = run_cycle(snapshot_of(world), POLICY, actions, make.NOW_S).plan
    return {bind.task: bind.node for bind in plan.binds}[task]


def test_work_without_gpus_goes_where_gpus_are_taken() -> None:
    runs = make.gang("runs", 1, queue="q", cpu=1, gpu=4, nodes=("n2",))
    nodes = [make.node(name, gpu=4, cpu=32) for name in ("n1", "n2", "n3")]
    small = make.gang("small", 1, queue="q", cpu=1)
    assert _node_of(*nodes, make.queue("q"), runs, small, task="small-0") == "n2"


def _among_pairs(count: int) -> str:
    """Where one GPU goes: two are left on n1 and three on n2, and most tasks here want pairs."""
    pairs = make.gang("pairs", 3, queue="q", gpu=2, nodes=("n1", "n3", "n3"))
    known = make.gang("known", count, queue="q", gpu=2, nodes=("far",) * count)
    one = make.gang("one", 1, queue="q", gpu=1, nodes=("n2",))
    nodes = [make.node(name, gpu=4) for name in ("n1", "n2", "n3")]
    far = make.node("far", gpu=2 * count, cpu=count, pods=count)
    new = make.gang("new", 1, queue="q", gpu=1)
    return _node_of(*nodes, far, make.queue("q"), pairs, known, one, new, task="new-0")


def test_a_task_leaves_whole_what_those_who_wait_can_use() -> None:
    assert _among_pairs(200) == "n2"


def test_a_mix_that_rests_on_few_tasks_counts_for_less_than_a_full_node() -> None:
    """What five tasks wanted may be chance; that a node is nearly full is not."""
    assert _among_pairs(1) == "n1"


def test_losses_are_compared_in_finer_steps_the_more_tasks_are_known() -> None:
    steps = [step_of(tasks) for tasks in (0, 1, 50, 200, 2000, 1_000_000)]
    assert steps == sorted(steps, reverse=True)
    assert steps[3] == 2 * steps[-1]
    assert step_of(4001) == step_of(4000)  # one more among many changes no choice


def _left_with(cpu: int) -> str:
    """Where a GPU goes, of two nodes that are left with none; `n1` has so much CPU over."""
    nodes = [make.node("n1", gpu=1, cpu=1 + cpu), make.node("n2", gpu=1, cpu=3)]
    new = make.gang("new", 1, queue="q", gpu=1, cpu=1)
    return _node_of(*nodes, make.queue("q"), new, task="new-0")


def test_among_equal_losses_the_node_is_taken_that_keeps_the_least_cpu() -> None:
    assert (_left_with(1), _left_with(4)) == ("n1", "n2")
