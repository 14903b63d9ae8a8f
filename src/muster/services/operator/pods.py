"""Deployments: what all services' pods have in common. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import names
from muster.api.config_defaults import METRICS_PORT
from muster.api.quantity import Quantity
from muster.services.operator.objects import DEPLOYMENT, Json, Wanted, wanted
from muster.services.operator.settings import Settings

METRICS: Final = "metrics"
"""The port of probes, metrics and debug pages."""
_GRACE_S: Final = 45
"""A service gives the parts of each phase 10 s: it ends by itself, and lets go of its lease."""
_SCRATCH: Final = "tmp"
_SCRATCH_MAX: Final = "512Mi"
"""Compiled kernels that do not fit the processor, and what libraries put aside."""


@dataclass(frozen=True, slots=True)
class Process:
    """One service as a Deployment."""

    name: str
    """Of the Deployment, its container and its app label."""
    command: str
    """`muster COMMAND`."""
    account: str
    section: str
    """Where Config speaks of it."""
    args: Sequence[str] = ()
    metrics_port: int = METRICS_PORT
    ports: Mapping[str, int] = field(default_factory=dict)
    """More ports, by name."""
    files: Mapping[str, Json] = field(default_factory=dict)
    """Volumes by where they are mounted, read-only."""
    folders: Mapping[str, Json] = field(default_factory=dict)
    """The same, to write to."""


def image_of(image: Mapping[str, Any]) -> str:
    """repository/name:tag; a digest may stand for the tag."""
    where = "/".join(part for part in (image.get("repository"), image["name"]) if part)
    tag = image.get("tag") or "latest"
    return f"{where}@{tag}" if ":" in tag else f"{where}:{tag}"


def replicas_of(process: Process, settings: Settings) -> int:
    replicas: int = settings.section(process.section).get("replicas", 1)
    return replicas


def deployment(process: Process, settings: Settings) -> Wanted:
    """Rolls without a gap: the next one is ready, or holds the lease, before the last one goes."""
    app = {names.LABEL_APP: process.name}
    gap = {"maxUnavailable": 0, "maxSurge": 1}
    if settings.everywhere["requireDefaultPodAntiAffinityTerm"]:
        # Where every node has a replica already, there is no place for one more.
        gap = {"maxUnavailable": 1, "maxSurge": 0}
    spec = {
        "replicas": replicas_of(process, settings),
        "selector": {"matchLabels": app},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": gap},
        "template": {"metadata": {"labels": app}, "spec": _pod(process, settings)},
    }
    return wanted(DEPLOYMENT, process.name, settings.names.namespace, spec=spec)


def _pod(process: Process, settings: Settings) -> Json:
    everywhere = settings.everywhere
    volumes = [
        {"name": _SCRATCH, "emptyDir": {"sizeLimit": _SCRATCH_MAX}},
        *({"name": _volume(path), **source} for path, source in _mounted(process).items()),
    ]
    pod: Json = {
        "serviceAccountName": process.account,
        "terminationGracePeriodSeconds": _GRACE_S,
        "containers": [_container(process, settings)],
        "volumes": volumes,
    }
    optional = {
        "nodeSelector": everywhere.get("nodeSelector"),
        "tolerations": everywhere.get("tolerations"),
        "affinity": _affinity(process, settings),
        "priorityClassName": everywhere.get("priorityClassName"),
        "imagePullSecrets": pull_secrets(settings),
    }
    pod.update({key: value for key, value in optional.items() if value})
    if not everywhere["openshift"]:
        pod["securityContext"] = {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **_group(process, settings),
        }
    return pod


def _group(process: Process, settings: Settings) -> Json:
    """Volumes that outlive the pod are given to the user that it runs as."""
    user = settings.everywhere["securityContext"].get("runAsUser")
    outlives = any("persistentVolumeClaim" in source for source in process.folders.values())
    return {"fsGroup": user} if outlives and user is not None else {}


def pull_secrets(settings: Settings) -> list[Json]:
    return [{"name": name} for name in settings.everywhere.get("additionalImagePullSecrets", ())]


def _container(process: Process, settings: Settings) -> Json:
    service = settings.section(process.section)["service"]
    ports = {METRICS: process.metrics_port, **process.ports}
    container: Json = {
        "name": process.name,
        "image": image_of(service["image"]),
        "imagePullPolicy": service["image"]["pullPolicy"],
        "command": ["muster", process.command],
        "args": list(process.args),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()
        ],
        "resources": _resources(service["resources"]),
        "readinessProbe": _probe("/readyz", period_s=5),
        "livenessProbe": _probe("/healthz", period_s=10),
        # A service says last why it ends; who describes its pod reads it there.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": _SCRATCH, "mountPath": "/tmp"},
            *(
                {"name": _volume(path), "mountPath": path, "readOnly": True}
                for path in process.files
            ),
            *({"name": _volume(path), "mountPath": path} for path in process.folders),
        ],
    }
    if not settings.everywhere["openshift"]:
        container["securityContext"] = settings.everywhere["securityContext"]
    return container


def _mounted(process: Process) -> Json:
    return {**process.files, **process.folders}


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _probe(path: str, period_s: int) -> Json:
    return {
        "httpGet": {"path": path, "port": METRICS},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }


def _resources(given: Mapping[str, Any]) -> Json:
    """A request above the default limit lifts the limit: nobody meant the two to collide."""
    limits = dict(given.get("limits", {}))
    for name, request in given.get("requests", {}).items():
        if name in limits and Quantity(str(request)).nano > Quantity(str(limits[name])).nano:
            limits[name] = request
    return {**given, "limits": limits} if limits else dict(given)


def _affinity(process: Process, settings: Settings) -> Json:
    """The service's own beside the global one; replicas keep apart unless somebody says how."""
    service = settings.section(process.section)["service"]
    found = {**settings.everywhere.get("affinity", {}), **service.get("affinity", {})}
    if "podAntiAffinity" in found or replicas_of(process, settings) < 2:
        return found
    term = {
        "labelSelector": {"matchLabels": {names.LABEL_APP: process.name}},
        "topologyKey": names.LABEL_HOSTNAME,
    }
    apart: Json = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }
    if settings.everywhere["requireDefaultPodAntiAffinityTerm"]:
        apart["requiredDuringSchedulingIgnoredDuringExecution"] = [term]
    return {**found, "podAntiAffinity": apart}
