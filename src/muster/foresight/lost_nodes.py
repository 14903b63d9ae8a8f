"""Nodes that are lost or drained, as a change: their pods leave, and come again if somebody makes
them anew.
"""

from collections.abc import Iterable, Iterator

import msgspec

from muster.engine.plan import Evict
from muster.foresight.aftermath import claims_left
from muster.foresight.variants import Variants
from muster.model.record_changes import Delta
from muster.model.records import TaskRecord
from muster.model.status import ACTIVE_USED, TaskStatus

LOST, DRAINED = "node lost", "drain"
_BARE = "Pod"
"""The owner of a group whose pod nobody makes again."""


def without_nodes(state: Variants, lost: Iterable[str], drained: Iterable[str]) -> Delta:
    """What becomes of a cluster whose nodes are lost, or emptied and closed."""
    gone, closed = frozenset(lost), frozenset(drained)
    leaving = [task for task in state.tasks.values() if task.node in gone | closed]
    again = {task.uid: _again(task) for task in leaving if _comes_again(state, task)}
    claims = state.records.cluster_objects.device_claims
    left = claims_left(claims, (task for task in leaving if task.status in ACTIVE_USED))
    objects = msgspec.structs.replace(state.records.cluster_objects, device_claims=left)
    return Delta(
        nodes=tuple(
            msgspec.structs.replace(state.nodes[name], is_unschedulable=True)
            for name in sorted(closed - gone)
        ),
        tasks=tuple(again.values()),
        gone_nodes=tuple(sorted(gone)),
        gone_tasks=tuple(task.uid for task in leaving if task.uid not in again),
        cluster_objects=None if left == claims else objects,
    )


def displaced(state: Variants, edit: Delta) -> Iterator[Evict]:
    """Pods of jobs that have a node and lose it by a change of the cluster itself."""
    away = {task.uid for task in edit.tasks if not task.node} | set(edit.gone_tasks)
    for uid in sorted(away & state.tasks.keys()):
        task = state.tasks[uid]
        if task.job and task.status in ACTIVE_USED:
            why = LOST if task.node in edit.gone_nodes else DRAINED
            yield Evict(uid, task.job, task.node, why)


def _comes_again(state: Variants, task: TaskRecord) -> bool:
    job = state.jobs.get(task.job)
    return job is not None and job.owner_kind != _BARE and task.status in ACTIVE_USED


def _again(task: TaskRecord) -> TaskRecord:
    """As its controller makes it anew."""
    return msgspec.structs.replace(
        task,
        status=TaskStatus.PENDING,
        node="",
        nominated_node="",
        gpu_shares=(),
        claim_allocations={},
        numa=(),
    )
