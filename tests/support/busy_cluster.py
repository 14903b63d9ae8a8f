"""A cluster that lives: jobs come, are decided about, run and end, cycle by cycle, by one seed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from muster.engine.cycle import CycleResult
from muster.engine.holds import Hold
from muster.engine.plan import Plan
from muster.foresight.situation import Rules, Situation, rules_of
from muster.model.records import JobRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.testing import make

_QUEUES = ("a", "b", "c")


@dataclass(slots=True)
class BusyCluster:
    """Nodes of eight GPUs, three queues, jobs of all sizes."""

    seed: int
    nodes: int = 6
    now_s: float = make.NOW_S
    period_s: float = 30.0
    rules: Rules = field(default_factory=rules_of)
    tables: ClusterTables = field(default_factory=ClusterTables)
    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    made: int = 0

    def __post_init__(self) -> None:
        self._rand = np.random.default_rng(self.seed)
        for at in range(self.nodes):
            self.tables.upsert_node(make.node(f"n{at}", gpu=8))
        for name in _QUEUES:
            self.tables.upsert_queue(make.queue(name, quota_gpu=self.nodes * 2))

    _rand: np.random.Generator = field(init=False)

    def cycles(self, count: int) -> Iterator[tuple[ClusterSnapshot, CycleResult, float]]:
        for at in range(count):
            if at % 4:  # otherwise nothing happens
                self._arrive()
                self._end()
            situation = Situation(self.tables.snapshot(), self.rules, self.now_s, self.holds)
            result = situation.result
            yield situation.snapshot, result, self.now_s
            self.holds = result.memory.holds
            self._carry_out(result.plan)
            self.now_s += self.period_s

    def _arrive(self) -> None:
        for _ in range(self._rand.integers(2)):
            self.made += 1
            size = (1, 1, 2, 4, 8)[self._rand.integers(5)]
            work = make.gang(
                f"job-{self.made}",
                size,
                gpu=(1, 2, 4)[self._rand.integers(3)],
                queue=_QUEUES[self._rand.integers(3)],
                priority=(50, 75)[self._rand.integers(2)],
                created_s=self.now_s,
                user=("ana", "ben")[self._rand.integers(2)],
            )
            self.jobs[work.job.key] = work.job
            self.tables.upsert_job(work.job)
            for task in work.tasks:
                self._put(task)

    def _end(self) -> None:
        for uid, task in list(self.tasks.items()):
            if task.status is TaskStatus.RELEASING:
                self._put(msgspec.structs.replace(task, status=TaskStatus.PENDING, node=""))
            elif task.status is TaskStatus.BINDING:
                self._put(msgspec.structs.replace(task, status=TaskStatus.RUNNING))
            elif task.status is TaskStatus.RUNNING and not self._rand.integers(12):
                del self.tasks[uid]
                self.tables.remove_task(uid)

    def _carry_out(self, plan: Plan) -> None:
        for evict in plan.evictions:
            task = self.tasks[evict.task]
            self._put(msgspec.structs.replace(task, status=TaskStatus.RELEASING))
        for bind in plan.binds:
            task = self.tasks[bind.task]
            bound = msgspec.structs.replace(task, status=TaskStatus.BINDING, node=bind.node)
            self._put(bound)

    def _put(self, task: TaskRecord) -> None:
        self.tasks[task.uid] = task
        self.tables.upsert_task(task)
