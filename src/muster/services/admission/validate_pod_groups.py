"""Sub-group trees that make sense: leaves count pods, inner groups count their parts."""

import json
from collections.abc import Mapping
from typing import Any

from muster.api.podgroup import PodGroup
from muster.api.queue_access import closed_queue, is_open_to
from muster.api.validation.pod_groups import (
    disruption_problems,
    running_problems,
    subgroup_problems,
)
from muster.api.validation.problems import Problem, Problems
from muster.services.admission.decode import answer_of, decode_object
from muster.services.admission.review import (
    ALLOWED,
    AdmissionResponse,
    Review,
    unreadable,
    with_sentence,
)
from muster.services.admission.validate_queues import NO_QUEUES, Queues

_INT32 = range(-(2**31), 2**31)


def validate_pod_group(review: Review, queues: Queues = NO_QUEUES) -> AdmissionResponse:
    """A broken tree hides everything else; then all problems of leaves and inner groups. `queues`
    are those that exist, by name.
    """
    if review.operation not in ("CREATE", "UPDATE"):
        return ALLOWED
    malformed = _malformed((review.thing or {}).get("spec") or {})
    if malformed:
        return malformed
    group = decode_object(PodGroup, review.thing)
    if isinstance(group, AdmissionResponse):
        return group
    is_update = review.operation == "UPDATE"
    older = decode_object(PodGroup, review.old) if is_update and review.old is not None else None
    before = older if isinstance(older, PodGroup) else None
    moved = running_problems(group, before, queues) if before is not None else ()
    if before is None or before.spec.queue != group.spec.queue:
        closed = list(_closed_queue(group, review.namespace, queues))
        if closed:
            return AdmissionResponse(tuple(map(with_sentence, closed)))
    return answer_of([*subgroup_problems(group, is_update), *disruption_problems(group), *moved])


def _closed_queue(group: PodGroup, namespace: str, queues: Queues) -> Problems:
    where = namespace or group.metadata.namespace
    if not is_open_to(where, group.spec.queue, queues):
        yield Problem("spec.queue", *closed_queue(where, group.spec.queue))


def _malformed(spec: Mapping[str, Any]) -> AdmissionResponse | None:
    """Numbers that no schema would let through, from a server that asks before it checks."""
    holders = [("spec", spec)]
    holders += [
        (f"spec.subGroups[{index}]", part) for index, part in enumerate(spec.get("subGroups") or [])
    ]
    for path, holder in holders:
        for field in ("minMember", "minSubGroup"):
            value = holder.get(field)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_number and value in _INT32):
                where = f"{path}.{field}"
                return unreadable(where, f"{where}: {json.dumps(value)} is not a 32-bit integer")
    return None
