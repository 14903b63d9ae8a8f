"""What the controllers know of pods, owners and templates."""

import json
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from muster.api.coordination import ObjectReference
from muster.api.core import ENDED_PHASES
from muster.client.kinds import Plain, header, plain_kind

POD: Final = plain_kind("", "v1", "Pod", "pods")
NODE: Final = plain_kind("", "v1", "Node", "nodes", namespaced=False)
LEASE: Final = plain_kind("coordination.k8s.io", "v1", "Lease", "leases")
REPLICA_SET: Final = plain_kind("apps", "v1", "ReplicaSet", "replicasets")
DEPLOYMENT: Final = plain_kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET: Final = plain_kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET: Final = plain_kind("apps", "v1", "DaemonSet", "daemonsets")
JOB: Final = plain_kind("batch", "v1", "Job", "jobs")
CRON_JOB: Final = plain_kind("batch", "v1", "CronJob", "cronjobs")
BUDGET: Final = plain_kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
QUOTA: Final = plain_kind("", "v1", "ResourceQuota", "resourcequotas")
CLAIM: Final = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME: Final = plain_kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS: Final = plain_kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
RESOURCE_CLAIM: Final = plain_kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATE: Final = plain_kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
# No vowels and nothing that looks like another letter, so that no word appears by accident.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def owner_reference(owner: Plain, api_version: str, kind: str) -> dict[str, Any]:
    meta = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Plain) -> Mapping[str, Any] | None:
    """The owner reference of the controller that made the object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Mapping[str, Any] = reference
            return found
    return None


def pod_of(owner: Plain, reference: Mapping[str, Any], template: Mapping[str, Any]) -> Plain:
    """A pod of a template, named after its owner by the server."""
    meta = template.get("metadata") or {}
    metadata = {
        "generateName": owner["metadata"]["name"] + "-",
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": list(meta.get("finalizers") or ()),
        "ownerReferences": [dict(reference)],
    }
    kept = {name: value for name, value in metadata.items() if value}
    return {"metadata": kept, "spec": json.loads(json.dumps(template.get("spec") or {}))}


def is_terminating(obj: Plain) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def phase(pod: Plain) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def has_ended(pod: Plain) -> bool:
    return phase(pod) in ENDED_PHASES


def is_active(pod: Plain) -> bool:
    """Neither ended nor about to go."""
    return not has_ended(pod) and not is_terminating(pod)


def condition_of(obj: Plain, kind: str) -> Mapping[str, Any]:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Mapping[str, Any] = condition
            return found
    return {}


def is_ready(pod: Plain) -> bool:
    return condition_of(pod, "Ready").get("status") == "True" and not is_terminating(pod)


def available_in_s(pod: Plain, min_ready_s: float, now_s: float) -> float | None:
    """How long until a ready pod counts as available (0: now); None while it is not ready."""
    if not is_ready(pod):
        return None
    since = condition_of(pod, "Ready").get("lastTransitionTime")
    if not min_ready_s or not since:
        return 0.0
    return max(min_ready_s - (now_s - seconds_of(since)), 0.0)


def seconds_of(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def created_s(obj: Plain) -> float:
    at = obj["metadata"].get("creationTimestamp")
    return seconds_of(at) if at else 0.0


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for a template: equal templates have equal hashes, in every process."""
    number = zlib.crc32(json.dumps(template, sort_keys=True, separators=(",", ":")).encode())
    letters = ""
    while number or not letters:
        number, place = divmod(number, len(_LETTERS))
        letters += _LETTERS[place]
    return letters


def with_condition(
    obj: Plain, kind: str, status: str, reason: str, message: str, now: str
) -> list[dict[str, Any]]:
    """The conditions of an object with one of them set; its time changes only with its status."""
    old = [dict(each) for each in (obj.get("status") or {}).get("conditions") or ()]
    before = next((each for each in old if each.get("type") == kind), {})
    entry = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before.get("lastTransitionTime")
        if before.get("status") == status
        else now,
    }
    kept = [each for each in old if each.get("type") != kind]
    return [*kept, before | {key: value for key, value in entry.items() if value}]


def reference(thing: Plain, api_version: str, kind: str) -> ObjectReference:
    """For events about it."""
    key = header(thing).key
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        namespace=key.namespace,
        name=key.name,
        uid=str(thing["metadata"]["uid"]),
    )
