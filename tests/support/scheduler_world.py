"""The scheduler service as it is wired, on local copies that a test fills by hand.

There is no API server behind it: requests end in `FakeServer`, which remembers them and answers as
told. Nothing happens but what the test makes happen.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.support.lab import BY_REQUEST
from tests.support.scripted import Answer, refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import Changed, from_builtins
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock, VirtualClock
from muster.base.log import Log, MemorySink
from muster.base.offload import Offload, inline
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.read import EVERYTHING, Listing, Selection, Transform
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer
from muster.model.records import NodeRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.runtime.parts import ended
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.loop import SchedulingLoop
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.services.scheduler.wiring import build

T = TypeVar("T")
Body = dict[str, Any]
Reaction = Callable[[Request], Answer | Exception | None]


@dataclass
class FakeServer:
    """Remembers what it is asked, and agrees, unless `react` has another answer."""

    react: Reaction = lambda _: None
    requests: list[Request] = field(default_factory=list)
    stored: dict[str, Body] = field(default_factory=dict)
    """What a GET of a path gives; the bind requests that were made are among it."""
    version: int = 1000

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        reaction = self.react(request)
        if isinstance(reaction, Exception):
            raise reaction
        return reaction or self._agree(request)

    def _agree(self, request: Request) -> Answer:
        if request.method == "GET":
            found = self.stored.get(request.path)
            return said(found) if found else refused(404, "NotFound")
        self.version += 1
        body = json.loads(request.body) if request.body else {}
        metadata = {**(body.get("metadata") or {})} if isinstance(body, dict) else {}
        if request.path.endswith("/bindrequests"):
            made = {**body, "metadata": {"uid": f"request-{self.version}", **metadata}}
            self.stored[f"{request.path}/{metadata['name']}"] = made
        elif request.method == "DELETE" and "/bindrequests/" in request.path:
            self.stored.pop(request.path, None)
        return said({"metadata": {**metadata, "resourceVersion": str(self.version)}})

    def written(self, part: str = "") -> list[tuple[str, str, Any]]:
        """(method, path, body) of every write whose path has this in it; events are left out, and
        what is said of queues unless they are asked for.
        """
        return [
            (request.method, request.path, json.loads(request.body) if request.body else None)
            for request in self.requests
            if request.method != "GET"
            and part in request.path
            and "/events" not in request.path
            and ("/queues/" in part or "/queues/" not in request.path)
        ]

    def events(self, reason: str) -> list[Body]:
        bodies = [json.loads(r.body) for r in self.requests if r.path.endswith("/events")]
        return [body for body in bodies if body.get("reason") == reason]


class _HandFilled(Supervisor):
    """Keeps its informers by kind, for a test to fill."""

    made: dict[str, Informer[Any]]

    def informer(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        transform: Transform[T] | None = None,
        is_optional: bool = False,
    ) -> Informer[T]:
        informer = super().informer(kind, selection, transform, is_optional)
        self.__dict__.setdefault("made", {})[kind.kind] = informer
        return informer


class SchedulerWorld:
    """The service, its fake server, and short ways to fill and to look."""

    def __init__(
        self,
        options: Options | None = None,
        conf_file: Path | None = None,
        offload: Offload = inline,
        clock: Clock | None = None,
        conf_map: Key | None = None,
    ) -> None:
        self.server = FakeServer()
        self.clock = clock or _clock()
        self.log = MemorySink()
        connection = Connection(InProcessTransport(self.server.handle), self.clock, Rand(1))
        log = Log("test", self.log)
        self.recorder = Recorder(Writer(connection), "kai-scheduler", log=log)
        self.supervisor = _HandFilled("scheduler", connection, log=log, recorder=self.recorder)
        self.loop: SchedulingLoop = build(
            self.supervisor,
            SchedulerServiceConfig(
                options or BY_REQUEST, conf_file, conf_map=conf_map, offload=offload
            ),
        )
        self._version = 0

    @property
    def cache(self) -> SchedulerCache:
        return self.loop._cache

    def informer(self, kind: str) -> Informer[Any]:
        return self.supervisor.made[kind]

    def show(self, *bodies: Body) -> None:
        """The watch shows these, new or changed."""
        for body in bodies:
            informer = self.informer(body["kind"])
            informer._apply(Changed("MODIFIED", self._read(informer, body)))

    def hide(self, body: Body) -> None:
        """The watch shows that it is gone."""
        informer = self.informer(body["kind"])
        informer._apply(Changed("DELETED", self._read(informer, body)))

    def relist(self, kind: str, *bodies: Body) -> None:
        """The watch had broken off; this is all there is."""
        informer = self.informer(kind)
        found = [self._read(informer, body) for body in bodies]
        informer._apply(Listing(objects=found, resource_version="1"))

    def snapshot(self) -> ClusterSnapshot:
        return self.cache.snapshot(self.clock.now_s())

    def task(self, name: str) -> TaskRecord:
        """How the pod counts now."""
        snapshot = self.snapshot()
        return snapshot.tasks.records[snapshot.tasks.row[name]]

    def statuses(self) -> dict[str, TaskStatus]:
        records = self.snapshot().to_records().tasks
        return {record.uid: record.status for record in records}

    def idle_gpus(self) -> dict[str, int]:
        """Free GPUs of each node, in thousandths of one."""
        snapshot = self.snapshot()
        column = snapshot.axis.column["gpu"]
        idle = snapshot.nodes.idle[:, column].tolist()
        return dict(zip(snapshot.nodes.names, idle, strict=True))

    def node_record(self, name: str) -> NodeRecord:
        nodes = self.snapshot().nodes
        return nodes.records[nodes.row[name]]

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """With the parts that write in the background: status, resync, events."""
        parts = [part for _, part in self.supervisor._parts if part is not self.loop]
        tasks = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield
        finally:
            await ended(tasks)

    async def settle(self) -> None:
        """Until everything in the background has had its turn."""
        await asyncio.sleep(0.1)

    async def binder_has_heard(self) -> None:
        """Until nobody acts any more on a request that was withdrawn."""
        await asyncio.sleep(6.0)

    def _read(self, informer: Informer[Any], body: Body) -> Any:
        self._version += 1
        transform = informer.reflector._transform or (lambda found: found)
        metadata = {"resourceVersion": str(self._version), **body["metadata"]}
        return transform(from_builtins(informer.kind.struct, {**body, "metadata": metadata}))


def _clock() -> Clock:
    """The running loop's time; without one, time stands still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return VirtualClock()
    return LoopClock()


