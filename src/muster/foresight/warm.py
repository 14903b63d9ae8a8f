"""Compile the kernels that answer questions too, before the first question.

A cycle never plays the queue forward, so `engine.warm` leaves those kernels out.
"""

from collections.abc import Callable, Iterator

from muster.engine import warm
from muster.foresight.arrivals import Past
from muster.foresight.situation import Situation
from muster.foresight.when import SAMPLES_MIN, Asked, when
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    gang,
)
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT


def warm_up(say: Callable[[str], object] = lambda text: None) -> None:
    """Those of the engine, and those of questions, once in a process."""
    warm.warm_up(say, steps)


def steps() -> Iterator[warm.Step]:
    yield from warm.steps()
    yield "the queue played forward", _play_forward


def _play_forward() -> None:
    """One job runs on the only GPU, and one waits for it."""
    room = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": GPU_UNIT}
    records = ClusterRecords(
        nodes=(NodeRecord("node", room),),
        queues=(QueueRecord("queue"),),
        jobs=tuple(
            JobRecord(f"x/{name}", "queue", uid=name, sub_groups=gang(1), expected_runtime_s=60.0)
            for name in ("runs", "waits")
        ),
        tasks=(_task("runs", TaskStatus.RUNNING, "node"), _task("waits", TaskStatus.PENDING)),
    )
    when(Situation.of(records, 0.0), Past(), Asked(samples=SAMPLES_MIN))


def _task(job: str, status: TaskStatus, node: str = "") -> TaskRecord:
    return TaskRecord(
        uid=job,
        name=job,
        job=f"x/{job}",
        status=status,
        node=node,
        request={"cpu": 1000, "pods": 1, "gpu": GPU_UNIT},
        gpu=GpuRequest(GpuKind.WHOLE, 1),
    )
