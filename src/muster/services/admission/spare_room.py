"""A pod that runs on what others leave: its requests for CPU and memory become requests for spare.

They stay in it as limits, so that it takes no more than it asked for. With requests of 0 it is
neither guaranteed nor best-effort: the kernel gives it what nobody else wants, and takes it first.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.api import names
from muster.api.quantity import BadQuantity, Quantity
from muster.services.admission.gpu_sharing import annotations, containers, quantities
from muster.services.admission.review import AdmissionResponse, Object, refused

_FIELD: Final = f"metadata.annotations[{names.ANNOTATION_ON_SPARE}]"
_SPARE: Final = {
    names.RESOURCE_CPU: names.RESOURCE_SPARE_CPU,
    names.RESOURCE_MEMORY: names.RESOURCE_SPARE_MEMORY,
}


def wants_spare(pod: Object) -> bool:
    return annotations(pod).get(names.ANNOTATION_ON_SPARE) == "true"


def on_spare(pod: Object) -> Object | AdmissionResponse:
    """The pod with its requests moved; a refusal where that would break what it was promised."""
    if (pod.get("spec") or {}).get("resources"):
        return refused(
            "spec.resources",
            "requests of the whole pod cannot be moved to spare room",
            f"write them on its containers, or take {names.ANNOTATION_ON_SPARE} off",
        )
    spec, guaranteed = dict(pod["spec"]), True
    for ref, container in containers(pod):
        try:
            moved, is_guaranteed = _moved(container)
        except BadQuantity as error:
            return refused(f"{ref.path}.resources", str(error), "write an amount like 500m or 2Gi")
        guaranteed = guaranteed and is_guaranteed
        listed = list(spec[ref.field])
        listed[ref.index] = moved
        spec[ref.field] = listed
    if guaranteed:
        return refused(
            _FIELD,
            "a guaranteed pod was promised all that it asks for and does not run on spare room",
            "ask for less CPU or memory than its limits, or take the annotation off",
        )
    return {**pod, "spec": spec}


def _moved(container: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The container, and whether it is guaranteed as it was written."""
    requests = dict(quantities(container, "requests"))
    limits = dict(quantities(container, "limits"))
    is_guaranteed = True
    for name, spare in _SPARE.items():
        asked = Quantity(requests.get(name, limits.get(name, 0)))
        bound = Quantity(limits.get(name, 0))
        is_guaranteed = is_guaranteed and asked == bound and bound.nano > 0
        if asked.nano <= 0:
            continue
        amount = asked.milli if name == names.RESOURCE_CPU else asked.value
        limits.setdefault(name, str(asked))
        requests[name] = "0"
        requests[spare] = limits[spare] = str(amount)
    resources = {**(container.get("resources") or {}), "requests": requests, "limits": limits}
    return {**container, "resources": resources}, is_guaranteed
