"""Moment: what one cycle saw and said, with what every view of it needs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from muster.api.names import LABEL_HOSTNAME
from muster.engine.explain import Explanation
from muster.engine.hooks import QueueShares
from muster.model.public_reasons import Why, why_of
from muster.model.reasons import Refusal
from muster.model.records import TaskKind
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ACTIVE_USED, STATUSES, TaskStatus
from muster.numerics.arrays import Bools, Bytes, Floats, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT, QUEUE_GPU

Labels = Callable[[str, str], Mapping[str, str]]
"""Those of a thing: of which kind ("jobs" or "queues"), and its name."""


def no_labels(kind: str, name: str) -> Mapping[str, str]:
    """Where nobody knows them."""
    return {}


@dataclass(frozen=True)
class Moment:
    """Frozen, and what is derived from it is derived once, however many ask."""

    snapshot: ClusterSnapshot
    explanation: Explanation
    shares: QueueShares | None
    at_s: float
    cycle: int = 0
    took_s: float = 0.0
    undone: Mapping[str, float] = field(default_factory=dict)
    """Jobs that it would have started, and since when each moment says so: whose scheduler is at
    work has none for long."""
    closed_since: Mapping[str, float] = field(default_factory=dict)
    """Of nodes that are closed to work, where the cluster says it."""
    labels: Labels = no_labels
    """Of jobs (by key) and of queues (by name): no decision looks at them."""
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Views that cost something and are asked for again: each is made once for a moment."""

    @property
    def revision(self) -> int:
        return self.cycle

    @cached_property
    def on_node(self) -> Rows:
        """Tasks that sit on a node, by node, then age of the row."""
        tasks = self.snapshot.tasks
        rows = np.flatnonzero(tasks.live & (tasks.node >= 0) & _is(tasks.status, ACTIVE_USED))
        return rows[np.argsort(tasks.node[rows], kind="stable")]

    @cached_property
    def task_gpus(self) -> Floats:
        """[T] GPUs that a task counts for in its queue."""
        units = self.snapshot.demand.queue_units[:, QUEUE_GPU]
        return units[self.snapshot.tasks.shape] / GPU_UNIT

    def per_job(self, tasks: Bools, weights: Floats | None = None) -> Floats:
        """[J] how many of these tasks, or how much of them, each job has."""
        columns = self.snapshot.tasks
        rows = np.flatnonzero(tasks & columns.live & (columns.job >= 0))
        weighed = None if weights is None else weights[rows]
        return np.bincount(columns.job[rows], weighed, len(self.snapshot.jobs.keys)).astype(float)

    def in_status(self, *statuses: TaskStatus) -> Bools:
        return _is(self.snapshot.tasks.status, statuses)

    @cached_property
    def rack_label(self) -> str:
        """The innermost level of a topology that is no single node; "": there is none."""
        for topology in self.snapshot.topologies.values():
            levels = [level for level in topology.levels if level != LABEL_HOSTNAME]
            if levels:
                return levels[-1]
        return ""

    @cached_property
    def racks(self) -> tuple[str, ...]:
        """[N] by node; "" where it is not known."""
        label = self.rack_label
        return tuple(record.labels.get(label, "") for record in self.snapshot.nodes.records)

    @cached_property
    def node_states(self) -> tuple[str, ...]:
        """[N] ready, cordoned or not ready."""
        return tuple(
            "not ready" if not node.is_ready else "cordoned" if node.is_unschedulable else "ready"
            for node in self.snapshot.nodes.records
        )

    @cached_property
    def is_open(self) -> Bools:
        """[N] whether work may come."""
        return np.array([state == "ready" for state in self.node_states], dtype=bool)

    @property
    def closed(self) -> tuple[str, ...]:
        """Nodes that no work comes to."""
        names = self.snapshot.nodes.names
        return tuple(names[row] for row in np.flatnonzero(~self.is_open).tolist())

    @cached_property
    def node_gpus(self) -> Ints:
        """[N] devices of each node."""
        return self.snapshot.nodes.allocatable[:, GPU] // GPU_UNIT

    @cached_property
    def held_gpus(self) -> Floats:
        """[N] what pods hold there, parts of GPUs as parts. Who holds a shared GPU for its tenants
        holds nothing beside them."""
        tasks, rows = self.snapshot.tasks, self.on_node
        is_work = tasks.job[rows] >= 0
        others = np.flatnonzero(~is_work).tolist()
        is_work[others] = [tasks.records[rows[at]].kind is TaskKind.WORK for at in others]
        weights, size = np.where(is_work, self.task_gpus[rows], 0.0), len(self.snapshot.nodes)
        return np.bincount(tasks.node[rows], weights, size).astype(float)

    @cached_property
    def free_gpus(self) -> Floats:
        """[N] whole devices that nobody holds, on nodes where work may come."""
        free = np.maximum(self.snapshot.nodes.idle[:, GPU], 0) // GPU_UNIT
        return np.where(self.is_open, free, 0).astype(float)

    @cached_property
    def why(self) -> Mapping[int, Why]:
        """By job row: why those wait that were refused. Many are refused for the same."""
        row, made = self.snapshot.jobs.row, dict[tuple[Refusal, ...], Why | None]()
        found: dict[int, Why] = {}
        for key, refusals in self.explanation.refusals.items():
            if refusals not in made:
                made[refusals] = why_of(refusals)
            why = made[refusals]
            if why is not None and key in row:
                found[row[key]] = why
        return found

    def code(self, job: int) -> str:
        """The dominant one; "": it was not refused."""
        why = self.why.get(job)
        return "" if why is None else str(why.dominant.code)

    def category(self, job: int) -> str:
        """Of its dominant code."""
        why = self.why.get(job)
        return "" if why is None else str(why.dominant.category)


def _is(status: Bytes, wanted: Collection[TaskStatus]) -> Bools:
    """Which of them are in one of these."""
    table = np.zeros(STATUSES, dtype=bool)
    table[list(wanted)] = True
    return table[status]
