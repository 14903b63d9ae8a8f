"""Says on a pod that the pod group which it names, or the node pool of that, does not exist.

Such a pod belongs to no job of any scheduler, so no cycle has anything to say of it. It is given
some time first: pod and group may be created in any order, and watches show them in any order. Of
pools that nobody serves the scheduler of those without a pool speaks, where there are several.
"""

import asyncio
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.events import Recorder, reference_to
from muster.client.informer import Informer
from muster.services.scheduler.manifests import unschedulable_condition
from muster.services.scheduler.messages import (
    has_unschedulable_condition,
    missing_group_message,
    missing_pool_message,
)
from muster.services.scheduler.options import Options
from muster.services.scheduler.status_updater import StatusUpdater, pod_condition

_PATIENCE_S = 30.0
_LOOK_EVERY_S = 10.0


@dataclass(slots=True)
class _Orphan:
    """A pod whose group is missing."""

    key: Key
    since_s: float
    is_told: bool = False


class MissingGroups:
    """A part of the service: looks now and then, while there is something to look at."""

    name = "missing pod groups"

    def __init__(
        self,
        pods: Informer[Pod],
        groups: Informer[PodGroup],
        nodes: Informer[Node],
        updater: StatusUpdater,
        options: Options,
        clock: Clock,
        recorder: Recorder | None,
    ) -> None:
        self._pods = pods
        self._groups = groups
        self._nodes = nodes
        self._pool_label = "" if options.shard else options.names.node_pool_label
        self._updater = updater
        self._scheduler = options.names.scheduler
        self._clock = clock
        self._recorder = recorder
        self._orphans: dict[str, _Orphan] = {}
        """By uid."""
        self._has_some = asyncio.Event()
        self._stopped = asyncio.Event()
        pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        while not self._stopped.is_set():
            await self._has_some.wait()
            self._look()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()
        self._has_some.set()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._orphans.pop(old.metadata.uid, None)
        if new is None or not self._is_orphan(new):
            return
        now_s = self._clock.monotonic_s()
        self._orphans.setdefault(new.metadata.uid, _Orphan(new.key, now_s))
        self._has_some.set()

    def _look(self) -> None:
        pools = {node.metadata.labels.get(self._pool_label, "") for node in self._all_nodes()}
        for uid, orphan in list(self._orphans.items()):
            pod = self._pods.get(orphan.key)
            if pod is None or pod.metadata.uid != uid or self._is_served(pod, pools):
                del self._orphans[uid]
            elif not orphan.is_told and self._clock.monotonic_s() - orphan.since_s >= _PATIENCE_S:
                orphan.is_told = True
                self._tell(pod)
        if not self._orphans and not self._stopped.is_set():
            self._has_some.clear()

    def _is_served(self, pod: Pod, pools: Container[str]) -> bool:
        if not self._is_orphan(pod):
            return True
        return self._group_of(pod) is not None and self._pool_of(pod) in pools

    def _tell(self, pod: Pod) -> None:
        reason, message = names.REASON_POD_GROUP_MISSING, missing_group_message(pod)
        if self._group_of(pod) is not None:
            message = missing_pool_message(self._pool_of(pod), self._pool_label)
            reason = names.REASON_NODE_POOL_MISSING
        if has_unschedulable_condition(pod, message):
            return
        condition = unschedulable_condition(message, rfc3339(self._clock.now_s()))
        self._updater.put(pod_condition(pod, condition))
        if self._recorder is not None:
            about = reference_to(POD, pod)
            self._recorder.warning(about, reason, message)

    def _is_orphan(self, pod: Pod) -> bool:
        """Whether it is ours, waits, and names a group that is not there, or is of some pool."""
        group = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP)
        if not group or pod.spec.scheduler_name != self._scheduler:
            return False
        waits = pod.status.phase == "Pending" and not pod.spec.node_name
        if not waits or pod.metadata.deletion_timestamp is not None:
            return False
        return self._group_of(pod) is None or bool(self._pool_of(pod))

    def _group_of(self, pod: Pod) -> PodGroup | None:
        name = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP, "")
        return self._groups.get(Key(pod.metadata.namespace, name))

    def _pool_of(self, pod: Pod) -> str:
        """The pool of its group, where it is for us to say that there is no such pool."""
        group = self._group_of(pod)
        if group is None or not self._pool_label:
            return ""
        return group.metadata.labels.get(self._pool_label, "")

    def _all_nodes(self) -> Iterable[Node]:
        return self._nodes.objects.values() if self._pool_label else ()
