"""What a pod asks of a shared GPU, read from its annotations, and the container that gets it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.api import names
from muster.services.admission.review import AdmissionProblem, Object

FRACTION = names.ANNOTATION_GPU_FRACTION
MEMORY = names.ANNOTATION_GPU_MEMORY
DEVICES = names.ANNOTATION_GPU_FRACTION_DEVICES
CONTAINER = names.ANNOTATION_GPU_FRACTION_CONTAINER
MPS = names.ANNOTATION_MPS
WHOLE_GPU = names.RESOURCE_NVIDIA_GPU
MIG_PREFIX = names.RESOURCE_MIG_PREFIX
OTHER_VENDORS = (names.RESOURCE_AMD_GPU,)


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """A container of a pod: which list it is in, and where."""

    field: str
    index: int

    @property
    def suffix(self) -> str:
        """What tells this container's config map from another's."""
        return f"i{self.index}" if self.field == "initContainers" else str(self.index)

    @property
    def path(self) -> str:
        return f"spec.{self.field}[{self.index}]"


def annotations(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    return found


def shares_gpu(pod: Object) -> bool:
    """A request counts by the presence of its annotation, whatever its value."""
    return FRACTION in annotations(pod) or MEMORY in annotations(pod)


def containers(pod: Object) -> list[tuple[ContainerRef, Mapping[str, Any]]]:
    """All containers, init containers first."""
    spec = pod.get("spec") or {}
    return [
        (ContainerRef(field, index), container)
        for field in ("initContainers", "containers")
        for index, container in enumerate(spec.get(field) or [])
    ]


def sharing_container(pod: Object) -> ContainerRef | None:
    """The container that gets the shared GPU; None when the pod names one that it lacks."""
    named = annotations(pod).get(CONTAINER)
    if named is None:
        has_any = bool((pod.get("spec") or {}).get("containers"))
        return ContainerRef("containers", 0) if has_any else None
    for ref, container in containers(pod):
        if container.get("name") == named:
            return ref
    return None


def unknown_container(pod: Object) -> AdmissionProblem | None:
    """A pod that shares a GPU names a container that it does not have."""
    named = annotations(pod).get(CONTAINER)
    has_any = bool((pod.get("spec") or {}).get("containers"))
    if named is None or not has_any or not shares_gpu(pod) or sharing_container(pod) is not None:
        return None
    listed = ", ".join(str(container.get("name")) for _, container in containers(pod))
    return AdmissionProblem(
        f"metadata.annotations[{CONTAINER}]",
        f"failed to get fraction container ref: container with name {named} not found for "
        "fraction request",
        f"name one of the pod's containers ({listed}), or leave the annotation out for the first",
    )


def quantities(container: Mapping[str, Any], which: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (container.get("resources") or {}).get(which) or {}
    return found
