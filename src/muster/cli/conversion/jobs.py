"""Volcano Jobs: a Job of Kubernetes for one task, a JobSet for several."""

import copy
from collections.abc import Iterator
from typing import Final

from muster.api import names
from muster.api.codec import from_builtins
from muster.api.meta import replace
from muster.api.volcano_batch import (
    ABORT_JOB,
    COMPLETE_JOB,
    FAILED,
    POD_EVICTED,
    POD_FAILED,
    RESTART_JOB,
    RESTART_POD,
    TASK_COMPLETED,
    TERMINATE_JOB,
    CronJob,
    Job,
    LifecyclePolicy,
    TaskSpec,
)
from muster.api.volcano_defaults import with_defaults
from muster.cli.conversion.converted import Converted, Json, Note
from muster.cli.conversion.objects import annotation_notes, native_queue

_MIN_MEMBER: Final = names.ANNOTATION_BATCH_MIN_MEMBER
_PLUGINS: Final = {
    "svc": "a headless Service of your own (a JobSet has one: its pods find each other by name)",
    "env": "the variable JOB_COMPLETION_INDEX, which Kubernetes sets",
    "ssh": "a Secret of your own, mounted in the pods",
    "tensorflow": "a TFJob of Kubeflow, which muster groups",
    "pytorch": "a PyTorchJob of Kubeflow, which muster groups",
    "mpi": "an MPIJob of Kubeflow, which muster groups",
    "ray": "a RayJob or RayCluster of KubeRay, which muster groups",
    "hcclrank": "the annotation hccl/rankIndex of your own",
}
_FAILURES: Final = (POD_FAILED, POD_EVICTED, "*", FAILED)


def converted_job(given: Job) -> Converted:
    job = with_defaults(given)
    notes = list(_notes(job))
    source = f"Job {given.key}"
    if len(job.spec.tasks) == 1:
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _metadata(job),
            "spec": _job_spec(job, job.spec.tasks[0]),
        }
        return Converted(source, (body,), notes)
    jobs = [
        {"name": task.name, "replicas": 1, "template": {"spec": _job_spec(job, task)}}
        for task in job.spec.tasks
    ]
    spec: Json = {"replicatedJobs": jobs, "failurePolicy": {"maxRestarts": job.spec.max_retry}}
    if job.spec.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = job.spec.ttl_seconds_after_finished
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(job),
        "spec": spec,
    }
    several = Note("spec.tasks", "several tasks become a JobSet: its controller must be installed")
    return Converted(source, (body,), [several, *notes])


def converted_cron_job(given: CronJob) -> Converted:
    template = given.spec.job_template
    inner = from_builtins(Job, {"spec": template.spec})
    named = replace(inner, metadata=replace(template.metadata, name=given.metadata.name))
    job = converted_job(named)
    source = f"CronJob {given.key}"
    notes = [Note(f"spec.jobTemplate.{one.path}", one.text) for one in job.notes]
    if job.objects[0]["kind"] != "Job":
        why = "no counterpart: Kubernetes' CronJob makes Jobs, and several tasks are a JobSet"
        return Converted(source, (), [Note("spec.jobTemplate.spec.tasks", why)])
    spec: Json = {
        "schedule": given.spec.schedule,
        "jobTemplate": {
            "metadata": {k: v for k, v in job.objects[0]["metadata"].items() if k != "name"},
            "spec": job.objects[0]["spec"],
        },
    }
    for field, value in (
        ("timeZone", given.spec.time_zone),
        ("concurrencyPolicy", given.spec.concurrency_policy or None),
        ("suspend", given.spec.suspend),
        ("startingDeadlineSeconds", given.spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", given.spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", given.spec.failed_jobs_history_limit),
    ):
        if value is not None:
            spec[field] = value
    meta = {"name": given.metadata.name, **_where(given.metadata.namespace)}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    return Converted(source, (body,), notes)


def _metadata(job: Job) -> Json:
    labels = {**job.metadata.labels, names.DEFAULT.queue_label: native_queue(job.spec.queue)}
    if job.spec.priority_class_name:
        labels[names.LABEL_PRIORITY_CLASS] = job.spec.priority_class_name
    least = job.spec.min_available or 0
    return {
        "name": job.metadata.name,
        **_where(job.metadata.namespace),
        "labels": labels,
        "annotations": {_MIN_MEMBER: str(max(least, 1))},
    }


def _where(namespace: str) -> Json:
    return {"namespace": namespace} if namespace else {}


