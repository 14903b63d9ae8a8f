"""Reads the tree of queues and all pod groups, decides every queue's status, patches what changed.

The tree is one thing: a group that moves changes every queue above it. So there is one key, and
however many groups change at once, the tree is looked at once.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from muster.api.kinds import QUEUE
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.errors import NotFound
from muster.client.informer import Informer
from muster.client.write import Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.queues.decide import (
    children_by_queue,
    rootless_by_queue,
    status_patch,
    sums_by_queue,
)
from muster.services.queues.meters import QueueMeters

Tree = Literal["tree"]
TREE: Final[Tree] = "tree"


@dataclass(frozen=True, slots=True)
class QueueReconciler:
    """Keeps the status of all queues true."""

    _queues: Informer[Queue]
    _groups: Informer[PodGroup]
    _writer: Writer
    _clock: Clock
    _meters: QueueMeters

    async def reconcile(self, key: Tree) -> Result:
        queues = {one.metadata.name: one for one in self._queues.objects.values()}
        sums = sums_by_queue(queues, self._groups.objects.values())
        children, rootless = children_by_queue(queues), rootless_by_queue(queues)
        now = rfc3339(self._clock.now_s())
        patches: dict[str, Mapping[str, Any]] = {}
        for name, queue in queues.items():
            patch = status_patch(queue, sums[name], children[name], rootless[name], now)
            if patch:
                patches[name] = patch
            self._meters.show(queue, sums[name])
        self._meters.retain_only(queues)
        await asyncio.gather(*(self._patch(name, patches[name]) for name in sorted(patches)))
        return DONE

    async def _patch(self, name: str, patch: Mapping[str, Any]) -> None:
        with suppress(NotFound):
            await self._writer.patch(QUEUE, Key("", name), patch, subresource="status")


def tree_of(_: object) -> tuple[Tree, ...]:
    """Whatever changed, the tree may have."""
    return (TREE,)
