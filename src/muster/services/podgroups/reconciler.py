"""Reads the pods of a group, decides its status, patches what changed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD_GROUP
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.errors import Forbidden, NotFound
from muster.client.informer import Index, Informer
from muster.client.kinds import plain_kind
from muster.client.write import Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.podgroups.decide import (
    PodGroupView,
    native_condition,
    native_owner,
    status_patch,
)


@dataclass(slots=True)
class PodGroupReconciler:
    """Keeps the status of one pod group true."""

    _groups: Informer[PodGroup]
    _pods_of: Index[Pod, Key]
    _cluster: PodGroupView
    _writer: Writer
    _clock: Clock
    _phase_is_stored: bool = field(default=True, init=False)
    """Whether the installed kind has a phase: seen from the answer to our first write."""

    async def reconcile(self, key: Key) -> Result:
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            return DONE
        now, pods = rfc3339(self._clock.now_s()), self._pods_of.get(key)
        keeps_phase = self._phase_is_stored or bool(group.status.phase)
        patch = status_patch(group, pods, self._cluster, now, keeps_phase)
        if patch is None:
            return DONE
        # First: once our own status says so, nobody would tell it again.
        await self._tell_native_group(group, native_condition(group, pods, now))
        try:
            stored = await self._writer.patch(POD_GROUP, key, patch, subresource="status")
        except NotFound:
            return DONE
        self._phase_is_stored = bool(stored.status.phase)
        return DONE

    async def _tell_native_group(self, group: PodGroup, told: Mapping[str, str] | None) -> None:
        owner = native_owner(group)
        if told is None or owner is None:
            return
        version = owner.api_version.rpartition("/")[2]
        kind = plain_kind("scheduling.k8s.io", version, "PodGroup", "podgroups")
        key = Key(group.metadata.namespace, owner.name)
        with suppress(NotFound, Forbidden):  # It is told as a courtesy: the gang runs without.
            await self._writer.set_condition(kind, key, told)


def group_of(pod: Pod) -> tuple[Key, ...]:
    """The group that a pod says it belongs to."""
    name = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP)
    return (Key(pod.metadata.namespace, name),) if name else ()
