"""Where the actions of one cycle take from each other, the plan that places everybody is chosen."""

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plan import Plan
from muster.engine.registry import build_actions, build_policy
from muster.model.tables import snapshot_of
from muster.testing import make


def plan(*pending: make.Workload) -> Plan:
    """Of a cluster of two nodes on which the queue rich holds half of each, its fair share."""
    conf = parse_conf("")
    world = make.cluster(
        make.node("a", gpu=4),
        make.node("b", gpu=4),
        make.queue("rich", quota_gpu=4),
        make.queue("poor", quota_gpu=4, created_s=1.0),
        *(
            make.gang(f"run{n}", 1, queue="rich", gpu=2, nodes=(n,), is_preemptible=True)
            for n in ("a", "b")
        ),
        *pending,
    )
    return run_cycle(snapshot_of(world), build_policy(conf), build_actions(conf), make.NOW_S).plan


def waiting(name: str, queue: str, gpu: int) -> make.Workload:
    return make.gang(name, 1, queue=queue, gpu=gpu, is_preemptible=True, created_s=float(gpu))


def test_nobody_loses_the_place_of_this_cycle_because_consolidation_served_somebody() -> None:
    """Served too, the job of three GPUs would put its queue so far above its share that the other
    queue may take from it, and takes the place that the small job was given.
    """
    found = plan(
        waiting("small", "rich", 1), waiting("three", "rich", 3), waiting("all", "poor", 4)
    )
    assert [bind.task for bind in found.binds] == ["small-0"]
    assert [waits.task for waits in found.nominations] == ["all-0"]


def test_consolidation_moves_work_where_nobody_loses_by_it() -> None:
    found = plan(waiting("small", "rich", 1), waiting("three", "rich", 3))
    assert [bind.task for bind in found.binds] == ["small-0"]
    assert {waits.task for waits in found.nominations} > {"three-0"}
