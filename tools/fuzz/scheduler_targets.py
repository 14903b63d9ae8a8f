"""What the scheduler takes in: objects, events and lists, tables, cycles."""

import json
from typing import Any, Final

from tools.fuzz import draws
from tools.fuzz.feeding import BY_NAME, KINDS, NAME_OF, Input, Refusal, Target, joined
from tools.fuzz.intake import Intake, refusals_of

from muster.api import kinds
from muster.api.codec import Failure, Unread, Unreadable, decode, decode_event, decode_page
from muster.base.rand import Rand


def _draw_object(rand: Rand) -> Input:
    kind = rand.choice(KINDS)
    body = draws.bent(rand, draws.of_kind(kind)(rand))
    return ((NAME_OF[kind], draws.spelled(rand, body)),)


def _feed_object(given: Input) -> list[Refusal]:
    ((kind, data),) = given
    try:
        decode(BY_NAME[kind].struct, data)
    except Unreadable as refused:
        return [Refusal(refused.path, refused.reason)]
    return []


def _draw_events(rand: Rand) -> Input:
    kind = rand.choice(KINDS)
    event = {
        "type": rand.choice(("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "", "x")),
        "object": draws.bent(rand, draws.of_kind(kind)(rand)),
    }
    page = {"metadata": {"resourceVersion": "1"}, "items": [event["object"], {}, {"metadata": {}}]}
    event, page = draws.bent(rand, event), draws.bent(rand, page)
    lines = ("event", draws.spelled(rand, event)), ("page", draws.spelled(rand, page))
    return (("kind", NAME_OF[kind].encode()), *lines)


def _feed_events(given: Input) -> list[Refusal]:
    (_, kind), (_, line), (_, page) = given
    struct: Any = BY_NAME[kind.decode()].struct
    found = []
    try:
        event: Any = decode_event(struct, line)
        if isinstance(event, Unread):
            found.append(Refusal(event.reject.path, event.reject.reason))
        elif isinstance(event, Failure):
            str(event.status)
    except Unreadable as refused:
        found.append(Refusal(refused.path, refused.reason))
    try:
        listed = decode_page(struct, page)
        found += [Refusal(reject.path, reject.reason) for reject in listed.rejects]
    except Unreadable as refused:
        found.append(Refusal(refused.path, refused.reason))
    return found


_INTAKE: Final = (
    kinds.POD, kinds.POD, kinds.POD, kinds.NODE, kinds.QUEUE, kinds.POD_GROUP, kinds.POD_GROUP,
    kinds.BIND_REQUEST, kinds.TOPOLOGY, kinds.PRIORITY_CLASS, kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.PERSISTENT_VOLUME, kinds.STORAGE_CLASS, kinds.CSI_NODE, kinds.CSI_DRIVER,
    kinds.CSI_STORAGE_CAPACITY, kinds.RESOURCE_CLAIM, kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS,
    kinds.NODE_RESOURCE_TOPOLOGY, kinds.POD_DISRUPTION_BUDGET, kinds.NAMESPACE,
)  # fmt: skip
_EACH: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_SOUND: Final[tuple[draws.Body, ...]] = (
    {
        "kind": "Queue",
        "metadata": {"name": "q", "uid": "q"},
        "spec": {"resources": {"cpu": _EACH, "memory": _EACH, "gpu": _EACH}},
    },
    {
        "kind": "Node",
        "metadata": {"name": "gpu-0", "uid": "n0", "labels": {"zone": "a"}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
    {
        "kind": "PodGroup",
        "metadata": {"name": "fair", "namespace": "team", "uid": "g"},
        "spec": {"queue": "q", "minMember": 1},
    },
    {
        "kind": "Pod",
        "metadata": {
            "name": "fair",
            "namespace": "team",
            "uid": "fair",
            "annotations": {"pod-group-name": "fair"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Pending"},
    },
)
"""A cluster on which somebody else waits for one core."""


def _draw_cluster(rand: Rand) -> Input:
    """Some odd objects on a sound cluster, most pods of them ours and grouped."""
    lines = []
    for _ in range(rand.randrange(1, 5)):
        kind = rand.choice(_INTAKE)
        body = draws.bent(rand, joined(rand, draws.of_kind(kind)(rand)), spare=("metadata",))
        lines.append((kind.kind, draws.spelled(rand, {"type": "ADDED", "object": body})))
    return tuple(lines)


def _feed_cluster(given: Input) -> list[Refusal]:
    intake = Intake()
    for sound in _SOUND:
        intake.hear(sound["kind"], json.dumps({"type": "ADDED", "object": sound}).encode())
    found = intake.hear_all(given)
    found += refusals_of(intake.cycle())
    intake.cycle()
    return found


def _draw_records(rand: Rand) -> Input:
    """One object for the cache, without a cycle: cheap, so there are many."""
    kind = rand.choice(_INTAKE)
    body = draws.bent(rand, joined(rand, draws.of_kind(kind)(rand)), spare=("metadata",))
    return ((kind.kind, draws.spelled(rand, {"type": "ADDED", "object": body})),)


def _feed_records(given: Input) -> list[Refusal]:
    return Intake().hear_all(given)


TARGETS: Final = (
    Target("objects", 35, _draw_object, _feed_object),
    Target("watch events and lists", 15, _draw_events, _feed_events),
    Target("cache", 10, _draw_records, _feed_records),
    Target("cache and cycle", 4, _draw_cluster, _feed_cluster),
)
