"""Pod -> the pod as it must be to run here. Pure; the server turns the difference into a patch.

A pod that shares a GPU learns which one through two config maps that the binder fills before the
pod starts; the references to them are put in here, when the pod is created.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api import names
from muster.services.admission.gpu_sharing import (
    MIG_PREFIX,
    WHOLE_GPU,
    ContainerRef,
    annotations,
    containers,
    quantities,
    shares_gpu,
    sharing_container,
    unknown_container,
)
from muster.services.admission.placed_pods import without_device_marks
from muster.services.admission.review import AdmissionResponse, Object, Review, refused
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.spare_room import on_spare, wants_spare

VISIBLE_DEVICES = names.ENV_VISIBLE_DEVICES
_FROM_CONFIG_MAP = (VISIBLE_DEVICES, names.ENV_NUM_OF_GPUS, names.ENV_GPU_PORTION)
_MEMORY_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
_RESERVATION_POD = "gpu-reservation"
# A config map's name serves as a volume name too, hence the 63 characters of a label.
_NAME_SIZE = 63
_ROOM_FOR_SUFFIXES = len("-xxxxxxx-shared-gpu") + len("-evar") + len("-vol") + 1


@dataclass(frozen=True, slots=True)
class Mutated:
    """The pod to store."""

    pod: Object
    warnings: tuple[str, ...] = ()


def mutate_pod(
    review: Review, settings: AdmissionSettings, name_suffix: str
) -> Mutated | AdmissionResponse:
    """The pod to store, or a refusal. `name_suffix` tells this pod's config maps from others'."""
    pod = review.thing or {}
    if (pod.get("spec") or {}).get("schedulerName") != settings.scheduler_name:
        return Mutated(pod)
    namespace = (pod.get("metadata") or {}).get("namespace") or ""
    if namespace and review.namespace and namespace != review.namespace:
        return refused(
            "metadata.namespace",
            f"error: the namespace from the provided object {namespace} does not match the "
            f"namespace {review.namespace}",
            f"write {review.namespace}, or nothing",
        )
    pod, taken = without_device_marks(pod)
    warnings = tuple(f"{field}: taken away, for the binder writes it" for field in taken)
    if not namespace and review.namespace:
        pod = _with_metadata(pod, namespace=review.namespace)
    if shares_gpu(pod):
        shared = _with_shared_gpu(pod, settings, name_suffix)
        if isinstance(shared, AdmissionResponse):
            return shared
        pod = shared
    if wants_spare(pod):
        moved = on_spare(pod)
        if isinstance(moved, AdmissionResponse):
            return moved
        pod = moved
    if settings.blocks_visible_devices:
        pod = _with_devices_hidden(pod)
    return Mutated(_with_runtime_class(pod, settings.runtime_class), warnings)


def json_patch(old: Object, new: Object) -> list[dict[str, Any]]:
    """The JSON patch from one object to another: whole values, one level into maps at a time."""
    return list(_differences("", old, new))


def _with_shared_gpu(
    pod: Object, settings: AdmissionSettings, name_suffix: str
) -> Object | AdmissionResponse:
    ref = sharing_container(pod)
    if ref is None:
        unknown = unknown_container(pod)
        return pod if unknown is None else AdmissionResponse((unknown,))
    base = annotations(pod).get(names.ANNOTATION_SHARED_GPU_CONFIG_MAP)
    if base is None:
        base = f"{_base_name(pod, ref)}-{name_suffix}-shared-gpu"
        pod = _with_metadata(
            pod, annotations={**annotations(pod), names.ANNOTATION_SHARED_GPU_CONFIG_MAP: base}
        )
    config_map = f"{base}-{ref.suffix}"
    pod = _with_container(pod, ref, lambda one: _sharing(one, config_map, settings.hami_core))
    volume = {"name": volume_name(config_map), "configMap": {"name": config_map}}
    spec = dict(pod["spec"])
    spec["volumes"] = _replaced(spec.get("volumes") or [], [volume])
    return {**pod, "spec": spec}


def volume_name(config_map: str) -> str:
    """A name that may stand in a volume list: lower case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9-]+", "-", f"{config_map}-vol".lower()).strip("-")


