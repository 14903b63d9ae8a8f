"""pods/binding: a pod gets its node, once."""

from typing import Any

from muster.base.timefmt import rfc3339
from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.refusal import (
    ApiRefusal,
    conflict,
    invalid,
    not_found,
)
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import StoredEntry, VersionChanged

_BINDING_TYPE = "io.k8s.api.core.v1.Binding"
_BINDING = ServedKind("", "v1", "bindings", "Binding")
_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Bindings:
    """A pod gets its node."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._writes = server.writes

    async def bind(self, call: ApiCall) -> ApiResponse:
        return await self._bound(call, bodies.read_typed(call, _BINDING_TYPE))

    async def bind_by_name(self, call: ApiCall) -> ApiResponse:
        binding = bodies.read_typed(call, _BINDING_TYPE)
        call.name = binding["metadata"].get("name", "")
        pods = self._server.kinds.find("", "v1", "pods")
        assert pods is not None
        call.kind = pods
        return await self._bound(call, binding)

    async def _bound(self, call: ApiCall, binding: Object) -> ApiResponse:
        target = binding.get("target") or {}
        node = target.get("name") or ""
        if target.get("kind") not in (None, "", "Node"):
            cause = Cause.unsupported("target.kind", target["kind"], ("Node", "<empty>"))
            raise invalid(_BINDING, call.name, [cause])
        if not node:
            raise ApiRefusal(500, "", "target.name: Required value")
        await self._admit_binding(call, binding)
        for _ in range(8):
            entry = self._store.entry("pods", call.key)
            if entry is None:
                raise not_found(call.kind, call.name)
            pod = self._assigned(call, entry, node, binding)
            if call.dry_run:
                break
            try:
                self._store.write("pods", call.key, pod, entry)
                break
            except VersionChanged:
                continue
        await self._store.sync()
        return json_answer(_CREATED, 201)

    async def _admit_binding(self, call: ApiCall, binding: Object) -> None:
        if self._store.entry("pods", call.key) is None:
            raise not_found(call.kind, call.name)
        request = self._writes.request(call, "create")
        request.subresource = "binding"
        await self._writes.pipeline.admit_subresource(request, None, binding)

    def _assigned(self, call: ApiCall, entry: StoredEntry, node: str, binding: Object) -> Object:
        """The pod on its node; a 409 when it cannot go there any more."""
        old = entry.obj
        meta, spec = old["metadata"], old["spec"]
        wanted = binding.get("metadata") or {}
        if wanted.get("uid") and wanted["uid"] != meta["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {wanted['uid']}, "
                f"UID in object meta: {meta['uid']}"
            )
            raise conflict(call.kind, call.name, why)
        binding_of = ServedKind("", "v1", "pods/binding", "Binding")
        if meta.get("deletionTimestamp"):
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
            raise conflict(binding_of, call.name, why)
        if spec.get("nodeName"):
            why = f'pod {call.name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict(binding_of, call.name, why)
        if spec.get("schedulingGates"):
            why = f"pod {call.name} has non-empty .spec.schedulingGates"
            raise conflict(binding_of, call.name, why)
        status = dict(old.get("status") or {})
        status["conditions"] = _scheduled(status.get("conditions"), self._now())
        pod = {**old, "spec": {**spec, "nodeName": node}, "status": status}
        pod["metadata"] = _annotated(meta, wanted.get("annotations"), wanted.get("labels"))
        return pod

    def _now(self) -> str:
        return rfc3339(self._writes.clock.now_s())


def _scheduled(conditions: Any, now: str) -> list[Object]:
    others = [c for c in conditions or () if c.get("type") != "PodScheduled"]
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return [*others, condition]


def _annotated(meta: Object, annotations: Any, labels: Any) -> Object:
    meta = dict(meta)
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return meta
