"""JobSet: one group with a part per replicated job and a leaf per replica of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group, topology_of
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object, SubGroup
from muster.services.podgrouper.groupers.segments import MOST_SEGMENTS
from muster.services.podgrouper.groupers.workload import Workload

_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def group_job_set(workload: Workload) -> Group:
    """The tree of replicated jobs; in order, one job suffices to start, else all must fit."""
    job_set, group = workload.top, base_group(workload, workload.top)
    jobs = fields.objects(job_set, "spec", "replicatedJobs")
    if not jobs:
        raise GroupingError(f"jobset {fields.key_of(job_set)} has no replicatedJobs")
    in_order = fields.text(job_set, "spec", "startupPolicy", "startupPolicyOrder") == "InOrder"
    legacy = _legacy_name(workload, group.name, in_order)
    if legacy:
        return replace(group, name=legacy, min_member=_flat_minimum(job_set))
    _check_size(jobs)
    parts = tuple(part for job in jobs for part in _parts_of(job))
    return replace(
        group,
        min_member=None,
        min_sub_group=_jobs_to_start(job_set, len(jobs), in_order),
        sub_groups=parts,
        pod_sub_group=_leaf_of(workload.pod, parts),
    )


def _jobs_to_start(job_set: Object, jobs: int, in_order: bool) -> int:
    asked = _annotated_minimum(fields.annotations(job_set), "JobSet")
    if asked is not None:
        return min(asked, jobs)
    return 1 if in_order else jobs


def _parts_of(job: Mapping[str, Any]) -> list[SubGroup]:
    name = str(job.get("name") or "")
    replicas = _replicas(job)
    template = job.get("template") or {}
    wishes = fields.annotations(template)
    key = names.ANNOTATION_BATCH_MIN_MEMBER
    asked = _annotated_minimum(wishes, "replicatedJob template") if wishes.get(key) else None
    minimum = asked if asked is not None else _pods_at_once(template.get("spec") or {})
    wanted = topology_of(wishes)
    topology = wanted if wanted.name and (wanted.required or wanted.preferred) else None
    leaves = [
        SubGroup(f"{name}-replica-{index}", minimum, parent=name, topology=topology)
        for index in range(replicas)
    ]
    # A job of no replicas has nothing to wait for, and an inner node without parts is refused.
    return [SubGroup(name, min_sub_group=replicas), *leaves] if leaves else []


def _check_size(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Before anything is made: replicas are numbers that anybody may write."""
    total = 0
    for job in jobs:
        name, replicas = str(job.get("name") or ""), _replicas(job)
        total += max(replicas, 0)
        if replicas > MOST_SEGMENTS:
            raise GroupingError(
                f"replicatedJob {name} has {replicas} replicas, more than the {MOST_SEGMENTS} "
                "allowed"
            )
        if total > MOST_SEGMENTS:
            raise GroupingError(
                f"spec.replicatedJobs: up to {name} they have {total} replicas in all, more than "
                f"the {MOST_SEGMENTS} allowed; make several JobSets of them"
            )


def _replicas(job: Mapping[str, Any]) -> int:
    return _count(job, "replicas", "replicatedJob.replicas")


def _pods_at_once(job_spec: Mapping[str, Any]) -> int:
    """A Job never runs more pods than it has completions to reach."""
    parallelism = _count(job_spec, "parallelism", "template.spec.parallelism")
    completions = job_spec.get("completions")
    if isinstance(completions, int) and 0 < completions < parallelism:
        return completions
    return parallelism


def _count(thing: Mapping[str, Any], field: str, what: str) -> int:
    try:
        value = fields.integer(thing, field)
    except GroupingError as wrong:
        raise GroupingError(f"failed to read {what}: {wrong}") from None
    return 1 if value is None else value


def _annotated_minimum(wishes: Mapping[str, str], where: str) -> int | None:
    value = wishes.get(names.ANNOTATION_BATCH_MIN_MEMBER)
    if value is None:
        return None
    try:
        number = fields.parsed_int(value)
        if number < 1:
            raise ValueError(f"value {number} must be >= 1")
    except ValueError as wrong:
        key = names.ANNOTATION_BATCH_MIN_MEMBER
        raise GroupingError(
            f"invalid {key} annotation on {where}: {wrong}", fields.whole_number_fix(key, where)
        ) from None
    return number


def _flat_minimum(job_set: Object) -> int:
    """Of a group from before the tree."""
    key = names.ANNOTATION_BATCH_MIN_MEMBER
    value = fields.annotations(job_set).get(key)
    try:
        return 1 if value is None else fields.parsed_int(value)
    except ValueError as wrong:
        fix = fields.whole_number_fix(key, "JobSet")
        raise GroupingError(f"invalid {key} annotation value: {wrong}", fix) from None


def _leaf_of(pod: Object, parts: tuple[SubGroup, ...]) -> str:
    leaf = f"{_label_of(pod, _REPLICATED_JOB)}-replica-{_label_of(pod, _JOB_INDEX)}"
    if leaf not in {part.name for part in parts}:
        raise GroupingError(f'leaf subgroup "{leaf}" not found for pod {fields.key_of(pod)}')
    return leaf


def _label_of(pod: Object, label: str) -> str:
    value = fields.labels(pod).get(label)
    if not value:
        raise GroupingError(
            f'pod {fields.key_of(pod)} missing required label "{label}"',
            "it is empty or not among metadata.labels, where the JobSet's controller writes the "
            "name and the index of the replicatedJob: name each of spec.replicatedJobs",
        )
    return value


def _legacy_name(workload: Workload, name: str, in_order: bool) -> str:
    """The flat group from before the tree, when this JobSet already has one."""
    groups = workload.reads.pod_groups(fields.namespace_of(workload.pod))
    flat = [
        group
        for group_name, group in groups.items()
        if (group_name == name or group_name.startswith(f"{name}-"))
        and not (group.get("spec") or {}).get("subGroups")
    ]
    if not flat:
        return ""
    job = _label_of(workload.pod, _REPLICATED_JOB)
    return f"{name}-{job}" if in_order else name