def _job_spec(job: Job, task: TaskSpec) -> Json:
    template: Json = copy.deepcopy(dict(task.template))
    pod: Json = dict(template.get("spec") or {})
    pod["schedulerName"] = names.DEFAULT.scheduler
    pod.setdefault("restartPolicy", "Never")
    if pod["restartPolicy"] == "Always":
        pod["restartPolicy"] = "OnFailure"
    meta: Json = dict(template.get("metadata") or {})
    queue = {names.DEFAULT.queue_label: native_queue(job.spec.queue)}
    meta["labels"] = {**(meta.get("labels") or {}), **queue}
    spec: Json = {
        "parallelism": task.replicas,
        "completions": task.replicas,
        "completionMode": "Indexed",
        "backoffLimit": job.spec.max_retry,
        "template": {"metadata": meta, "spec": pod},
    }
    if job.spec.ttl_seconds_after_finished is not None and len(job.spec.tasks) == 1:
        spec["ttlSecondsAfterFinished"] = job.spec.ttl_seconds_after_finished
    if rules := list(_failure_rules((*task.policies, *job.spec.policies))):
        spec["podFailurePolicy"] = {"rules": rules}
        pod["restartPolicy"] = "Never"
    if job.spec.min_success is not None and len(job.spec.tasks) == 1:
        spec["successPolicy"] = {"rules": [{"succeededCount": job.spec.min_success}]}
    return spec


def _failure_rules(policies: tuple[LifecyclePolicy, ...]) -> Iterator[Json]:
    """Exit codes that end the job; Kubernetes' own way to say that."""
    for policy in policies:
        if policy.exit_code is not None and policy.action in (ABORT_JOB, TERMINATE_JOB):
            codes = {"operator": "In", "values": [policy.exit_code]}
            yield {"action": "FailJob", "onExitCodes": codes}


def _notes(job: Job) -> Iterator[Note]:
    yield from annotation_notes(job.metadata.annotations)
    yield from _policy_notes("spec.policies", job.spec.policies)
    if job.spec.min_success is not None and len(job.spec.tasks) > 1:
        yield Note("spec.minSuccess", "no counterpart: a JobSet counts jobs, not pods")
    for index, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{index}]"
        yield from _policy_notes(f"{path}.policies", task.policies)
        if (task.min_available or 0) not in (0, task.replicas) and len(job.spec.tasks) > 1:
            why = "no counterpart: spec.minAvailable is counted over all tasks"
            yield Note(f"{path}.minAvailable", why)
        if task.depends_on is not None:
            why = "write spec.replicatedJobs[].dependsOn of the JobSet, which waits for jobs"
            yield Note(f"{path}.dependsOn", why)
        if task.partition_policy is not None:
            why = f"write the annotation {names.ANNOTATION_SEGMENT_SIZE} and its topology"
            yield Note(f"{path}.partitionPolicy", why)
        if task.topology_policy:
            yield Note(f"{path}.topologyPolicy", "the kubelet's own topology manager decides")
    for plugin in sorted(job.spec.plugins):
        yield Note(f"spec.plugins.{plugin}", f"use {_PLUGINS.get(plugin, 'nothing: unknown')}")
    if job.spec.volumes:
        yield Note("spec.volumes", "write the claims, and mount them in the template")
    if job.spec.network_topology is not None:
        pair = f"{names.ANNOTATION_TOPOLOGY} and {names.ANNOTATION_TOPOLOGY_REQUIRED}"
        why = f"write the annotations {pair}"
        yield Note("spec.networkTopology", why)
    if job.spec.running_estimate is not None:
        yield Note("spec.runningEstimate", "no counterpart, and of no effect")


def _policy_notes(path: str, policies: tuple[LifecyclePolicy, ...]) -> Iterator[Note]:
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        if policy.exit_code is not None and policy.action in (ABORT_JOB, TERMINATE_JOB):
            continue
        if policy.timeout is not None:
            yield Note(f"{where}.timeout", "no counterpart: spec.activeDeadlineSeconds is nearest")
        elif policy.action == RESTART_POD and set(policy.all_events) <= set(_FAILURES):
            yield Note(where, "what a Job does by itself, backoffLimit times")
        elif policy.action == RESTART_JOB and set(policy.all_events) <= set(_FAILURES):
            why = "no counterpart in a Job, which replaces single pods; a JobSet restarts whole"
            yield Note(where, why)
        elif policy.action == COMPLETE_JOB and set(policy.all_events) == {TASK_COMPLETED}:
            yield Note(where, "write spec.successPolicy of the JobSet with targetReplicatedJobs")
        else:
            said = ", ".join(policy.all_events) or f"exit code {policy.exit_code}"
            yield Note(where, f"no counterpart: {policy.action} on {said}")
