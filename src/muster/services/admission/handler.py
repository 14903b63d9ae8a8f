"""AdmissionReview in, AdmissionReview out: which review goes to which check, and the response.

Values only; the server puts it behind HTTPS, and tests and the laptop cluster call it directly.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from muster.api.core import Pod
from muster.base.rand import Rand
from muster.services.admission.decode import decode_object
from muster.services.admission.mutate import Mutated, json_patch, mutate_pod
from muster.services.admission.review import (
    ALLOWED,
    AdmissionResponse,
    Author,
    Object,
    Review,
    unreadable,
)
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_bind_requests import validate_bind_request
from muster.services.admission.validate_pod_groups import validate_pod_group
from muster.services.admission.validate_pods import validate_pod
from muster.services.admission.validate_queues import Queues, queue_surprises, validate_queue
from muster.services.admission.validate_topologies import validate_topology
from muster.services.admission.validate_workloads import validate_workload
from muster.services.admission.volcano import mutate as volcano_mutate
from muster.services.admission.volcano import registration as volcano_paths
from muster.services.admission.volcano import validate as volcano_validate
from muster.services.admission.volcano.cluster import VolcanoCluster

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SUFFIX_SIZE = 7

MUTATE_POD = "/mutate--v1-pod"
VALIDATE_POD = "/validate--v1-pod"
VALIDATE_TOPOLOGY = "/validate-kai-scheduler-v1alpha1-topology"
VALIDATE_QUEUE = "/validate-scheduling-run-ai-v2-queue"
VALIDATE_BIND_REQUEST = "/validate-scheduling-run-ai-v1alpha2-bindrequest"
VALIDATE_POD_GROUP = "/validate-scheduling-run-ai-v2alpha2-podgroup"
VALIDATE_WORKLOAD = "/validate-workload"


@dataclass(frozen=True, slots=True)
class AdmissionHandler:
    """Answers reviews. What it knows of the cluster comes from two functions."""

    settings: AdmissionSettings
    rand: Rand
    queues: Callable[[], Queues]
    """All queues by name, as plain objects."""
    groups_in: Callable[[str], list[str]]
    """Pod groups of a queue, as namespace/name."""
    volcano: VolcanoCluster | None = None
    """Where Volcano's kinds are served."""

    def answer(self, path: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """The review with its answer; None for a path that nobody serves."""
        handler = self._handlers().get(path)
        if handler is None:
            return None
        request = document.get("request")
        request = request if isinstance(request, Mapping) else {}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": str(request.get("uid") or ""), **self._respond(handler, request)},
        }

    def _respond(
        self, handler: Callable[[Review], dict[str, Any]], request: Mapping[str, Any]
    ) -> dict[str, Any]:
        review = Review(
            operation=str(request.get("operation") or ""),
            thing=request.get("object"),
            old=request.get("oldObject"),
            namespace=str(request.get("namespace") or ""),
            by=_author(request.get("userInfo")),
        )
        try:
            return handler(review)
        except (TypeError, AttributeError, KeyError, ValueError, RecursionError) as malformed:
            # Whatever somebody posts, the answer is an answer: the object is not what it says.
            return to_review(_unread(review, malformed))

    def _handlers(self) -> dict[str, Callable[[Review], dict[str, Any]]]:
        return {
            MUTATE_POD: self._mutate,
            VALIDATE_POD: self._validate_pod,
            VALIDATE_TOPOLOGY: lambda review: to_review(validate_topology(review)),
            VALIDATE_POD_GROUP: lambda review: to_review(validate_pod_group(review, self.queues())),
            VALIDATE_QUEUE: self._validate_queue,
            VALIDATE_WORKLOAD: lambda review: to_review(validate_workload(review)),
            VALIDATE_BIND_REQUEST: lambda review: to_review(
                validate_bind_request(review, self.settings)
            ),
            **(self._volcano_handlers(self.volcano) if self.volcano is not None else {}),
        }

    def _volcano_handlers(
        self, cluster: VolcanoCluster
    ) -> dict[str, Callable[[Review], dict[str, Any]]]:
        changes: dict[str, Callable[[Review], Object | AdmissionResponse]] = {
            volcano_paths.MUTATE_JOB: volcano_mutate.mutated_job,
            volcano_paths.MUTATE_QUEUE: volcano_mutate.mutated_queue,
            volcano_paths.MUTATE_GROUP: lambda review: volcano_mutate.mutated_group(
                review, cluster
            ),
        }
        checks: dict[str, Callable[[Review, VolcanoCluster], AdmissionResponse]] = {
            volcano_paths.VALIDATE_JOB: volcano_validate.validate_job,
            volcano_paths.VALIDATE_CRON_JOB: volcano_validate.validate_cron_job,
            volcano_paths.VALIDATE_JOB_FLOW: volcano_validate.validate_job_flow,
            volcano_paths.VALIDATE_GROUP: volcano_validate.validate_pod_group,
            volcano_paths.VALIDATE_QUEUE: volcano_validate.validate_queue,
            volcano_paths.VALIDATE_POD: volcano_validate.validate_pod,
        }
        found = {path: partial(_changed, change) for path, change in changes.items()}
        return found | {path: partial(_checked, check, cluster) for path, check in checks.items()}

    def _mutate(self, review: Review) -> dict[str, Any]:
        if review.operation == "DELETE" or review.thing is None:
            return to_review(ALLOWED)
        suffix = "".join(self.rand.choice(_LETTERS) for _ in range(_SUFFIX_SIZE))
        mutated = mutate_pod(review, self.settings, suffix)
        if not isinstance(mutated, Mutated):
            return to_review(mutated)
        return _patched(review.thing, mutated.pod, AdmissionResponse((), mutated.warnings))

    def _validate_pod(self, review: Review) -> dict[str, Any]:
        return to_review(validate_pod(review, self.settings, self.queues()))

    def _validate_queue(self, review: Review) -> dict[str, Any]:
        name = ((review.old or review.thing or {}).get("metadata") or {}).get("name") or ""
        used_by = self.groups_in(name) if review.operation == "DELETE" else []
        answer = validate_queue(review, self.settings, self.queues(), used_by)
        if answer.allowed:
            answer = replace(answer, warnings=(*answer.warnings, *queue_surprises(review)))
        return to_review(answer)


