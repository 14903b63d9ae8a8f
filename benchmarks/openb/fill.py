"""The engine fills the cluster of the trace, batch by batch, with the tasks of a workload."""

import time
from dataclasses import dataclass, field

import msgspec

from benchmarks.openb.trace import CPU, GPUS, MEMORY, MILLI, MODELS, WHOLE, Trace
from muster.base.gc_pause import gc_paused
from muster.engine.config.conf import SchedulerConf
from muster.engine.cycle import run_cycle
from muster.engine.memory import EMPTY
from muster.engine.plan import Bind, Nominate
from muster.engine.registry import build_actions, build_policy
from muster.model.constraints import UNCONSTRAINED, Constraints
from muster.model.records import (
    GpuKind,
    GpuRequest,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    gang,
    queue_amounts,
)
from muster.model.selectors import Operator, Requirement
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.numerics.arrays import Ints
from muster.numerics.axis import GPU_UNIT

_MIB = 1 << 20
_MODEL = "gpu-model"
_GPU_MEMORY_MIB = 100_000


@dataclass
class Filled:
    """How far it came: thousandths of GPUs that tasks asked for and got, batch by batch."""

    asked: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    cycle_s: list[float] = field(default_factory=list)
    moves: int = 0


class Filling:
    """One cluster that fills."""

    def __init__(self, trace: Trace, conf: SchedulerConf) -> None:
        self._trace = trace
        self._policy, self._actions = build_policy(conf), build_actions(conf)
        self._tables = ClusterTables()
        self._tables.upsert_queue(QueueRecord("queue", uid="queue", quota=queue_amounts(-1)))
        for row in range(len(trace.node_cpu)):
            self._tables.upsert_node(_node(trace, row))
        self._tasks: dict[str, TaskRecord] = {}
        self._asks: dict[str, int] = {}
        self.result = Filled()

    def fill(self, rows: Ints, batch: int) -> Filled:
        """Let all tasks come, `batch` of them before each cycle; who finds no place leaves."""
        for start in range(0, len(rows), batch):
            self._cycle(start, rows[start : start + batch])
        return self.result

    def _cycle(self, first: int, rows: Ints) -> None:
        trace, tables, result = self._trace, self._tables, self.result
        came = {}
        for at, row in enumerate(rows.tolist(), first):
            task = _task(trace, at, row)
            came[task.uid] = task
            tables.upsert_job(
                JobRecord(task.job, "queue", uid=task.uid, sub_groups=gang(1), created_s=float(at))
            )
            tables.upsert_task(task)
            self._asks[task.uid] = int(trace.tasks[row, GPUS] * trace.tasks[row, MILLI])
        snapshot = tables.snapshot()
        with gc_paused():
            began = time.process_time()
            plan = run_cycle(snapshot, self._policy, self._actions, float(first), EMPTY).plan
            result.cycle_s.append(time.process_time() - began)
        asked = (result.asked[-1] if result.asked else 0) + sum(self._asks[uid] for uid in came)
        used = result.used[-1] if result.used else 0
        self._tasks |= came
        moved = {evict.task for evict in plan.evictions}
        result.moves += len(moved)
        places: list[Bind | Nominate] = [*plan.binds, *plan.nominations]
        for place in places:
            used += 0 if place.task in moved else self._asks[place.task]
            self._tasks[place.task] = msgspec.structs.replace(
                self._tasks[place.task],
                status=TaskStatus.RUNNING, node=place.node, gpu_shares=place.gpu_shares,
            )  # fmt: skip
            tables.upsert_task(self._tasks[place.task])
        for uid in came:
            if self._tasks[uid].status is TaskStatus.PENDING:
                tables.remove_task(uid)
                tables.remove_job(self._tasks.pop(uid).job)
        result.asked.append(asked)
        result.used.append(used)


def _node(trace: Trace, row: int) -> NodeRecord:
    room = {
        "cpu": int(trace.node_cpu[row]),
        "memory": int(trace.node_memory[row]) * _MIB,
        "pods": 1000,
        "gpu": int(trace.node_gpus[row]) * GPU_UNIT,
    }
    labels = {_MODEL: trace.models[int(trace.node_model[row])]}
    return NodeRecord(f"node-{row:04}", room, gpu_memory_mib=_GPU_MEMORY_MIB, labels=labels)


def _task(trace: Trace, at: int, row: int) -> TaskRecord:
    task = trace.tasks[row].tolist()
    request = {"cpu": task[CPU], "memory": task[MEMORY] * _MIB, "pods": 1}
    gpu = GpuRequest()
    if task[GPUS] and task[MILLI] < WHOLE:
        gpu = GpuRequest(GpuKind.FRACTION, devices=task[GPUS], portion=task[MILLI])
    elif task[GPUS]:
        gpu = GpuRequest(GpuKind.WHOLE, devices=task[GPUS])
        request["gpu"] = task[GPUS] * GPU_UNIT
    name = f"{at:06}"
    return TaskRecord(
        name, name, f"openb/{name}", namespace="openb", request=request, gpu=gpu,
        constraints=_constraints(trace, task[MODELS]), created_s=float(at),
    )  # fmt: skip


def _constraints(trace: Trace, bits: int) -> Constraints:
    allowed = tuple(model for at, model in enumerate(trace.models) if bits >> at & 1)
    if len(allowed) == len(trace.models):
        return UNCONSTRAINED
    return Constraints(node_labels=(Requirement(_MODEL, Operator.IN, allowed),))
