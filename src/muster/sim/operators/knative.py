"""A Knative Service: its newest revision, and the Deployment that serves it. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count
from muster.sim.workloads.objects import DEPLOYMENT, owner_reference

SERVICE: Final = plain_kind("serving.knative.dev", "v1", "Service", "services")
REVISION: Final = plain_kind("serving.knative.dev", "v1", "Revision", "revisions")
_SERVING: Final = "serving.knative.dev"
_SCALING: Final = "autoscaling.knative.dev"
_PROXY: Final = {
    "name": "queue-proxy",
    "image": "queue-proxy",
    "resources": {"requests": {"cpu": "25m"}},
}
"""What Knative puts beside every container that serves, as it is installed."""


def revision_of(service: Plain) -> Child:
    template, name = service["spec"].get("template") or {}, service["metadata"]["name"]
    meta = template.get("metadata") or {}
    metadata = {
        "name": meta.get("name") or f"{name}-00001",
        "labels": {
            **(meta.get("labels") or {}),
            f"{_SERVING}/configuration": name,
            f"{_SERVING}/service": name,
        },
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [owner_reference(service, service["apiVersion"], "Service")],
    }
    return Child(REVISION, {"metadata": metadata, "spec": copied(template.get("spec") or {})})


def deployment_of(revision: Plain) -> Child:
    meta = revision["metadata"]
    name = meta["name"]
    labels = {**meta["labels"], f"{_SERVING}/revision": name, "app": name}
    pod = copied(revision["spec"])
    pod["containers"] = [*(pod.get("containers") or ()), copied(_PROXY)]
    spec = {
        "replicas": first_scale(meta["annotations"]),
        "selector": {"matchLabels": {f"{_SERVING}/revision": name}},
        "template": {
            "metadata": {"labels": labels, "annotations": meta["annotations"]},
            "spec": pod,
        },
    }
    metadata = {
        "name": f"{name}-deployment",
        "labels": labels,
        "annotations": meta["annotations"],
        "ownerReferences": [owner_reference(revision, revision["apiVersion"], "Revision")],
    }
    return Child(DEPLOYMENT, {"metadata": metadata, "spec": spec})


def first_scale(annotations: Mapping[str, Any]) -> int:
    """How many pods a revision begins with; traffic changes it later."""
    least, first = (
        annotations.get(f"{_SCALING}/{name}") for name in ("min-scale", "initial-scale")
    )
    return max(count(least, 0), count(first))
