"""What the other services take in: reviews, and objects for controllers and binder."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from tests.support.binder_world import DECIDER, BinderWorld
from tools.fuzz import draws
from tools.fuzz.feeding import Input, Refusal, Target, joined, plain, read
from tools.fuzz.intake import NOW_S
from tools.fuzz.reviews import review_refusals

from muster.api import kinds
from muster.api.bindrequest import BindRequest
from muster.api.codec import Unreadable, builtins
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.rand import Rand
from muster.services.admission import handler
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.binder.cluster_view import Times
from muster.services.podgroups import decide as podgroups
from muster.services.queues import decide as queues
from muster.services.scaleadjuster import decide as scaleadjuster

_NOW: Final = "2026-01-02T00:00:00Z"

_PATHS: Final = {
    handler.MUTATE_POD: kinds.POD,
    handler.VALIDATE_POD: kinds.POD,
    handler.VALIDATE_QUEUE: kinds.QUEUE,
    handler.VALIDATE_POD_GROUP: kinds.POD_GROUP,
    handler.VALIDATE_TOPOLOGY: kinds.TOPOLOGY,
}


def _draw_review(rand: Rand) -> Input:
    path = rand.choice(tuple(_PATHS))
    kind = _PATHS[path]
    thing, old = (joined(rand, draws.of_kind(kind)(rand)) for _ in range(2))
    request = {
        "uid": "1",
        "operation": rand.choice(("CREATE", "UPDATE", "DELETE", "CONNECT", "")),
        "namespace": "team",
        "object": draws.bent(rand, thing),
        "oldObject": rand.choice((None, old)),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    if rand.random() < 0.2:
        review = draws.bent(rand, review)
    known = draws.bent(rand, draws.of_kind(kinds.QUEUE)(rand))
    return (
        ("path", path.encode()),
        ("strict", b"yes" if rand.random() < 0.5 else b""),
        ("Queue", draws.spelled(rand, known)),
        ("review", draws.spelled(rand, review)),
    )


def _feed_review(given: Input) -> list[Refusal]:
    (_, path), (_, strict), (_, queue), (_, data) = given
    tree = {one.metadata.name: one for one in read(Queue, queue)}
    chosen = AdmissionSettings(
        gpu_sharing=True,
        blocks_visible_devices=bool(strict),
        hami_core=bool(strict),
        validates_quotas=bool(strict),
        unknown_parent=UnknownQueue.REFUSE,
    )
    asked = handler.AdmissionHandler(
        chosen, Rand(0), queues=lambda: tree, groups_in=lambda _: ["ns/g"]
    )
    return review_refusals(asked, path, data)


_NODE: Final = {"kind": "Node", "metadata": {"name": "gpu-0"}, "status": {}}
_SCALING: Final = scaleadjuster.ScaleAdjusterSettings(
    "kai-scheduler", "scale", "app", "account", "image"
)
_UNSCHEDULABLE: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def _several(*choice: Kind[Any]) -> Callable[[Rand], Input]:
    def draw(rand: Rand) -> Input:
        drawn = [rand.choice(choice) for _ in range(rand.randrange(1, 5))]
        bodies = [(k, joined(rand, draws.of_kind(k)(rand))) for k in drawn]
        return tuple(
            (k.kind, draws.spelled(rand, draws.bent(rand, body, ("metadata", "kind"))))
            for k, body in bodies
        )

    return draw


def _feed_controllers(given: Input) -> list[Refusal]:
    groups = [one for kind, data in given if kind == "PodGroup" for one in read(PodGroup, data)]
    pods = [one for kind, data in given if kind == "Pod" for one in read(Pod, data)]
    listed = [one for kind, data in given if kind == "Queue" for one in read(Queue, data)]
    view = podgroups.PodGroupView(
        node_of=lambda _: None, claim_of=lambda *_: None, priority_of=lambda _: None
    )
    for group in groups:
        json.dumps(podgroups.status_patch(group, pods, view, _NOW))
    known = {queue.metadata.name: queue for queue in listed}
    sums, children = queues.sums_by_queue(known, groups), queues.children_by_queue(known)
    rootless = queues.rootless_by_queue(known)
    overpromised = queues.overpromised_by_queue(known, children)
    for name, queue in known.items():
        place = queues.Place(children[name], rootless[name], overpromised.get(name, ()))
        json.dumps(queues.status_patch(queue, sums[name], place, _NOW))
    return []


def _feed_scaling(given: Input) -> list[Refusal]:
    pods = [one for _, data in given for one in read(Pod, _unschedulable(data))]
    decision = scaleadjuster.decide(pods, pods[:1], NOW_S, scaleadjuster.ScalingPast(), _SCALING)
    json.dumps(decision.create)
    return []


def _unschedulable(data: bytes) -> bytes:
    body = plain(data)
    if isinstance(body.get("spec"), dict):
        body["spec"].update({"schedulerName": "kai-scheduler", "nodeName": ""})
        body["status"] = {"phase": "Pending", "conditions": [_UNSCHEDULABLE]}
    return msgspec.json.encode(body)


def _feed_binder(given: Input) -> list[Refusal]:
    world, requests = BinderWorld(_NODE), []
    for kind, data in given:
        struct: Any = _BOUND_BY_NAME[kind].struct
        for thing in read(struct, data):
            world.add({**builtins(thing), "kind": kind, "metadata": _plain_meta(thing)})
            requests += [thing] if isinstance(thing, BindRequest) else []
    for request in requests:
        try:
            DECIDER.next_move(request, world, Times(NOW_S))
            DECIDER.failed(request, "because", world, Times(NOW_S))
        except Unreadable:
            continue  # The world reads its objects anew; the informers have set this one aside.
    return []


def _plain_meta(thing: Any) -> draws.Body:
    found: draws.Body = msgspec.json.decode(msgspec.json.encode(thing.metadata))
    return {"name": "x", **found}


_WORKERS: Final = _several(kinds.POD_GROUP, kinds.POD, kinds.QUEUE)
_BOUND_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.BIND_REQUEST,
    kinds.BIND_REQUEST,
    kinds.POD,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.PERSISTENT_VOLUME,
    kinds.STORAGE_CLASS,
    kinds.RESOURCE_CLAIM,
    kinds.CONFIG_MAP,
)
_BOUND_BY_NAME: Final = {kind.kind: kind for kind in _BOUND_KINDS}
_BOUND: Final = _several(*_BOUND_KINDS)


TARGETS: Final = (
    Target("admission reviews", 10, _draw_review, _feed_review),
    Target("controllers", 4, _WORKERS, _feed_controllers),
    Target("scale adjuster", 2, _several(kinds.POD), _feed_scaling),
    Target("binder", 3, _BOUND, _feed_binder),
)