def node(name: str, gpus: int = 8, labels: Mapping[str, str] | None = None, **more: Any) -> Body:
    conditions = more.pop("conditions", [{"type": "Ready", "status": "True"}])
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": dict(labels or {})},
        "spec": more,
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


def pod(name: str, gpus: int = 1, group: str = "", node: str = "", **more: Any) -> Body:
    """A pod of ours, alone in a group of its own name unless told otherwise; uid is its name."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "labels": more.pop("labels", {}),
        "annotations": {"pod-group-name": group or name, **more.pop("annotations", {})},
        **more.pop("metadata", {}),
    }
    spec: Body = {
        "schedulerName": more.pop("scheduler", "kai-scheduler"),
        "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
        **more.pop("spec", {}),
    }
    if node:
        spec["nodeName"] = node
    status = {"phase": more.pop("phase", "Running" if node else "Pending")}
    status |= more.pop("status", {})
    assert not more, f"unknown wishes: {more}"
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def group(name: str, minimum: int = 1, **more: Any) -> Body:
    metadata = {"name": name, "namespace": "team", "uid": f"group-{name}"}
    metadata |= more.pop("metadata", {})
    status = more.pop("status", {})
    spec = {"queue": "q", "minMember": minimum, **more}
    return {"kind": "PodGroup", "metadata": metadata, "spec": spec, "status": status}


def queue(name: str = "q", parent: str = "", labels: Mapping[str, str] | None = None) -> Body:
    each = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Body = {"resources": {"cpu": each, "memory": each, "gpu": each}}
    if parent:
        spec["parentQueue"] = parent
    return {"kind": "Queue", "metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def request(name: str, node: str, **more: Any) -> Body:
    metadata = {"name": name, "namespace": "team", "uid": f"request-{name}"}
    metadata |= more.pop("metadata", {})
    status = more.pop("status", {})
    spec = {"podName": name, "selectedNode": node, **more}
    return {"kind": "BindRequest", "metadata": metadata, "spec": spec, "status": status}


Story = Callable[[SchedulerWorld], Awaitable[None]]


def told(scenario: Story, options: Options | None = None) -> SchedulerWorld:
    """The world after the story, which is told while the background parts run."""

    async def main() -> SchedulerWorld:
        world = SchedulerWorld(options)
        async with world.writing():
            await scenario(world)
            await world.settle()
        return world

    return virtually(main())
