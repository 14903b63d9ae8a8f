"""What we write on a pod when it is placed: nobody else writes it.

The scheduler and the binder do not believe these marks where they know better. Yet people, and
programs of others, read them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api import names
from muster.services.admission.review import AdmissionProblem, Object, Review
from muster.services.admission.settings import AdmissionSettings

_DEVICE_NOTES = (names.ANNOTATION_RECEIVED_RESOURCE_TYPE, names.ANNOTATION_NUMA_PREDICTED)
"""Annotations of the binder."""
_GROUP_NOTES = (names.ANNOTATION_POD_GROUP,)
"""Annotations that are anybody's until the pod is placed."""


def change_problems(review: Review, settings: AdmissionSettings) -> Iterator[AdmissionProblem]:
    """Marks of a placed pod that somebody else would change."""
    pod, old = review.thing or {}, review.old
    if old is None or not _holds_node(old) or review.by.is_trusted(settings.services_namespace):
        return
    for part, is_mark in (("labels", _is_label), ("annotations", _is_annotation)):
        before, now = _entries(old, part), _entries(pod, part)
        for key in sorted(before.keys() | now.keys()):
            if is_mark(key) and before.get(key) != now.get(key):
                yield _problem(f"metadata.{part}[{key}]", before.get(key), now.get(key))


def without_device_marks(pod: Object) -> tuple[Object, tuple[str, ...]]:
    """A new pod without marks that say which devices it has, and what was taken."""
    metadata = pod.get("metadata") or {}
    taken: list[str] = []
    for part, is_mark in (("labels", is_gpu_group), ("annotations", _DEVICE_NOTES.__contains__)):
        marks = [key for key in _entries(pod, part) if is_mark(key)]
        if marks:
            kept = {key: value for key, value in metadata[part].items() if key not in marks}
            metadata = {**metadata, part: kept}
            taken += [f"metadata.{part}[{key}]" for key in marks]
    return ({**pod, "metadata": metadata}, tuple(taken)) if taken else (pod, ())


def is_gpu_group(key: str) -> bool:
    return key == names.LABEL_GPU_GROUP or key.startswith(names.LABEL_GPU_GROUP_PREFIX)


def _is_label(key: str) -> bool:
    return is_gpu_group(key) or key == names.LABEL_SUBGROUP


def _is_annotation(key: str) -> bool:
    return key in _DEVICE_NOTES or key in _GROUP_NOTES


def _holds_node(pod: Object) -> bool:
    has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool((pod.get("spec") or {}).get("nodeName")) and not has_ended


def _entries(pod: Object, part: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (pod.get("metadata") or {}).get(part) or {}
    return found


def _problem(field: str, before: object, now: object) -> AdmissionProblem:
    was, wanted = (f'"{value}"' if value is not None else "nothing" for value in (before, now))
    message = f"the scheduler placed the pod with {was}, which cannot become {wanted} while it runs"
    fix = "delete the pod and create it as it shall be"
    return AdmissionProblem(field, message, fix, f"{field}: {message}; {fix}")
