"""Plays recorded admission reviews through the pure functions of the admission service."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.services.admission.mutate import Mutated, mutate_pod
from muster.services.admission.review import ALLOWED, AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_pod_groups import validate_pod_group
from muster.services.admission.validate_pods import validate_pod
from muster.services.admission.validate_queues import validate_queue
from muster.services.admission.validate_topologies import validate_topology

_SUFFIX = "zq7zq7z"
_WEBHOOKS = (
    "pod-mutate",
    "pod-validate",
    "topology-validate",
    "queue-validate",
    "podgroup-validate",
)


def cases(folder: Path) -> Iterator[Mapping[str, Any]]:
    for webhook in _WEBHOOKS:
        path = folder / f"{webhook}.json"
        if path.exists():
            yield from json.loads(path.read_text())


def play(case: Mapping[str, Any]) -> dict[str, Any]:
    """Our answer, in the words of the case."""
    request, settings = case["request"], _settings(case["flags"])
    review = Review(
        request["operation"],
        request.get("object"),
        request.get("oldObject"),
        request.get("namespace") or "",
    )
    match case["webhook"]:
        case "pod-mutate":
            return _mutation(review, settings)
        case "pod-validate":
            return _shown(validate_pod(review, settings))
        case "topology-validate":
            return _shown(validate_topology(review))
        case "podgroup-validate":
            return _shown(validate_pod_group(review))
        case "queue-validate":
            existing = [from_builtins(Queue, one) for one in case.get("existing") or []]
            queues = {one.metadata.name: one for one in existing}
            return _shown(validate_queue(review, settings, queues))
        case other:
            raise AssertionError(f"unknown webhook {other}")


def expected(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the original answered; texts of unreadable objects are its decoder's and left out."""
    wanted = {
        key: value
        for key, value in case["expected"].items()
        if key in ("allowed", "message", "warnings", "code", "reason", "patched", "changed")
    }
    if wanted.get("code") == 400:
        del wanted["message"]
    return wanted


def _mutation(review: Review, settings: AdmissionSettings) -> dict[str, Any]:
    if review.operation == "DELETE":
        return _shown(ALLOWED)
    mutated = mutate_pod(review, settings, _SUFFIX)
    if not isinstance(mutated, Mutated):
        return _shown(mutated)
    patched = json.loads(json.dumps(mutated.pod).replace(_SUFFIX, "<random7>"))
    return {**_shown(ALLOWED), "changed": mutated.pod != review.thing, "patched": patched}


def _shown(answer: AdmissionResponse) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "allowed": answer.allowed,
        "message": answer.message,
        "warnings": list(answer.warnings),
    }
    if not answer.allowed:
        shown |= {"code": answer.code, "reason": answer.reason}
    if answer.code == 400:
        del shown["message"]
    return shown


def _settings(flags: list[str]) -> AdmissionSettings:
    given = dict(flag.lstrip("-").partition("=")[::2] for flag in flags)
    old_class = given.get("gpu-pod-runtime-class-name", "nvidia")
    return AdmissionSettings(
        scheduler_name=given.get("scheduler-name", "kai-scheduler"),
        gpu_sharing=given.get("gpu-sharing-enabled") == "true",
        blocks_visible_devices=given.get("block-nvidia-visible-devices") == "true",
        runtime_class=given.get("gpu-fraction-runtime-class-name", old_class),
        hami_core=given.get("hami-core-enabled") == "true",
        validates_quotas=given.get("enable-quota-validation") == "true",
    )
