"""Reads the tree of queues and all pod groups, decides every queue's status, patches what changed.

The tree is one thing: a group that moves changes every queue above it. So there is one key, and
however many groups change at once, the tree is looked at once.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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
    Place,
    Sums,
    children_by_queue,
    overpromised_by_queue,
    rootless_by_queue,
    status_patch,
    sums_by_queue,
)
from muster.services.queues.meters import QueueMeters

Tree = Literal["tree"]
TREE: Final[Tree] = "tree"
_GATHER_S: Final = 0.5
_GATHER_PER_QUEUE_S: Final = 1e-5


@dataclass(frozen=True, slots=True)
class QueueReconciler:
    """Keeps the status of all queues true."""

    _queues: Informer[Queue]
    _groups: Informer[PodGroup]
    _writer: Writer
    _clock: Clock
    _meters: QueueMeters
    _settled: dict[str, "_Read"] = field(default_factory=dict)
    """What queues were when there was nothing to write: a change of one is not a look at all."""

    async def reconcile(self, key: Tree) -> Result:
        await self._clock.sleep(_gather_s(len(self._queues.objects)))
        queues = {one.metadata.name: one for one in self._queues.objects.values()}
        sums = sums_by_queue(queues, self._groups.objects.values())
        children, rootless = children_by_queue(queues), rootless_by_queue(queues)
        overpromised = overpromised_by_queue(queues, children)
        now = rfc3339(self._clock.now_s())
        patches: dict[str, Mapping[str, Any]] = {}
        for name, queue in queues.items():
            place = Place(children[name], rootless[name], overpromised.get(name, ()))
            read = _Read(queue, sums[name], place)
            if read.is_as(self._settled.get(name)):
                continue
            self._meters.show(queue, read.sums)
            patch = status_patch(queue, read.sums, read.place, now)
            if patch:
                patches[name] = patch
                self._settled.pop(name, None)
            else:
                self._settled[name] = read
        self._forget_all_but(queues)
        await asyncio.gather(*(self._patch(name, patches[name]) for name in sorted(patches)))
        return DONE

    def _forget_all_but(self, queues: Mapping[str, Queue]) -> None:
        self._meters.retain_only(queues)
        for name in [name for name in self._settled if name not in queues]:
            del self._settled[name]

    async def _patch(self, name: str, patch: Mapping[str, Any]) -> None:
        with suppress(NotFound):
            await self._writer.patch(QUEUE, Key("", name), patch, subresource="status")


@dataclass(frozen=True, slots=True)
class _Read:
    """All that a queue's status is decided from."""

    queue: Queue
    sums: Sums
    place: Place

    def is_as(self, other: "_Read | None") -> bool:
        return (
            other is not None
            and self.queue is other.queue
            and self.place == other.place
            and self.sums == other.sums
        )


def _gather_s(queues: int) -> float:
    """How long to wait for more changes: each look costs by the number of queues."""
    return _GATHER_S + _GATHER_PER_QUEUE_S * queues


def tree_of(_: object) -> tuple[Tree, ...]:
    """Whatever changed, the tree may have."""
    return (TREE,)
