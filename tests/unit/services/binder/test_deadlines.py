"""An attempt to bind ends when its time is up, whatever its steps and its reads do."""

import asyncio
import json
from typing import Any, TypeVar

import pytest
from tests.support.binder_world import BinderWorld
from tests.support.scheduler_world import FakeServer
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import Changed, from_builtins
from muster.api.kinds import Kind
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import Unreachable
from muster.client.informer import Informer
from muster.client.read import EVERYTHING, Selection, Transform
from muster.client.transport import InProcessTransport, Request
from muster.runtime.parts import ended
from muster.runtime.supervisor import Supervisor
from muster.services.binder.cluster_view import Times
from muster.services.binder.decide import Decider, GiveUp
from muster.services.binder.settings import BinderSettings
from muster.services.binder.wiring import BinderServiceConfig, build, preparations

T = TypeVar("T")
SETTINGS = BinderSettings(bind_timeout_s=60.0)
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "spec": {}}


class HandFilled(Supervisor):
    """Keeps its informers by kind, the first of each, for a test to fill."""

    made: dict[str, Informer[Any]]

    def informer(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        transform: Transform[T] | None = None,
        is_optional: bool = False,
    ) -> Informer[T]:
        informer = super().informer(kind, selection, transform, is_optional)
        self.__dict__.setdefault("made", {}).setdefault(kind.kind, informer)
        return informer

    def show(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            informer = self.made[body["kind"]]
            informer._apply(Changed("ADDED", from_builtins(informer.kind.struct, body)))


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "uid": "pod", "resourceVersion": "1"}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}], **spec}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def request(**more: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "uid": "request", "resourceVersion": "2"}
    spec = {"podName": "p", "selectedNode": "n1", "receivedResourceType": "Regular", **more}
    return {"kind": "BindRequest", "metadata": metadata, "spec": spec}


DISK = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "disk", "namespace": "team", "uid": "disk"},
    "spec": {"storageClassName": "late"},
    "status": {"phase": "Pending"},
}
LATE = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "example.com/disk",
    "volumeBindingMode": "WaitForFirstConsumer",
}
ON_DISK = pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}])
GPU = {
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "team", "uid": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu"}]}},
}
GROUPED = pod(
    schedulingGroup={"podGroupName": "g"},
    resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}],
)
_DEVICE = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "request": "gpu"}
DECIDED = request(
    resourceClaimAllocations=[
        {"name": "gpu", "allocation": {"devices": {"results": [_DEVICE]}}},
    ]
)


@pytest.mark.parametrize(
    ("about", "objects", "unread"),
    [
        (request(), [ON_DISK, DISK, LATE], "persistentvolumeclaims"),
        (DECIDED, [GROUPED, GPU], "podgroups"),
    ],
    ids=["its volume claims", "its group"],
)
def test_an_attempt_ends_in_time_though_what_it_needs_can_never_be_read(
    about: dict[str, Any], objects: list[dict[str, Any]], unread: str
) -> None:
    async def scenario() -> None:
        server = FakeServer()

        def react(asked: Request) -> Exception | None:
            return Unreachable("reset") if f"/{unread}" in asked.path else None

        server.react = react
        server.stored["/apis/scheduling.run.ai/v1alpha2/namespaces/team/bindrequests/p"] = about
        connection = Connection(InProcessTransport(server.handle), LoopClock(), Rand(1))
        supervisor = HandFilled("binder", connection, log=Log("t", MemorySink()))
        build(supervisor, BinderServiceConfig(SETTINGS))
        supervisor.show(NODE, *objects, about)
        parts = [asyncio.create_task(part.run()) for _, part in supervisor._parts]
        await asyncio.sleep(SETTINGS.bind_timeout_s - 1.0)
        assert notes(server) == []
        await asyncio.sleep(70.0)  # Reads that fail are tried again at ever longer pauses.
        assert notes(server)[:1] == ["Failed"]
        await ended(parts)

    virtually(scenario())


def notes(server: FakeServer) -> list[str]:
    """What was noted on the request, in order."""
    bodies = [
        json.loads(asked.body)
        for asked in server.requests
        if asked.method == "PATCH" and asked.path.endswith("/bindrequests/p/status")
    ]
    return [body["status"]["phase"] for body in bodies]


@pytest.mark.parametrize(("now_s", "is_given_up"), [(59.9, False), (60.0, True)])
def test_an_attempt_is_given_up_at_its_deadline_though_a_step_has_things_to_write(
    now_s: float, is_given_up: bool
) -> None:
    """Somebody may undo each of its writes."""
    world = BinderWorld(NODE, ON_DISK, request(), DISK, LATE)
    decider = Decider(preparations(SETTINGS), SETTINGS)
    move = decider.next_move(world.request(), world, Times(now_s))
    assert isinstance(move, GiveUp) is is_given_up
    if isinstance(move, GiveUp):
        assert "not prepared within 60 s: " in move.why
