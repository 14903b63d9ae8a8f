"""PyTorchJob: master and workers, workers optionally in segments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object, SubGroup
from muster.services.podgrouper.groupers.kubeflow import (
    declared_minimum,
    replica_counts,
)
from muster.services.podgrouper.groupers.segments import (
    MOST_SEGMENTS,
    SEGMENT_SIZE,
    segment_topology,
)
from muster.services.podgrouper.groupers.workload import Workload

_SPECS = "pytorchReplicaSpecs"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"


def group_pytorch_job(workload: Workload) -> Group:
    """A gang with `master` and `worker` parts; an elastic job may start with fewer workers."""
    job = workload.top
    minimum = _minimum(job)
    specs = fields.mapping(job, "spec", _SPECS) or {}
    masters = fields.integer(job, "spec", _SPECS, "Master", "replicas") or 0
    parts = [SubGroup("master", masters)] if masters > 0 else []
    workers_needed = max(0, minimum - masters)
    size = _segment_size(workload.pod, specs.get("Worker") or {}) if "Worker" in specs else None
    if "Worker" in specs:
        parts.extend(_worker_parts(workload, specs["Worker"], workers_needed, size))
    return replace(
        base_group(workload, job),
        min_member=minimum,
        sub_groups=tuple(parts),
        pod_sub_group=_part_of(workload.pod, parts, size),
    )


def _minimum(job: Object) -> int:
    declared = declared_minimum(job)
    if declared is not None:
        if fields.mapping(job, "spec", _SPECS) is None:
            raise GroupingError(f"{_SPECS} not found in PyTorchJob {fields.key_of(job)}")
        return declared
    elastic = fields.integer(job, "spec", "elasticPolicy", "minReplicas")
    total = sum(replica_counts(job, _SPECS).values())
    return total if elastic is None else elastic


def _worker_parts(
    workload: Workload, worker: Mapping[str, Any], needed: int, size: int | None
) -> list[SubGroup]:
    said = fields.integer(worker, "replicas")
    replicas = 1 if said is None else said  # as its operator
    count = -(-replicas // size) if size else 0
    if size is None or count == 0:
        return [SubGroup("worker", needed)]
    if count > MOST_SEGMENTS:
        raise GroupingError(
            f"number of subgroups created for the segmentation {count} is greater than max allowed "
            f"segmentation {MOST_SEGMENTS}"
        )
    # Segments start whole, so an elastic minimum rounds up to whole segments.
    mandatory = -(-needed // size)
    topology = segment_topology(workload.pod, worker.get("template") or {}, workload.top)
    leaves = [
        SubGroup(
            f"worker-{number}",
            min(size, replicas - number * size) if number < mandatory else 0,
            parent="worker",
            topology=topology,
        )
        for number in range(count)
    ]
    return [SubGroup("worker", min_sub_group=count), *leaves]


def _segment_size(pod: Object, worker: Mapping[str, Any]) -> int | None:
    template = worker.get("template") or {}
    for source, where in ((pod, f"pod {fields.key_of(pod)}"), (template, "worker podTemplate")):
        value = fields.annotations(source).get(SEGMENT_SIZE)
        if not value:
            continue
        try:
            size = fields.parsed_int(value, "strconv.Atoi")
        except ValueError as wrong:
            raise GroupingError(
                f"invalid segment size {value} on {where}, err: {wrong}",
                fields.whole_number_fix(SEGMENT_SIZE, where),
            ) from None
        if size <= 0:
            raise GroupingError(
                f"segment size {value} on {where} needs to be a positive integer",
                fields.whole_number_fix(SEGMENT_SIZE, where),
            )
        return size
    return None


def _part_of(pod: Object, parts: list[SubGroup], size: int | None) -> str:
    role = fields.labels(pod).get(_REPLICA_TYPE, "")
    names = {part.name for part in parts}
    if role == "worker" and any(part.parent == "worker" for part in parts) and size:
        leaf = f"worker-{_replica_index(pod) // size}"
        return leaf if leaf in names else ""
    return role if role in names else ""


def _replica_index(pod: Object) -> int:
    value = fields.labels(pod).get(_REPLICA_INDEX)
    if value is None:
        raise GroupingError(f"replica index label not found on pod {fields.key_of(pod)}")
    try:
        index = fields.parsed_int(value, "strconv.Atoi")
    except ValueError as wrong:
        fix = fields.whole_number_fix(_REPLICA_INDEX, f"pod {fields.key_of(pod)}")
        raise GroupingError(f"invalid replica index {value}, err: {wrong}", fix) from None
    if index < 0:
        raise GroupingError(f"replica index {value} is not valid. It must be bigger than 0")
    return index