def _changed(
    change: Callable[[Review], Object | AdmissionResponse], review: Review
) -> dict[str, Any]:
    if review.operation == "DELETE" or review.thing is None:
        return to_review(ALLOWED)
    after = change(review)
    if isinstance(after, AdmissionResponse):
        return to_review(after)
    return _patched(review.thing, after, ALLOWED)


def _checked(
    check: Callable[[Review, VolcanoCluster], AdmissionResponse],
    cluster: VolcanoCluster,
    review: Review,
) -> dict[str, Any]:
    return to_review(check(review, cluster))


def _patched(before: Object, after: Object, answer: AdmissionResponse) -> dict[str, Any]:
    patch, allowed = json_patch(before, after), to_review(answer)
    if not patch:
        return allowed
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {**allowed, "patchType": "JSONPatch", "patch": encoded}


def _author(user: object) -> Author:
    if not isinstance(user, Mapping):
        return Author()
    groups = user.get("groups")
    listed = groups if isinstance(groups, list | tuple) else ()
    return Author(str(user.get("username") or ""), tuple(str(one) for one in listed))


def _unread(review: Review, error: Exception) -> AdmissionResponse:
    """The first field of the object, or of the older one, that has a wrong type."""
    given: tuple[tuple[str, Any], ...] = (("object", review.thing), ("oldObject", review.old))
    for where, thing in given:
        if thing is not None and not isinstance(thing, Mapping):
            return unreadable(where, f"{where}: it is no object")
        answer = decode_object(Pod, thing)
        if isinstance(answer, AdmissionResponse):
            return answer
    return unreadable("object", f"object: it cannot be read: {error}")


def to_review(answer: AdmissionResponse) -> dict[str, Any]:
    """An answer as the API server reads it; causes name each field and what to write instead."""
    found: dict[str, Any] = {"allowed": answer.allowed}
    if answer.warnings:
        found["warnings"] = list(answer.warnings)
    if not answer.allowed:
        causes = [
            {
                "reason": "FieldValueInvalid",
                "field": problem.field,
                "message": f"{problem.message}; {problem.fix}",
            }
            for problem in answer.problems
        ]
        found["status"] = {
            "status": "Failure",
            "message": answer.sentence,
            "reason": answer.reason,
            "code": answer.code,
            "details": {"causes": causes},
        }
    return found