def _base_name(pod: Object, ref: ContainerRef) -> str:
    metadata = pod.get("metadata") or {}
    owners = metadata.get("ownerReferences") or []
    # A name that the server will make is not known yet; its stem is.
    own = metadata.get("name") or (metadata.get("generateName") or "").rstrip("-.") or "pod"
    base = str(owners[0].get("name") or own) if owners else str(own)
    limit = _NAME_SIZE - _ROOM_FOR_SUFFIXES - len(str(ref.index))
    return base[:limit].rstrip(".-")


def _sharing(container: Mapping[str, Any], config_map: str, hami_core: bool) -> dict[str, Any]:
    variables = [_from_config_map(name, config_map) for name in _FROM_CONFIG_MAP]
    if hami_core:
        variables.append(_from_config_map(_MEMORY_LIMIT, config_map, optional=True))
    evar = {"configMapRef": {"name": f"{config_map}-evar", "optional": False}}
    sources = list(container.get("envFrom") or [])
    return {
        **container,
        "env": _replaced(container.get("env") or [], variables),
        "envFrom": sources if evar in sources else [*sources, evar],
    }


def _from_config_map(name: str, config_map: str, optional: bool = False) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": config_map, "key": name}
    if optional:
        reference["optional"] = True
    return {"name": name, "valueFrom": {"configMapKeyRef": reference}}


def _with_devices_hidden(pod: Object) -> Object:
    exempt = sharing_container(pod) if shares_gpu(pod) else None
    for ref, container in containers(pod):
        if ref != exempt and not _requests_gpu(container):
            pod = _with_container(pod, ref, _void)
    return pod


def _requests_gpu(container: Mapping[str, Any]) -> bool:
    has_claim = bool((container.get("resources") or {}).get("claims"))
    return has_claim or any(
        (name == WHOLE_GPU or name.startswith(MIG_PREFIX)) and str(amount) not in ("0", "")
        for name, amount in quantities(container, "requests").items()
    )


def _void(container: Mapping[str, Any]) -> dict[str, Any]:
    """Every variable of that name set to `void`, in its place; one added where there is none."""
    hidden = {"name": VISIBLE_DEVICES, "value": "void"}
    variables = container.get("env") or []
    if not any(variable.get("name") == VISIBLE_DEVICES for variable in variables):
        return {**container, "env": [*variables, hidden]}
    kept = [
        _voided(variable) if variable.get("name") == VISIBLE_DEVICES else variable
        for variable in variables
    ]
    return {**container, "env": kept}


def _voided(variable: Mapping[str, Any]) -> Mapping[str, Any]:
    # A reference is left for validation to refuse by name: with a value beside it, the API server
    # would refuse the pod first, in words that do not say why.
    return variable if "valueFrom" in variable else {**variable, "value": "void"}


def _with_runtime_class(pod: Object, runtime_class: str) -> Object:
    name = str((pod.get("metadata") or {}).get("name") or "")
    spec = pod.get("spec") or {}
    is_concerned = shares_gpu(pod) and not name.startswith(_RESERVATION_POD)
    if not runtime_class or not is_concerned or spec.get("runtimeClassName"):
        return pod
    return {**pod, "spec": {**spec, "runtimeClassName": runtime_class}}


def _with_metadata(pod: Object, **parts: Any) -> Object:
    return {**pod, "metadata": {**(pod.get("metadata") or {}), **parts}}


def _with_container(pod: Object, ref: ContainerRef, change: Any) -> Object:
    spec = dict(pod["spec"])
    listed = list(spec[ref.field])
    listed[ref.index] = change(listed[ref.index])
    spec[ref.field] = listed
    return {**pod, "spec": spec}


def _replaced(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """`old` without entries named like the new ones, then the new ones."""
    names = {entry["name"] for entry in new}
    return [entry for entry in old if entry.get("name") not in names] + list(new)


def _differences(path: str, old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in new:
                yield {"op": "remove", "path": here}
            elif key not in old:
                yield {"op": "add", "path": here, "value": new[key]}
            else:
                yield from _differences(here, old[key], new[key])
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}
