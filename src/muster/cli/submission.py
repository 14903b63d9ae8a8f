"""A Job as flags describe it, as the manifest that says the same."""

from dataclasses import dataclass, fields
from typing import Any

from muster.api import names


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for; amounts are of each pod."""

    name: str = ""
    queue: str = ""
    image: str = ""
    pods: int = 1
    minimum: int = 1
    gpus: int = 0
    gpu_fraction: float = 0.0
    cpu: str = ""
    memory: str = ""
    rack: str = ""
    """TOPOLOGY/LEVEL: all in one domain of it."""
    priority: str = ""
    time: str = ""
    command: tuple[str, ...] = ()

    def flags(self) -> list[str]:
        """Those that were given."""
        said = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        if self.minimum == self.pods and "minimum" in said:
            said.remove("minimum")  # nobody wrote it: it follows the pods
        words = {"minimum": "--min", "command": "-- COMMAND"}
        return [words.get(name, f"--{name.replace('_', '-')}") for name in said]

    def missing(self) -> list[str]:
        """Flags without which there is nothing to start, or that do not go together."""
        found = [f"--{field}" for field in ("name", "queue", "image") if not getattr(self, field)]
        if self.gpus and self.gpu_fraction:
            found.append("--gpus or --gpu-fraction, one of them")
        if self.gpu_fraction and not 0 < self.gpu_fraction < 1:
            found.append("--gpu-fraction above 0 and below 1")
        if self.rack and not all(self.rack.partition("/")):
            found.append("--rack TOPOLOGY/LEVEL")
        if self.minimum > self.pods:
            found.append("--min at most --pods")
        return found


def job_manifest(wish: Wish) -> dict[str, Any]:
    """A gang of equal pods: it starts with its minimum or not at all."""
    names_known = names.DEFAULT
    annotations = {names.ANNOTATION_BATCH_MIN_MEMBER: str(wish.minimum)}
    if wish.time:
        annotations[names.ANNOTATION_EXPECTED_RUNTIME] = wish.time
    if wish.rack:
        topology, _, level = wish.rack.partition("/")
        annotations[names.ANNOTATION_TOPOLOGY] = topology
        annotations[names.ANNOTATION_TOPOLOGY_REQUIRED] = level
    labels = {names_known.queue_label: wish.queue}
    if wish.priority:
        labels["priorityClassName"] = wish.priority
    notes = {names.ANNOTATION_GPU_FRACTION: f"{wish.gpu_fraction:g}"} if wish.gpu_fraction else {}
    container: dict[str, Any] = {"name": "main", "image": wish.image}
    if wish.command:
        container["command"] = list(wish.command)
    if resources := _resources(wish):
        container["resources"] = resources
    spec = {
        "schedulerName": names_known.scheduler,
        "restartPolicy": "Never",
        "containers": [container],
    }
    if wish.priority:
        spec["priorityClassName"] = wish.priority
    # Of its own: what is shared is printed as a reference.
    metadata = {"labels": {**labels}, **({"annotations": notes} if notes else {})}
    template: dict[str, Any] = {"metadata": metadata, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": wish.name, "labels": labels, "annotations": annotations},
        "spec": {
            "parallelism": wish.pods,
            "completions": wish.pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": template,
        },
    }


def _resources(wish: Wish) -> dict[str, Any]:
    requests = {
        name: value for name, value in (("cpu", wish.cpu), ("memory", wish.memory)) if value
    }
    found: dict[str, Any] = {"requests": requests} if requests else {}
    if wish.gpus:
        found["limits"] = {names.RESOURCE_NVIDIA_GPU: str(wish.gpus)}
    return found
