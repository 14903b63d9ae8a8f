"""What a controller decided to do, as values; and the hands that do it.

Deciding is pure (`replicasets.py`, `jobs.py`, ...): objects in, actions out. Doing is here. After a
create the hands wait until the controller's own local copy shows the new object, so that the next
decision cannot make it twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.coordination import ObjectReference
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.kinds import Plain, header
from muster.client.write import Deletion, PatchType, Propagation, Writer
from muster.sim.workloads.objects import controller_of

_SEEN_S: Final = 10.0
_SERVER_TROUBLE: Final = 500


@dataclass(frozen=True, slots=True)
class CreateAction:
    kind: Kind[Plain]
    body: Mapping[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class DeleteAction:
    """Delete that very object; fine if it is gone."""

    kind: Kind[Plain]
    key: Key
    uid: str
    propagation: Propagation | None = None
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class PatchAction:
    kind: Kind[Plain]
    key: Key
    patch: Mapping[str, Any]
    subresource: str = ""
    patch_type: PatchType = PatchType.MERGE


@dataclass(frozen=True, slots=True)
class WarnAction:
    """Say about an object what keeps it from going on."""

    about: ObjectReference
    reason: str
    message: str


Action = CreateAction | DeleteAction | PatchAction | WarnAction


def status_patch(kind: Kind[Plain], obj: Plain, status: Mapping[str, Any]) -> list[Action]:
    """The write that makes the status so, if it is not so already."""
    old = obj.get("status") or {}
    changed = {name: value for name, value in status.items() if old.get(name) != value}
    if not {name: value for name, value in changed.items() if value is not None or name in old}:
        return []
    return [PatchAction(kind, header(obj).key, {"status": changed}, "status")]


def refusals(action: CreateAction, refused: ApiError) -> list[Action]:
    """What its owner hears of an object that may not be made, as Kubernetes' controllers tell it.
    That the server has no time now passes.
    """
    owner = controller_of(dict(action.body))
    if owner is None or refused.is_passing or refused.code >= _SERVER_TROUBLE:
        return []
    return [
        WarnAction(
            _reference(owner, action.namespace),
            "FailedCreate",
            f"Error creating: {refused.message}",
        )
    ]


def _reference(owner: Mapping[str, Any], namespace: str) -> ObjectReference:
    return ObjectReference(
        api_version=str(owner["apiVersion"]),
        kind=str(owner["kind"]),
        namespace=namespace,
        name=str(owner["name"]),
        uid=str(owner["uid"]),
    )


@dataclass(slots=True)
class ActionExecutor:
    """Does what was decided."""

    writer: Writer
    log: Log
    informers: Mapping[str, Informer[Plain]] = field(default_factory=dict)
    recorder: Recorder | None = None

    async def do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            await self._do(action)

    async def _do(self, action: Action) -> None:
        match action:
            case CreateAction():
                await self._create(action)
            case DeleteAction():
                await self._delete(action)
            case PatchAction(kind, key, patch, subresource, patch_type):
                try:
                    await self.writer.patch(kind, key, patch, patch_type, subresource=subresource)
                except NotFound:
                    self.log.debug("object deleted before patch", kind=kind.kind, key=str(key))
            case WarnAction(about, reason, message):
                if self.recorder is not None:
                    self.recorder.warning(about, reason, message)

    async def _create(self, action: CreateAction) -> None:
        try:
            made = await self.writer.create(action.kind, action.body, action.namespace)
        except AlreadyExists:
            self.log.debug("object exists", kind=action.kind.kind)
            return
        except ApiError as refused:
            await self.do(refusals(action, refused))
            raise
        informer = self.informers.get(action.kind.full_name)
        if informer is not None:
            await _seen(informer, header(made).key)

    async def _delete(self, action: DeleteAction) -> None:
        deletion = Deletion(uid=action.uid, propagation=action.propagation, grace_s=action.grace_s)
        try:
            await self.writer.delete(action.kind, action.key, deletion)
        except (NotFound, Conflict):
            self.log.debug("object already deleted", kind=action.kind.kind, key=str(action.key))


async def _seen(informer: Informer[Plain], key: Key) -> None:
    """Wait until the local copy has the object, but not for ever."""
    pause_s = 0.0
    waited_s = 0.0
    while informer.get(key) is None and waited_s < _SEEN_S:
        await asyncio.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(pause_s + 0.001, 0.05)
