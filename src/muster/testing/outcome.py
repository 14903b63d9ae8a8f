"""A plan carried out on records: the cluster as it would be if everything went as planned."""

import msgspec

from muster.engine.plan import Plan
from muster.model.records import ClusterRecords, TaskRecord
from muster.model.status import TaskStatus


class Unplanned(ValueError):
    """A plan names something that is not there, or does two things to one task."""


def carried_out(records: ClusterRecords, plan: Plan) -> ClusterRecords:
    """Bound tasks are Binding, waiting ones Pipelined, evicted ones Releasing or Pipelined."""
    nodes = {node.name for node in records.nodes}
    tasks = {task.uid: task for task in records.tasks}
    evicted = {evict.task: evict for evict in plan.evictions}
    changed: dict[str, TaskRecord] = {}
    for evict in plan.evictions:
        changed[evict.task] = _changed(tasks, evict.task, status=TaskStatus.RELEASING)
    for bind in plan.binds:
        if bind.task in changed or bind.node not in nodes:
            raise Unplanned(f"task {bind.task} is bound to {bind.node} besides")
        changed[bind.task] = _changed(
            tasks,
            bind.task,
            status=TaskStatus.BINDING,
            node=bind.node,
            gpu_groups=bind.gpu_groups,
        )
    for nominate in plan.nominations:
        moves = evicted[nominate.task].moves_to if nominate.task in evicted else nominate.node
        if nominate.node not in nodes or moves != nominate.node:
            raise Unplanned(f"task {nominate.task} cannot wait for {nominate.node}")
        changed[nominate.task] = _changed(
            tasks,
            nominate.task,
            status=TaskStatus.PIPELINED,
            node=nominate.node,
            gpu_groups=nominate.gpu_groups,
        )
    return msgspec.structs.replace(
        records, tasks=tuple(changed.get(task.uid, task) for task in records.tasks)
    )


def _changed(tasks: dict[str, TaskRecord], uid: str, **fields: object) -> TaskRecord:
    if uid not in tasks:
        raise Unplanned(f"the plan names task {uid}, which does not exist")
    return msgspec.structs.replace(tasks[uid], **fields)
