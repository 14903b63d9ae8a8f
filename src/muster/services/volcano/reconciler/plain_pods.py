"""Pods that need a group, and groups whose pods were scaled away: read, decide, write."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from muster.api import names
from muster.api.core import Namespace, Pod
from muster.api.kinds import POD, VOLCANO_POD_GROUP, Kind
from muster.api.meta import Key, OwnerReference
from muster.api.volcano import ANNOTATION_GROUP, PodGroup
from muster.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.client.events import Recorder, reference_to
from muster.client.informer import Index, Informer
from muster.client.kinds import Plain, plain_kind
from muster.client.read import Reader
from muster.client.write import Deletion, Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.volcano.decide.plain_pods import (
    group_for,
    group_name_for,
    is_of_pods,
    is_scaled_away,
    is_to_be_grouped,
    owner_of,
)

OWNERS: Final[Mapping[tuple[str, str], Kind[Plain]]] = {
    (kind.api_version, kind.kind): kind
    for kind in (
        plain_kind("apps", "v1", "ReplicaSet", "replicasets"),
        plain_kind("apps", "v1", "StatefulSet", "statefulsets"),
        plain_kind("apps", "v1", "DaemonSet", "daemonsets"),
        plain_kind("batch", "v1", "Job", "jobs"),
    )
}
"""Controllers of pods whose annotations count."""


@dataclass(slots=True)
class PlainPodReconciler:
    """Gives a group to a pod that has none, or whose group was deleted."""

    _pods: Informer[Pod]
    _groups: Informer[PodGroup]
    _namespaces: Informer[Namespace]
    _reader: Reader
    _writer: Writer
    _scheduler: str
    _recorder: Recorder | None = None

    async def reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not is_to_be_grouped(pod, self._scheduler):
            return DONE
        name = group_name_for(owner_of(pod))
        if self._groups.get(Key(key.namespace, name)) is None:
            await self._make_group(pod)
        if pod.metadata.annotations.get(ANNOTATION_GROUP) != name:
            annotate = {"metadata": {"annotations": {ANNOTATION_GROUP: name}}}
            with suppress(NotFound, Conflict):
                await self._writer.patch(POD, key, annotate, uid=pod.metadata.uid)
        return DONE

    async def _make_group(self, pod: Pod) -> None:
        namespace = pod.metadata.namespace
        owner = await owner_in(self._reader, namespace, pod.metadata.controller)
        notes = {} if owner is None else owner["metadata"].get("annotations") or {}
        body = group_for(pod, self._namespaces.get(Key("", namespace)), notes)
        try:
            await self._writer.create(VOLCANO_POD_GROUP, body, namespace)
        except AlreadyExists:
            pass
        except ApiError as error:
            if self._recorder is not None and not error.is_passing:
                about = reference_to(POD, pod)
                self._recorder.warning(about, names.REASON_POD_GROUPER_WARNING, str(error))
            raise


@dataclass(slots=True)
class ScaledAwayReconciler:
    """Takes back the group of a ReplicaSet or StatefulSet that wants no pods and has none: it would
    be let in again, count in its queue, and keep that from being closed.
    """

    _groups: Informer[PodGroup]
    _pods_of: Index[Pod, Key]
    _reader: Reader
    _writer: Writer

    async def reconcile(self, key: Key) -> Result:
        group = self._groups.get(key)
        if group is None or not is_of_pods(group) or self._pods_of.get(key):
            return DONE
        owner = await owner_in(self._reader, key.namespace, group.metadata.controller)
        if owner is not None and is_scaled_away(owner):
            with suppress(NotFound, Conflict):
                deletion = Deletion(uid=group.metadata.uid)
                await self._writer.delete(VOLCANO_POD_GROUP, key, deletion)
        return DONE


async def owner_in(reader: Reader, namespace: str, owner: OwnerReference | None) -> Plain | None:
    """The controller of pods, where it is one that we know; the very one."""
    kind = OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
    if owner is None or kind is None:
        return None
    try:
        found = await reader.get(kind, Key(namespace, owner.name))
    except NotFound:
        return None
    return found if found["metadata"].get("uid") == owner.uid else None


def group_of(pod: Pod) -> tuple[Key, ...]:
    """The group that a pod names."""
    name = pod.metadata.annotations.get(ANNOTATION_GROUP)
    return (Key(pod.metadata.namespace, name),) if name else ()
