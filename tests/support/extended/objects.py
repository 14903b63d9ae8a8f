"""Objects as the API server gives them, and the records that the scheduler makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.names import ANNOTATION_POD_GROUP, DEFAULT
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.model.build import (
    Identity,
    Priorities,
    job_record,
    node_record,
    queue_record,
    task_record,
)
from muster.model.pod_requirements import ReadRequirements, requirements_of
from muster.model.records import ClusterRecords

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def queue(**bounds: Mapping[str, float]) -> Queue:
    resources = {"cpu": FREE, "memory": FREE, "gpu": FREE, **bounds}
    return from_builtins(Queue, {"metadata": {"name": "q"}, "spec": {"resources": resources}})


def node(name: str, room: Mapping[str, str], labels: Mapping[str, str]) -> Node:
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110", **room}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    plain = {"metadata": {"name": name, "labels": labels}, "status": status}
    return from_builtins(Node, plain)


def pod(name: str, requests: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """A pod that waits, in a group of its own."""
    notes = {ANNOTATION_POD_GROUP: name}
    container = {"name": "main", "resources": {"requests": {"cpu": "1", **requests}}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": notes},
        "spec": {"schedulerName": DEFAULT.scheduler, "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def records(
    nodes: Sequence[Node],
    queue: Queue,
    pods: Sequence[Pod],
    read: ReadRequirements = requirements_of,
) -> ClusterRecords:
    return ClusterRecords(
        nodes=tuple(map(node_record, nodes)),
        queues=(queue_record(queue),),
        jobs=tuple(
            job_record(_group(pod.metadata.name, minute), Priorities(), {})
            for minute, pod in enumerate(pods)
        ),
        tasks=tuple(task_record(pod, Identity(), now_s=0.0, read=read) for pod in pods),
    )


def _group(name: str, minute: int) -> PodGroup:
    created = f"2026-01-01T00:{minute:02}:00Z"
    metadata = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": created}
    return from_builtins(PodGroup, {"metadata": metadata, "spec": {"queue": "q", "minMember": 1}})
