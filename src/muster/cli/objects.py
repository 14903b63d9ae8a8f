"""What commands change in a cluster: any object by its kind, in the name of whoever asks."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from muster.api import kinds, names
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Level, Log, MemorySink
from muster.cli.asking import Source
from muster.client.connection import Call, Connection, Retry
from muster.client.errors import Forbidden, NotFound
from muster.client.kinds import Plain, plain_kind, plainly
from muster.client.read import Reader, Selection
from muster.client.transport import Request
from muster.client.write import Deletion, Propagation, Writer

T = TypeVar("T")
_POD: Final = plainly(kinds.POD)
_GROUP: Final = plainly(kinds.POD_GROUP)
_EVENT: Final = plainly(kinds.EVENT)
_RUNS: Final = frozenset({"Running", "Succeeded", "Failed"})

_WITHOUT_PODS: Final = frozenset(
    {"ConfigMap", "Namespace", "PersistentVolumeClaim", "Queue", "Secret", "Service"}
    | {"PriorityClass", "Role", "RoleBinding", "ServiceAccount", "Topology"}
)
"""Kinds that come with jobs, and of which nothing ever starts."""


class CannotChange(Exception):
    """Why, and what to do."""


class Thing(NamedTuple):
    """An object, as people name it."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}".lstrip("/")

    @property
    def starts(self) -> bool:
        """Whether pods may come of it."""
        return self.kind not in _WITHOUT_PODS


