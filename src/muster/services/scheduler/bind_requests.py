"""How a decided pod gets to its node: by a BindRequest, or bound directly. Exchangeable."""

from typing import Protocol

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import BIND_REQUEST
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.errors import AlreadyExists, NotFound
from muster.client.limits import Lane
from muster.client.write import Deletion, Writer
from muster.engine.plan import Bind
from muster.model.records import GpuRequest
from muster.services.scheduler.manifests import bind_request, needs_no_preparation, resource_type
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options


class Binder(Protocol):
    """Writes a bind decision, and withdraws it. Raises what the API server answers."""

    async def bind(self, pod: Pod, bind: Bind, gpu: GpuRequest) -> None: ...

    async def withdraw(self, pod: Key, uid: str = "") -> bool:
        """Whether there was a request. `uid`: only if it is that very request."""
        ...


class RequestBinder:
    """Writes BindRequests; if the options say so, binds pods that need no preparation directly."""

    def __init__(self, writer: Writer, options: Options) -> None:
        self._writer = writer
        self._options = options

    async def bind(self, pod: Pod, bind: Bind, gpu: GpuRequest) -> None:
        if self._options.binds_directly and needs_no_preparation(pod, bind, gpu):
            # With the pod's own annotations, as Volcano's binding has them.
            received = {names.ANNOTATION_RECEIVED_RESOURCE_TYPE: resource_type(gpu)}
            notes = {**pod.metadata.annotations, **received}
            await self._writer.bind(pod.key, bind.node, uid=pod.metadata.uid, annotations=notes)
            return
        body = bind_request(pod, bind, gpu, self._options)
        try:
            await self._writer.create(BIND_REQUEST, body, pod.metadata.namespace, lane=Lane.URGENT)
        except AlreadyExists:
            # One of an earlier attempt: it must go before another can be made.
            await self.withdraw(pod.key)
            await self._writer.create(BIND_REQUEST, body, pod.metadata.namespace, lane=Lane.URGENT)

    async def withdraw(self, pod: Key, uid: str = "") -> bool:
        try:
            await self._writer.delete(BIND_REQUEST, pod, Deletion(uid=uid))
        except NotFound:
            return False
        return True


class TimedBinder:
    """Another binder, with meters of how long it takes and how long pods waited for it."""

    def __init__(self, binder: Binder, meters: SchedulerMeters, clock: Clock) -> None:
        self._binder = binder
        self._meters = meters
        self._clock = clock

    async def bind(self, pod: Pod, bind: Bind, gpu: GpuRequest) -> None:
        started_s = self._clock.monotonic_s()
        await self._binder.bind(pod, bind, gpu)
        self._meters.bind_ms.observe((self._clock.monotonic_s() - started_s) * 1000)
        created = pod.metadata.creation_timestamp
        if created is not None:
            self._meters.task_ms.observe((self._clock.now_s() - created.timestamp()) * 1000)

    async def withdraw(self, pod: Key, uid: str = "") -> bool:
        return await self._binder.withdraw(pod, uid)
