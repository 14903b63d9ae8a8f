"""The pods of a job, as they are created."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from muster.api import volcano
from muster.api.meta import OwnerReference
from muster.api.volcano_batch import (
    ANNOTATION_JOB_VERSION,
    ANNOTATION_RETRIES,
    ANNOTATION_TEMPLATE,
    LABEL_JOB,
    LABEL_JOB_NAMESPACE,
    LABEL_PARTITION,
    LABEL_QUEUE,
    LABEL_TASK_INDEX,
    Job,
    TaskSpec,
)
from muster.services.volcano.decide.frameworks import rank_note
from muster.services.volcano.decide.members import pod_name
from muster.services.volcano.decide.plugins import apply_plugins
from muster.services.volcano.decide.pod_context import PodContext

Json = dict[str, Any]

_HANDED_DOWN: Final = (
    volcano.PREEMPTABLE,
    volcano.COOLDOWN_TIME,
    volcano.REVOCABLE_ZONE,
    volcano.JDB_MIN_AVAILABLE,
    volcano.JDB_MAX_UNAVAILABLE,
)
"""Annotations and labels of a job that its pods have too."""


@dataclass(frozen=True, slots=True)
class PodsOf(Sequence[Json]):
    """Pods of a job, each built when it is taken."""

    job: Job
    places: Sequence[tuple[TaskSpec, int]]
    """Task, and index in it."""

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> Json: ...
    @overload
    def __getitem__(self, at: slice) -> "PodsOf": ...
    def __getitem__(self, at: int | slice) -> "Json | PodsOf":
        if isinstance(at, slice):
            return PodsOf(self.job, self.places[at])
        return pod_of(self.job, *self.places[at])


def pod_of(job: Job, task: TaskSpec, index: int) -> Json:
    """The pod of one index of a task."""
    template: Json = copy.deepcopy(dict(task.template))
    given: Json = dict(template.get("metadata") or {})
    name, namespace = pod_name(job, task, index), job.metadata.namespace
    own = {
        LABEL_JOB: job.metadata.name,
        LABEL_JOB_NAMESPACE: namespace,
        LABEL_QUEUE: job.spec.queue,
        volcano.ANNOTATION_TASK: task.name,
        LABEL_TASK_INDEX: str(index),
    }
    labels = {**_handed_down(job.metadata.labels), **(given.get("labels") or {}), **own}
    notes = {
        **_handed_down(job.metadata.annotations),
        **(given.get("annotations") or {}),
        **own,
        volcano.ANNOTATION_GROUP: group_name(job),
        ANNOTATION_JOB_VERSION: str(job.status.version),
        ANNOTATION_TEMPLATE: f"{job.metadata.name}-{task.name}",
        ANNOTATION_RETRIES: str(job.status.retry_count),
    }
    if task.topology_policy:
        notes[volcano.NUMA_POLICY] = task.topology_policy
    if task.partition_policy is not None:
        labels[LABEL_PARTITION] = str(index // task.partition_policy.partition_size)
    spec: Json = dict(template.get("spec") or {})
    spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        # With the node's names alone the pods of a job would not find each other.
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    _mount(spec, job)
    pod = PodContext(job, task, index, name)
    apply_plugins(spec, pod)
    notes.update(rank_note(spec, notes, pod))
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": notes,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def owner_reference(job: Job) -> Json:
    return owned_by("batch.volcano.sh/v1alpha1", "Job", job.metadata.name, job.metadata.uid)


def owned_by(api_version: str, kind: str, name: str, uid: str) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def as_owner(reference: OwnerReference) -> Json:
    return owned_by(reference.api_version, reference.kind, reference.name, reference.uid)


def claim_name(job: Job, place: int) -> str:
    return job.spec.volumes[place].volume_claim_name or f"{job.metadata.name}-volume-{place}"


def _mount(spec: Json, job: Job) -> None:
    """The volumes of the job, in every container."""
    if not job.spec.volumes:
        return
    names = [f"{job.metadata.name}-{place}" for place in range(len(job.spec.volumes))]
    sources = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim_name(job, place)}}
        for place, name in enumerate(names)
    ]
    spec["volumes"] = [*(spec.get("volumes") or ()), *sources]
    for container in spec.get("containers") or ():
        added = [
            {"name": name, "mountPath": volume.mount_path}
            for name, volume in zip(names, job.spec.volumes, strict=True)
        ]
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *added]


def _handed_down(given: Any) -> dict[str, str]:
    return {name: given[name] for name in _HANDED_DOWN if name in given}
