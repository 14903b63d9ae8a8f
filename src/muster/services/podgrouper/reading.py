"""What groupers may read, from local stores where we have them and from the server where not.

Owners are of any kind, so they are fetched; pods of one workload come in bursts and have the same
owners, so what was fetched serves for a few seconds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from muster.api import names
from muster.api.core import Pod, PriorityClass
from muster.api.meta import Key
from muster.api.topology import Topology
from muster.base.expiring import ExpiringMap
from muster.client.errors import Forbidden, NotFound
from muster.client.informer import Index, Informer
from muster.client.kinds import Plain
from muster.client.read import Reader
from muster.services.podgrouper.catalog import Catalog
from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import NotRead, ObjectRef
from muster.services.podgrouper.owners import OwnerForbidden, OwnersSilent

Found = Object | OwnerForbidden | None
_CACHED_MAX = 10_000
_REMEMBERED_S = 5.0
_ANSWER_S_MAX = 10.0
_SILENT_S = 30.0
_SILENT_MAX = 1000


class OwnerReads:
    """Reads objects of any kind; remembers each for a moment."""

    def __init__(self, reader: Reader, catalog: Catalog) -> None:
        self._reader = reader
        self._catalog = catalog
        clock = reader.connection.clock
        self._cached: ExpiringMap[ObjectRef, Object | OwnerForbidden]
        self._cached = ExpiringMap(clock, _CACHED_MAX)
        self._silent: ExpiringMap[tuple[str, str], bool] = ExpiringMap(clock, _SILENT_MAX)

    async def get(self, ref: ObjectRef) -> Found:
        known = self._cached.get(ref)
        if known is not None:
            return known
        if self._silent.get((ref.api_version, ref.kind)):
            raise OwnersSilent(ref)
        found = await self._answered(ref)
        if found is not None:
            self._cached.put(ref, found, _REMEMBERED_S)
        return found

    def forget(self, ref: ObjectRef) -> None:
        self._cached.pop(ref)

    async def _answered(self, ref: ObjectRef) -> Found:
        if ref.problem():
            return None
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                return await self._fetch(ref)
        except TimeoutError:
            # Nobody answers for its kind: others need not wait as long, each holding a worker.
            self._silent.put((ref.api_version, ref.kind), True, _SILENT_S)
            raise OwnersSilent(ref) from None

    async def _fetch(self, ref: ObjectRef) -> Found:
        try:
            kind = await self._catalog.find(ref.api_version, ref.kind)
            if kind is None:
                return None
            key = Key(ref.namespace if kind.namespaced else "", ref.name)
            found = await self._reader.get(kind, key)
        except NotFound:
            return None
        except Forbidden:
            return OwnerForbidden()
        return {"apiVersion": ref.api_version, "kind": ref.kind, **found}


@dataclass(slots=True)
class LocalReads:
    """`Reads` of one reconcile: local stores, and what was fetched for it so far."""

    pods_in: Index[Pod, str]
    groups_in: Index[Plain, str]
    classes: Informer[PriorityClass]
    topologies: Informer[Topology]
    descriptions: Sequence[Object] = ()
    fetched: dict[ObjectRef, Object | None] = field(default_factory=dict)

    def get(self, ref: ObjectRef) -> Object | None:
        if ref not in self.fetched:
            raise NotRead(ref)
        return self.fetched[ref]

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        return [
            pod_object(pod)
            for pod in self.pods_in.get(namespace)
            if labels.items() <= pod.metadata.labels.items()
        ]

    def pod_groups(self, namespace: str) -> Mapping[str, Object]:
        return {group["metadata"]["name"]: group for group in self.groups_in.get(namespace)}

    def has_priority_class(self, name: str) -> bool:
        return self.classes.get(Key("", name)) is not None

    def topology_with(self, node_label: str) -> str:
        return min(
            (
                key.name
                for key, topology in self.topologies.objects.items()
                if any(level.node_label == node_label for level in topology.spec.levels)
            ),
            default="",
        )

    def kartas(self, group: str, version: str, kind: str) -> Sequence[Object]:
        return [one for one in self.descriptions if _describes(one, group, version, kind)]


def pod_object(pod: Pod) -> Plain:
    """As much of a pod as groupers read, in the shape of its JSON."""
    meta = pod.metadata
    owners = [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid}
        for one in meta.owner_references
    ]
    metadata: Plain = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "ownerReferences": owners,
    }
    if meta.deletion_timestamp is not None:
        metadata["deletionTimestamp"] = meta.deletion_timestamp.isoformat()
    spec: Plain = {
        "schedulerName": pod.spec.scheduler_name,
        "nodeName": pod.spec.node_name,
        "priorityClassName": pod.spec.priority_class_name,
    }
    if pod.spec.scheduling_group is not None:
        spec["schedulingGroup"] = {"podGroupName": pod.spec.scheduling_group.pod_group_name}
    if pod.spec.workload_ref is not None:
        spec["workloadRef"] = msgspec.to_builtins(pod.spec.workload_ref)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _describes(karta: Object, group: str, version: str, kind: str) -> bool:
    labels = (karta.get("metadata") or {}).get("labels") or {}
    return (
        labels.get(names.LABEL_KARTA_GROUP),
        labels.get(names.LABEL_KARTA_VERSION),
        labels.get(names.LABEL_KARTA_KIND),
    ) == (group, version, kind)
