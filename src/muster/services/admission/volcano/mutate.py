"""What Volcano's webhooks fill in: defaults of jobs, the root of queues, the queue of groups."""

from typing import Any

from muster.api.volcano import (
    ANNOTATION_QUEUE,
    DEFAULT_QUEUE,
    HIERARCHY,
    HIERARCHY_WEIGHTS,
    ROOT_QUEUE,
    PodGroup,
    Queue,
)
from muster.api.volcano_batch import Job
from muster.api.volcano_defaults import default_changes
from muster.services.admission.decode import decode_object
from muster.services.admission.review import AdmissionResponse, Object, Review
from muster.services.admission.volcano.cluster import VolcanoCluster

Json = dict[str, Any]


def mutated_job(review: Review) -> Object | AdmissionResponse:
    """The job with its defaults written out."""
    job = decode_object(Job, review.thing)
    if isinstance(job, AdmissionResponse) or review.thing is None:
        return job if isinstance(job, AdmissionResponse) else {}
    changes = default_changes(job)
    tasks = changes.pop("tasks", None)
    spec: Json = {**(review.thing.get("spec") or {}), **changes}
    if tasks is not None:
        spec["tasks"] = [{**one, **more} for one, more in zip(spec["tasks"], tasks, strict=True)]
    return {**review.thing, "spec": spec}


def mutated_queue(review: Review) -> Object | AdmissionResponse:
    queue = decode_object(Queue, review.thing)
    if isinstance(queue, AdmissionResponse) or review.thing is None:
        return queue if isinstance(queue, AdmissionResponse) else {}
    spec: Json = dict(review.thing.get("spec") or {})
    if queue.spec.reclaimable is None:
        spec["reclaimable"] = True
    if not spec.get("weight"):
        spec["weight"] = 1
    if not queue.spec.parent and queue.metadata.name != ROOT_QUEUE:
        spec["parent"] = ROOT_QUEUE
    changed = {**review.thing, "spec": spec}
    path = queue.metadata.annotations.get(HIERARCHY)
    if path and path.split("/")[0] != ROOT_QUEUE:
        meta: Json = dict(changed.get("metadata") or {})
        weights = queue.metadata.annotations.get(HIERARCHY_WEIGHTS, "")
        whole = {HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}
        meta["annotations"] = {**queue.metadata.annotations, **whole}
        changed["metadata"] = meta
    return changed


def mutated_group(review: Review, cluster: VolcanoCluster) -> Object | AdmissionResponse:
    """A group that names no queue gets that of its namespace."""
    group = decode_object(PodGroup, review.thing)
    if isinstance(group, AdmissionResponse) or review.thing is None:
        return group if isinstance(group, AdmissionResponse) else {}
    where = review.namespace or group.metadata.namespace
    queue = cluster.annotations_of(where).get(ANNOTATION_QUEUE)
    if group.spec.queue not in ("", DEFAULT_QUEUE) or not queue:
        return review.thing
    return {**review.thing, "spec": {**(review.thing.get("spec") or {}), "queue": queue}}
