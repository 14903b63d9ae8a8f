"""Warnings to whoever writes a Job or a JobSet whose gang could never start. Nothing is refused.

The API server asks only about workloads with the annotation, and stores them when we are away.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api import names
from muster.base.parse_int import parse_int
from muster.services.admission.review import ALLOWED, AdmissionResponse, Object, Review

_KEY = names.ANNOTATION_BATCH_MIN_MEMBER


def validate_workload(review: Review) -> AdmissionResponse:
    """What is odd about the minimum that a workload asks for."""
    thing = review.thing
    if review.operation not in ("CREATE", "UPDATE") or thing is None:
        return ALLOWED
    if review.old is not None and _said(review.old) == _said(thing):
        return ALLOWED
    return AdmissionResponse((), tuple(_warnings(thing)))


def _warnings(thing: Object) -> Iterator[str]:
    said, of_pods = _said(thing)
    if said is None and of_pods is not None and thing.get("kind") == "Job":
        yield (
            f"spec.template.metadata.annotations[{_KEY}]: does nothing on pods, and the Job starts "
            "with one; write it in metadata.annotations of the Job"
        )
    if said is None:
        return
    where = f"metadata.annotations[{_KEY}]"
    minimum = parse_int(str(said))
    if minimum is None:
        yield (
            f'{where}: "{str(said)[:40]}" is no whole number, and no pod will be scheduled; write '
            'the pods that must start together, such as "2"'
        )
    elif thing.get("kind") == "JobSet" and minimum < 1:
        yield (
            f"{where}: {minimum} replicated jobs are none, and no pod will be scheduled; write how "
            "many of them must start together, at least 1"
        )
    elif thing.get("kind") == "Job" and minimum > _most_pods(thing):
        most = _most_pods(thing)
        yield (
            f"{where}: the gang would need {minimum} pods at once, and spec.parallelism and "
            f"spec.completions make at most {most}, so it can never start; write {most} or less"
        )


def _said(thing: Object) -> tuple[Any, Any]:
    """The minimum that the workload asks for, and that its pods would."""
    return _asked(thing), _asked(_below(thing, "spec", "template"))


def _asked(thing: Object) -> Any:
    return _below(thing, "metadata", "annotations").get(_KEY)


def _below(thing: Object, *path: str) -> Object:
    """What stands there, or nothing: of kinds that nobody here knows any field may be anything."""
    for key in path:
        found = thing.get(key)
        thing = found if isinstance(found, Mapping) else {}
    return thing


def _most_pods(job: Object) -> int:
    """How many of its pods are there at once."""
    spec = _below(job, "spec")
    counts = (spec.get("parallelism"), spec.get("completions"))
    return min((count for count in counts if isinstance(count, int)), default=1)
