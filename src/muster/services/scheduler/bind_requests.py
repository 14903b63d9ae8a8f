"""How a decided pod gets to its node: by a BindRequest, or bound directly. Exchangeable."""

from typing import Protocol

from muster.api import names
from muster.api.bindrequest import BindRequest, BindRequestSpec
from muster.api.core import Pod
from muster.api.devices import AllocationResult
from muster.api.kinds import BIND_REQUEST
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import surroundings
from muster.base.spans import Collect, Span, uncollected
from muster.client.errors import AlreadyExists, NotFound
from muster.client.limits import Lane
from muster.client.read import Reader
from muster.client.write import Deletion, Writer
from muster.engine.plan import Bind
from muster.model.charges import Charge
from muster.model.records import GpuRequest
from muster.services.scheduler.manifests import (
    bind_request,
    decided_devices,
    needs_no_preparation,
    resource_type,
)
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import BindRequests, Options


class Binder(Protocol):
    """Writes a bind decision, and withdraws it. Raises what the API server answers."""

    async def bind(
        self, pod: Pod, bind: Bind, gpu: GpuRequest, charge: Charge | None = None
    ) -> None:
        """`charge` is who pays for the pod."""
        ...

    async def delete(self, request: Key, uid: str) -> bool:
        """Delete that very request; whether it was there."""
        ...

    async def withdraw(self, pod: Key, pod_uid: str, node: str) -> bool:
        """Delete the request, if there is one, that puts that very pod on this node."""
        ...


class RequestBinder:
    """Writes BindRequests; pods that need no preparation it binds directly, if it may.

    A request that is there already is looked at before anything is done to it, and deleted only by
    its uid: what another scheduler decided about the pod is never taken for our own.
    """

    def __init__(self, writer: Writer, options: Options) -> None:
        self._writer = writer
        self._reader = Reader(writer.connection)
        self._options = options

    async def bind(
        self, pod: Pod, bind: Bind, gpu: GpuRequest, charge: Charge | None = None
    ) -> None:
        if self._is_bound_directly(pod, bind, gpu):
            # With the pod's own annotations, as Volcano's binding has them.
            received = {names.ANNOTATION_RECEIVED_RESOURCE_TYPE: resource_type(gpu)}
            notes = {**pod.metadata.annotations, **received, **bind.pod_annotations}
            await self._writer.bind(pod.key, bind.node, uid=pod.metadata.uid, annotations=notes)
            return
        body = bind_request(pod, bind, gpu, self._options, charge)
        try:
            await self._writer.create(BIND_REQUEST, body, pod.metadata.namespace, lane=Lane.URGENT)
        except AlreadyExists as there:
            found = await self._found(pod.key)
            if found is not None:
                if _is_same_decision(found, pod, bind):
                    return  # Ours: the answer to an earlier attempt was lost.
                if found.is_live_for(pod.metadata.uid):
                    raise there  # Another's, and alive: the watch will show it, and it counts.
                await self.delete(pod.key, found.metadata.uid)
            await self._writer.create(BIND_REQUEST, body, pod.metadata.namespace, lane=Lane.URGENT)

    def _is_bound_directly(self, pod: Pod, bind: Bind, gpu: GpuRequest) -> bool:
        allowed = self._options.bind_requests is BindRequests.NEEDED
        return allowed and needs_no_preparation(pod, bind, gpu)

    async def delete(self, request: Key, uid: str) -> bool:
        try:
            await self._writer.delete(BIND_REQUEST, request, Deletion(uid=uid))
        except NotFound:
            return False
        return True

    async def withdraw(self, pod: Key, pod_uid: str, node: str) -> bool:
        found = await self._found(pod)
        if found is None or not found.is_for(pod_uid) or found.spec.selected_node != node:
            return False
        return await self.delete(pod, found.metadata.uid)

    async def _found(self, pod: Key) -> BindRequest | None:
        try:
            return await self._reader.get(BIND_REQUEST, pod)
        except NotFound:
            return None


def _is_same_decision(found: BindRequest, pod: Pod, bind: Bind) -> bool:
    spec = found.spec
    return (
        found.is_live_for(pod.metadata.uid)
        and spec.selected_node == bind.node
        and spec.selected_gpu_groups == tuple(bind.gpu_shares)
        and _devices(spec) == decided_devices(bind)
    )


def _devices(spec: BindRequestSpec) -> dict[str, AllocationResult]:
    found = {
        one.name: one.allocation
        for one in spec.resource_claim_allocations
        if one.allocation is not None
    }
    by_name = spec.extended_resource_claim_allocation
    if by_name is not None and by_name.allocation is not None:
        found[""] = by_name.allocation
    return found


def _span(pod: Pod, bind: Bind, created_s: float, now_s: float, write_s: float) -> Span:
    """A pod from its creation until its binding, or the request for it, was written."""
    decided_s = max(now_s - write_s, created_s)
    about = {
        "k8s.namespace.name": pod.metadata.namespace,
        "k8s.pod.name": pod.metadata.name,
        "k8s.pod.uid": pod.metadata.uid,
        "k8s.node.name": bind.node,
        "podgroup": bind.job,
        **surroundings(),
    }
    parts = (Span("wait", created_s, decided_s), Span("bind", decided_s, now_s))
    return Span("pod", created_s, now_s, about, parts)


class TimedBinder:
    """Another binder, with meters of how long it takes and how long pods waited for it."""

    def __init__(
        self,
        binder: Binder,
        meters: SchedulerMeters,
        clock: Clock,
        collect: Collect = uncollected,
    ) -> None:
        self._binder = binder
        self._meters = meters
        self._clock = clock
        self._collect = collect

    async def bind(
        self, pod: Pod, bind: Bind, gpu: GpuRequest, charge: Charge | None = None
    ) -> None:
        started_s = self._clock.monotonic_s()
        await self._binder.bind(pod, bind, gpu, charge)
        self._meters.bind_ms.observe((self._clock.monotonic_s() - started_s) * 1000)
        created = pod.metadata.creation_timestamp
        if created is not None:
            self._meters.task_ms.observe((self._clock.now_s() - created.timestamp()) * 1000)
            if self._collect is not uncollected:
                took_s = self._clock.monotonic_s() - started_s
                self._collect(_span(pod, bind, created.timestamp(), self._clock.now_s(), took_s))

    async def delete(self, request: Key, uid: str) -> bool:
        return await self._binder.delete(request, uid)

    async def withdraw(self, pod: Key, pod_uid: str, node: str) -> bool:
        return await self._binder.withdraw(pod, pod_uid, node)
