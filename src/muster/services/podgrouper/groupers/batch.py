"""Kubernetes Jobs and CronJobs, and run.ai's Job, which names a group by the stem of its pods."""

from dataclasses import replace

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import Group, GroupingError, Object
from muster.services.podgrouper.groupers.workload import ObjectRef, Workload


def group_job(workload: Workload) -> Group:
    """One group per Job; pods of a group from before that rule stay where they are."""
    group = base_group(workload, workload.top)
    legacy = f"pg-{fields.name_of(workload.pod)}-{fields.uid_of(workload.top)}"
    is_looked_for = workload.settings.finds_legacy_groups and legacy != group.name
    if is_looked_for and legacy in _group_names(workload):
        return replace(group, name=legacy, min_member=1)
    return replace(group, min_member=_job_minimum(workload.top))


def group_cron_job(workload: Workload) -> Group:
    """One group per run: the Job is the workload, the CronJob only its calendar."""
    references = workload.pod["metadata"].get("ownerReferences") or []
    job = next((ref for ref in references if ref.get("kind") == "Job"), None)
    if job is None:
        raise GroupingError("no owner reference of type 'Job'")
    ref = ObjectRef(job["apiVersion"], "Job", fields.namespace_of(workload.pod), str(job["name"]))
    found = workload.reads.get(ref)
    if found is None:
        raise GroupingError(f'jobs.batch "{ref.name}" not found')
    return base_group(workload, found)


def group_runai_job(workload: Workload) -> Group:
    """One group per stem of the pod's name (`train-3-0` belongs to `train-3`)."""
    group = base_group(workload, workload.top)
    uid = fields.uid_of(workload.top)
    parallel = (fields.integer(workload.top, "spec", "parallelism") or 1) > 1
    stem = fields.name_of(workload.pod if parallel else workload.top)
    legacy = f"pg-{stem}-{uid}"
    if workload.settings.finds_legacy_groups and legacy in _group_names(workload):
        return replace(group, name=legacy)
    # A name without a hyphen is its own stem.
    return replace(group, name=f"pg-{fields.name_of(workload.pod).rsplit('-', 1)[0]}-{uid}")


def _job_minimum(job: Object) -> int:
    key = names.ANNOTATION_BATCH_MIN_MEMBER
    value = fields.annotations(job).get(key)
    if value is None:
        return 1
    try:
        return fields.parsed_int(value)
    except ValueError as unreadable:
        text = f"invalid min-member annotation value: {unreadable}"
        raise GroupingError(
            text, fields.whole_number_fix(key, f"Job {fields.name_of(job)}")
        ) from None


def _group_names(workload: Workload) -> set[str]:
    return set(workload.reads.pod_groups(fields.namespace_of(workload.pod)))
