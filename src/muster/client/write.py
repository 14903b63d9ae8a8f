"""create, patch, apply, replace, delete, bind, evict. Who may import this file is a contract.

Prefer patches: they carry only what we mean to change, so that no field of somebody else's is ever
lost. Where a read must not be outdated by the time of the write, put its `resourceVersion` in the
patch, or use `modify`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import msgspec

from muster.api.codec import Unreadable, builtins, decode
from muster.api.kinds import Kind
from muster.api.meta import Key, Struct
from muster.base.backoff import Backoff
from muster.client.connection import Call, Connection
from muster.client.errors import BadObject, Conflict, Invalid
from muster.client.kinds import Plain, object_path
from muster.client.limits import Lane
from muster.client.read import Reader
from muster.client.transport import Request

T = TypeVar("T")

Body = Mapping[str, Any] | Struct


class PatchType(Enum):
    """How a patch is to be understood; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(Enum):
    """What happens to the objects that the deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Deletion:
    """How to delete. With `uid` or `resource_version`: only if it is still that very object."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation | None = None
    grace_s: int | None = None

    def body(self) -> dict[str, Any]:
        """The DeleteOptions that say the same."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        if held := {name: value for name, value in conditions.items() if value}:
            options["preconditions"] = held
        if self.propagation:
            options["propagationPolicy"] = self.propagation.value
        if self.grace_s is not None:
            options["gracePeriodSeconds"] = self.grace_s
        return options


PLAIN_DELETION = Deletion()


class Writer:
    """Changes objects of any kind over one connection, as one field manager."""

    def __init__(
        self, connection: Connection, field_manager: str = "muster", is_trial: bool = False
    ) -> None:
        """`is_trial`: objects are judged as if they were to be created, replaced, patched or
        deleted, and nothing is stored."""
        self.connection = connection
        self._trial = (("dryRun", "All"),) if is_trial else ()
        self._query = (("fieldManager", field_manager), *self._trial)

    async def create(
        self, kind: Kind[T], body: Body, namespace: str = "", *, lane: Lane = Lane.NORMAL
    ) -> T:
        request = Request("POST", kind.path(namespace), self._query, _JSON, encoded(kind, body))
        return await self._object(kind, request, Call("create", kind.full_name, lane))

    async def replace(self, kind: Kind[T], key: Key, body: Body, *, subresource: str = "") -> T:
        """In place of the stored one; `Conflict` if that changed since this one was read."""
        path = object_path(kind, key, subresource)
        request = Request("PUT", path, self._query, _JSON, encoded(kind, body))
        return await self._object(kind, request, Call("update", kind.full_name))

    async def patch(
        self,
        kind: Kind[T],
        key: Key,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: PatchType = PatchType.MERGE,
        *,
        uid: str = "",
        subresource: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> T:
        """`uid`: only that very object; `Conflict` where another has its name by now.

        (The status of a custom kind is patched whatever the uid: name a version there.)
        """
        if uid and isinstance(patch, Mapping):
            patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        request = Request(
            "PATCH",
            object_path(kind, key, subresource),
            self._query,
            {"content-type": patch_type.value},
            msgspec.json.encode(patch),
        )
        try:
            return await self._object(kind, request, Call("patch", kind.full_name, lane))
        except Invalid as invalid:
            if uid and any(cause.field == "metadata.uid" for cause in invalid.causes):
                raise Conflict(invalid.status, invalid.call) from invalid
            raise

    async def set_condition(
        self, kind: Kind[Any], key: Key, condition: Mapping[str, str], *, uid: str = ""
    ) -> None:
        """Put a condition on an object, in place of one of its type and beside its others."""
        patch = {"status": {"conditions": [condition]}}
        await self.patch(kind, key, patch, PatchType.STRATEGIC, uid=uid, subresource="status")

    async def apply(
        self,
        kind: Kind[T],
        key: Key,
        wanted: Mapping[str, Any],
        *,
        force: bool = False,
        is_trial: bool = False,
    ) -> T:
        """Server-side apply: create or change so that the fields given here are so, and ours.

        `Conflict` names the fields that another manager holds, unless `force` takes them over.
        `is_trial`: what would come of it, and nothing is stored.
        """
        query = [*self._query, ("force", "true" if force else "false")]
        if is_trial:
            query.append(("dryRun", "All"))
        meta = {**wanted.get("metadata", {}), "name": key.name}
        if key.namespace:
            meta["namespace"] = key.namespace
        request = Request(
            "PATCH",
            object_path(kind, key),
            query,
            {"content-type": PatchType.APPLY.value},
            encoded(kind, {**wanted, "metadata": meta}),
        )
        return await self._object(kind, request, Call("apply", kind.full_name))

    async def delete(self, kind: Kind[Any], key: Key, deletion: Deletion = PLAIN_DELETION) -> None:
        """`NotFound` when it is gone already, `Conflict` when it is not the one that was meant."""
        body = msgspec.json.encode(deletion.body())
        request = Request("DELETE", object_path(kind, key), self._trial, _JSON, body)
        await self.connection.call(request, Call("delete", kind.full_name))

    async def bind(
        self, pod: Key, node: str, *, uid: str = "", annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put a pod on a node. With `uid`, only if it is still that very pod.

        Never repeated here: whether it still stands is for the caller to ask each time.
        """
        meta: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace}
        if uid:
            meta["uid"] = uid
        if annotations:
            meta["annotations"] = dict(annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        request = _on_pod(pod, "binding", body)
        await self.connection.call(request, Call("bind", "pods", Lane.URGENT, patience_s=0.0))

    async def evict(self, pod: Key, deletion: Deletion = PLAIN_DELETION) -> None:
        """Ask for a pod's end. `Throttled` when a PodDisruptionBudget does not allow it now.

        Never repeated here, as `bind` is not.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": deletion.body(),
        }
        request = _on_pod(pod, "eviction", body)
        await self.connection.call(request, Call("evict", "pods", Lane.URGENT, patience_s=0.0))

    async def _object(self, kind: Kind[T], request: Request, call: Call) -> T:
        body = await self.connection.call(request, call)
        try:
            return decode(kind.struct, body)
        except Unreadable as error:
            raise BadObject(f"{request.method} {request.path}: the answer: {error}") from error


async def modify(
    reader: Reader,
    writer: Writer,
    kind: Kind[Plain],
    key: Key,
    change: Callable[[Plain], Plain | None],
    *,
    attempts: int = 10,
) -> Plain:
    """Read, change, write; again from the start when somebody else wrote in between.

    `change` gets the whole object and returns the whole new one, or None when it is right already.
    """
    connection = writer.connection
    backoff = Backoff(first_s=0.01, longest_s=1.0)
    for attempt in range(1, attempts + 1):
        current = await reader.get(kind, key)
        wanted = change(json.loads(json.dumps(current)))
        if wanted is None or wanted == current:
            return current
        try:
            return await writer.replace(kind, key, wanted)
        except Conflict:
            if attempt == attempts:
                raise
        # Without jitter two writers in step would collide again and again.
        await connection.clock.sleep(connection.rand.jittered(backoff.delay_s(attempt), 1.0))
    raise ValueError(f"attempts must be at least 1, not {attempts}")


def encoded(kind: Kind[Any], body: Body) -> bytes:
    """The object as JSON, saying what it is even where its struct does not."""
    plain = body if isinstance(body, Mapping) else builtins(body)
    return msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, **plain})


_JSON = {"content-type": "application/json"}


def _on_pod(pod: Key, subresource: str, body: Mapping[str, Any]) -> Request:
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/{subresource}"
    return Request("POST", path, (), _JSON, msgspec.json.encode(body))