@dataclass(slots=True)
class Cluster:
    """Acts over one connection."""

    connection: Connection
    clock: Clock
    is_trial: bool = False
    """Whether the server is only asked if it would agree, and keeps nothing."""
    _kinds: dict[tuple[str, str], Kind[Plain]] = field(default_factory=dict)

    @property
    def _reader(self) -> Reader:
        return Reader(self.connection)

    @property
    def _writer(self) -> Writer:
        return Writer(self.connection, "muster-cli", is_trial=self.is_trial)

    async def annotate(self, group: str, annotation: str, text: str | None) -> None:
        """Of a pod group; None: take it away."""
        patch = {"metadata": {"annotations": {annotation: text}}}
        try:
            await self._writer.patch(_GROUP, _key(group), patch)
        except NotFound:
            raise CannotChange(f"pod group {group} is gone") from None

    async def create(self, manifests: Sequence[Mapping[str, Any]], namespace: str) -> list[Thing]:
        """All of them, in order. What one of them lacks is said before the first is made."""
        found = [
            (await self._kind(_of(one, "apiVersion"), _of(one, "kind")), one) for one in manifests
        ]
        made = []
        for kind, one in found:
            where = (one.get("metadata") or {}).get("namespace") or namespace
            answer = await self._writer.create(kind, one, where if kind.namespaced else "")
            meta = answer["metadata"]
            made.append(Thing(kind.kind, meta.get("namespace", ""), meta["name"]))
        return made

    async def end(self, group: str, deletes: bool = True) -> list[Thing]:
        """Delete what owns the pods of a group; pods that nothing owns are deleted themselves.
        Without `deletes`: what that would be."""
        key = _key(group)
        try:
            found = await self._reader.get(_GROUP, key)
        except NotFound:
            raise CannotChange(f"pod group {group} is gone") from None
        owners = found["metadata"].get("ownerReferences") or []
        if owners and owners[0]["kind"] != "Pod":
            owner = owners[0]
            kind = await self._kind(owner["apiVersion"], owner["kind"])
            targets = [(kind, owner["name"], owner["uid"])]
        else:
            pods = await self._pods(key)
            targets = [(_POD, pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in pods]
        for kind, name, uid in targets if deletes else ():
            deletion = Deletion(uid=uid, propagation=Propagation.BACKGROUND)
            try:
                await self._writer.delete(kind, Key(key.namespace, name), deletion)
            except NotFound:
                continue
        return [Thing(kind.kind, key.namespace, name) for kind, name, _ in targets]

    async def served(self) -> frozenset[str]:
        """apiVersions that the server has."""
        body = await self.connection.call(
            Request("GET", "/apis"), Call("get", "groups", retry=Retry.READ)
        )
        groups = msgspec.json.decode(body).get("groups", ())
        named = (one["groupVersion"] for group in groups for one in group["versions"])
        return frozenset(("v1", *named))

    async def find(self, api_version: str, kind: str, key: Key) -> Plain | None:
        """The object; None: it is not there, or may not be read."""
        try:
            found = await self._reader.get(await self._kind(api_version, kind), key)
        except (CannotChange, Forbidden, NotFound):
            return None
        return {"apiVersion": api_version, "kind": kind, **found}

    async def pods_below(self, key: Key) -> list[Plain]:
        """Those that are called by it: itself, or with something behind."""
        listed = await self._reader.list(_POD, Selection(namespace=key.namespace))
        known = [(pod, pod["metadata"]["name"]) for pod in listed.objects]
        return [pod for pod, name in known if name == key.name or name.startswith(f"{key.name}-")]

    async def warning_about(self, key: Key) -> str:
        """The newest one; "": there is none."""
        about = Selection(key.namespace, fields=f"involvedObject.name={key.name},type=Warning")
        listed = await self._reader.list(_EVENT, about)
        newest = max(listed.objects, key=_last_seen, default={})
        return str(newest.get("message") or "")

    async def wait_for(
        self, group: str, what: str, within_s: float, look_s: float
    ) -> tuple[str, bool] | None:
        """What became of it and whether that is what was waited for; None: not within the time."""
        until_s = self.clock.monotonic_s() + within_s if within_s else math.inf
        was_there = False
        while True:
            pods = await self._pods(_key(group))
            was_there = was_there or bool(pods)
            if (said := _reached(pods, what, was_there)) is not None:
                return said
            if self.clock.monotonic_s() + look_s > until_s:
                return None
            await self.clock.sleep(look_s)

    async def _pods(self, group: Key) -> list[Plain]:
        """Its own, and those of the groups that were made of an owner of that name."""
        listed = await self._reader.list(_POD, Selection(namespace=group.namespace))
        return [pod for pod in listed.objects if _is_of(pod, group.name)]

    async def _kind(self, api_version: str, kind: str) -> Kind[Plain]:
        """As the server has it; kinds of which we know nothing are created and deleted too."""
        known = self._kinds.get((api_version, kind))
        if known is not None:
            return known
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        call = Call("get", "resources", retry=Retry.READ)
        try:
            body = await self.connection.call(Request("GET", root), call)
        except NotFound:
            raise CannotChange(
                f"apiVersion: the server knows no {api_version}: install what brings it, or correct"
                " it"
            ) from None
        for one in msgspec.json.decode(body)["resources"]:
            if one["kind"] == kind and "/" not in one["name"]:
                group, _, version = api_version.rpartition("/")
                found = plain_kind(group, version, kind, one["name"], namespaced=one["namespaced"])
                self._kinds[api_version, kind] = found
                return found
        raise CannotChange(f"kind: {api_version} has no {kind}: correct the kind")


def over_connection(
    source: Source, act: Callable[[Cluster], Awaitable[T]], is_trial: bool = False
) -> T:
    """What comes of it, over a connection of its own, in the name of whoever asks."""
    from muster.base.clock import SystemClock
    from muster.cli.serving import Process, connected

    async def connecting() -> T:
        clock = SystemClock()
        process = Process(
            "cli", kubeconfig=source.kubeconfig, context=source.context, act_as=source.act_as
        )
        connection = connected(process, clock, Log("muster", MemorySink(), Level.ERROR))
        try:
            return await act(Cluster(connection, clock, is_trial))
        finally:
            await connection.close()

    return asyncio.run(connecting())


def _last_seen(event: Plain) -> str:
    times = (event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp", "")))


def _key(group: str) -> Key:
    namespace, _, name = group.partition("/")
    return Key(namespace, name)


def _of(manifest: Mapping[str, Any], field: str) -> str:
    value = manifest.get(field)
    if not isinstance(value, str) or not value:
        raise CannotChange(f"{field}: an object of the file has none: write it")
    return value


def _is_of(pod: Plain, group: str) -> bool:
    named = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_POD_GROUP, "")
    return bool(named == group or named.startswith(f"pg-{group}-"))


def _reached(pods: Sequence[Plain], what: str, was_there: bool) -> tuple[str, bool] | None:
    phases = [(pod.get("status") or {}).get("phase", "Pending") for pod in pods]
    if not phases:
        return ("is gone", what == "ended") if was_there else None
    if what == "started":
        return ("started", True) if any(phase in _RUNS for phase in phases) else None
    if any(phase not in ("Succeeded", "Failed") for phase in phases):
        return None
    failed = phases.count("Failed")
    if failed:
        return f"ended: {failed} of {len(phases)} pods failed", what == "ended"
    return "ended: succeeded", True
