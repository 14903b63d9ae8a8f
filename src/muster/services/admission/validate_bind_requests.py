"""Bind requests are the scheduler's: whoever may write one puts any pod on any node and device."""

from muster.services.admission.review import ALLOWED, AdmissionResponse, Review, refused
from muster.services.admission.settings import AdmissionSettings


def validate_bind_request(review: Review, settings: AdmissionSettings) -> AdmissionResponse:
    """Others may touch what we do not read: finalizers and owners, as garbage collection does."""
    if review.operation not in ("CREATE", "UPDATE") or review.by.is_trusted(
        settings.services_namespace
    ):
        return ALLOWED
    if review.old is not None and _read(review.old) == _read(review.thing or {}):
        return ALLOWED
    return refused(
        "spec",
        f"spec: bind requests are written by the scheduler, not by {review.by.name or 'others'}; "
        "create pods, and it will place them",
        "create pods, and the scheduler will place them",
    )


def _read(request: object) -> object:
    """What the binder and the scheduler read of a request."""
    if not isinstance(request, dict):
        return request
    metadata = request.get("metadata") or {}
    return request.get("spec"), metadata.get("annotations") or {}, metadata.get("labels") or {}
