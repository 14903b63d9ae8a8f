"""A plan carried out on records: the cluster as it would be if everything went as planned."""

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from muster.api.bindrequest import ResourceClaimAllocation
from muster.api.devices import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumer,
    ResourceClaimStatus,
)
from muster.engine.plan import Bind, Nominate, Plan
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
        changed[bind.task] = _placed(tasks, bind, TaskStatus.BINDING)
    for nominate in plan.nominations:
        moves = evicted[nominate.task].moves_to if nominate.task in evicted else nominate.node
        if nominate.node not in nodes or moves != nominate.node:
            raise Unplanned(f"task {nominate.task} cannot wait for {nominate.node}")
        changed[nominate.task] = _placed(tasks, nominate, TaskStatus.PIPELINED)
    return msgspec.structs.replace(
        records,
        tasks=tuple(changed.get(task.uid, task) for task in records.tasks),
        cluster_objects=msgspec.structs.replace(
            records.cluster_objects, device_claims=_claims_after(records, plan)
        ),
    )


def _claims_after(records: ClusterRecords, plan: Plan) -> dict[str, ResourceClaim]:
    """Claims of bound tasks hold their devices; those of evicted ones have a user less."""
    tasks = {task.uid: task for task in records.tasks}
    claims = claims_left(
        records.cluster_objects.device_claims, (tasks[evict.task] for evict in plan.evictions)
    )
    for bind in plan.binds:
        given = cast(
            "tuple[ResourceClaimAllocation, ...]",
            bind.details.get("resourceClaimAllocations", ()),
        )
        keys = _claim_keys(tasks[bind.task])
        for each in given:
            claim = claims[keys[each.name]]
            user = ResourceClaimConsumer(resource="pods", name=tasks[bind.task].name, uid=bind.task)
            users = (*claim.status.reserved_for, user)
            claims[keys[each.name]] = _with_status(claim, each.allocation, users)
    return claims


def claims_left(
    claims: Mapping[str, ResourceClaim], leaving: Iterable[TaskRecord]
) -> dict[str, ResourceClaim]:
    """Claims once these have left: what nobody uses any more is free."""
    left = dict(claims)
    for task in leaving:
        for key in left.keys() & _claim_keys(task).values():
            users = tuple(user for user in left[key].status.reserved_for if user.uid != task.uid)
            allocation = left[key].status.allocation if users else None
            left[key] = _with_status(left[key], allocation, users)
    return left


def _claim_keys(task: TaskRecord) -> dict[str, str]:
    named = {r.entry: r.name or task.claims.get(r.entry, "") for r in task.constraints.claims}
    return {entry: f"{task.namespace}/{name}" for entry, name in named.items()}


def _with_status(
    claim: ResourceClaim,
    allocation: AllocationResult | None,
    users: tuple[ResourceClaimConsumer, ...],
) -> ResourceClaim:
    status = ResourceClaimStatus(allocation=allocation, reserved_for=users)
    return ResourceClaim(metadata=claim.metadata, spec=claim.spec, status=status)


def _placed(tasks: dict[str, TaskRecord], to: Bind | Nominate, status: TaskStatus) -> TaskRecord:
    return _changed(tasks, to.task, status=status, node=to.node, gpu_shares=to.gpu_shares)


def _changed(tasks: dict[str, TaskRecord], uid: str, **fields: object) -> TaskRecord:
    if uid not in tasks:
        raise Unplanned(f"the plan names task {uid}, which does not exist")
    return msgspec.structs.replace(tasks[uid], **fields)
