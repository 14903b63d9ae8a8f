"""Variants: one cluster with something changed in it, and then as it was again.

The tables are built once; a variant writes the rows that differ, takes a snapshot and puts the rows
back. What a change of a record means for sums, orders and shapes is the tables' own knowledge.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
)
from muster.model.snapshot import ClusterSnapshot
from muster.model.tables import ClusterTables

_Record = TypeVar("_Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Edit:
    """Records to put in place of those of the same name or beside them, and names to take out."""

    jobs: tuple[JobRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    nodes: tuple[NodeRecord, ...] = ()
    gone_tasks: tuple[str, ...] = ()
    gone_nodes: tuple[str, ...] = ()

    def __add__(self, other: "Edit") -> "Edit":
        return Edit(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def edited(records: ClusterRecords, edit: Edit) -> ClusterRecords:
    """The records with the edit made: what a variant shows, as values."""
    return msgspec.structs.replace(
        records,
        jobs=_merged(records.jobs, edit.jobs, "key"),
        tasks=tuple(
            task
            for task in _merged(records.tasks, edit.tasks, "uid")
            if task.uid not in set(edit.gone_tasks)
        ),
        queues=_merged(records.queues, edit.queues, "name"),
        nodes=tuple(
            node
            for node in _merged(records.nodes, edit.nodes, "name")
            if node.name not in set(edit.gone_nodes)
        ),
    )


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
    def variant(self, edit: Edit) -> Iterator[ClusterSnapshot]:
        """With the edit made."""
        try:
            self._apply(edit)
            yield self._tables.snapshot()
        finally:
            self._undo(edit)

    def tasks_of(self, job: str) -> list[TaskRecord]:
        return self._of_job.get(job, [])

    def _apply(self, edit: Edit) -> None:
        tables = self._tables
        for queue in edit.queues:
            tables.upsert_queue(queue)
        for node in edit.nodes:
            tables.upsert_node(node)
        for job in edit.jobs:
            tables.upsert_job(job)
        for task in edit.tasks:
            tables.upsert_task(task)
        for uid in edit.gone_tasks:
            tables.remove_task(uid)
        for name in edit.gone_nodes:
            tables.remove_node(name)

    def _undo(self, edit: Edit) -> None:
        tables = self._tables
        for uid in (*(task.uid for task in edit.tasks), *edit.gone_tasks):
            was_task = self.tasks.get(uid)
            tables.upsert_task(was_task) if was_task else tables.remove_task(uid)
        for job in edit.jobs:
            was_job = self.jobs.get(job.key)
            tables.upsert_job(was_job) if was_job else tables.remove_job(job.key)
        for name in (*(node.name for node in edit.nodes), *edit.gone_nodes):
            was_node = self.nodes.get(name)
            tables.upsert_node(was_node) if was_node else tables.remove_node(name)
        for queue in edit.queues:
            was_queue = self.queues.get(queue.name)
            tables.upsert_queue(was_queue) if was_queue else tables.remove_queue(queue.name)


def _merged(
    before: tuple[_Record, ...], changed: tuple[_Record, ...], name: str
) -> tuple[_Record, ...]:
    by_name = {getattr(record, name): record for record in before}
    return tuple((by_name | {getattr(record, name): record for record in changed}).values())
