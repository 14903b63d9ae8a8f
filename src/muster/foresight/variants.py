"""Variants: one cluster with something changed in it, and then as it was again.

The tables are built once; a variant writes the rows that differ, takes a snapshot and puts the rows
back. What a change of a record means for sums, orders and shapes is the tables' own knowledge.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from muster.model.record_changes import Delta, apply, undone
from muster.model.records import ClusterRecords, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.tables import ClusterTables


class Variants:
    """A cluster of which variants can be looked at, one at a time."""

    def __init__(self, records: ClusterRecords) -> None:
        self.records = records
        self.jobs = {job.key: job for job in records.jobs}
        self.tasks = {task.uid: task for task in records.tasks}
        self.queues = {queue.name: queue for queue in records.queues}
        self.nodes = {node.name: node for node in records.nodes}
        self._of_job: dict[str, list[TaskRecord]] = {}
        for task in records.tasks:
            self._of_job.setdefault(task.job, []).append(task)
        self._tables = ClusterTables()
        self._tables.extend(records)

    def snapshot(self) -> ClusterSnapshot:
        """As it is."""
        return self._tables.snapshot()

    @contextmanager
    def variant(self, delta: Delta) -> Iterator[ClusterSnapshot]:
        """With the changes made."""
        try:
            apply(self._tables, delta)
            yield self._tables.snapshot()
        finally:
            apply(self._tables, self._back(delta))

    def _back(self, delta: Delta) -> Delta:
        """What takes the changes back."""
        known: Mapping[str, Mapping[str, Any]] = {
            "nodes": self.nodes,
            "tasks": self.tasks,
            "jobs": self.jobs,
            "queues": self.queues,
        }
        return undone(known, delta)

    def tasks_of(self, job: str) -> list[TaskRecord]:
        return self._of_job.get(job, [])
