"""The informers of one service: who wants the same local copy shares it.

An object that one of them cannot read is counted, and an event about it tells its owner.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from muster.api import names
from muster.api.codec import Reject
from muster.api.coordination import ObjectReference
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.errors import ApiError, Forbidden, Unauthorized, Unreachable
from muster.client.events import Recorder
from muster.client.informer import Informer, SetAsideListener
from muster.client.read import EVERYTHING, Reader, Selection, Transform
from muster.runtime.meters import InformerMeters
from muster.runtime.parts import ended

T = TypeVar("T")


class Informers:
    """A part that keeps every local copy of a service up to date."""

    name = "informers"

    def __init__(
        self, reader: Reader, *, log: Log, registry: CollectorRegistry, recorder: Recorder | None
    ) -> None:
        self._reader = reader
        self._log = log
        self._meters = InformerMeters(registry)
        self._recorder = recorder
        self._shared: dict[tuple[Kind[Any], Selection, object], Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_running = False
        self._stopped = asyncio.Event()

    def of(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        transform: Transform[T] | None = None,
        is_optional: bool = False,
    ) -> Informer[T]:
        """The one informer of this service for that selection (and that `transform`).

        It starts at once if the others are running. `is_optional`: a server that does not have the
        kind is done without, until it has.
        """
        informer = self._shared.get((kind, selection, transform))
        if informer is None:
            informer = Informer(
                self._reader,
                kind,
                selection,
                log=self._log,
                transform=transform,
                is_optional=is_optional,
            )
            if self._recorder is not None:
                informer.on_set_aside.append(_reject_recorder(self._recorder, kind))
            self._shared[kind, selection, transform] = informer
            self._meters.add(informer)
            if self._is_running:
                self._launch(informer)
        return informer

    async def run(self) -> None:
        """Until `stop`; raises if one of them breaks, which only a mistake of ours can do."""
        self._is_running = True
        for informer in self._shared.values():
            self._launch(informer)
        try:
            await self._stopped.wait()
        finally:
            self._is_running = False
            await ended(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    def stop(self) -> None:
        self._stopped.set()

    async def synced(self) -> None:
        for informer in list(self._shared.values()):
            await informer.synced()

    def missing(self) -> list[str]:
        """Which have not synced yet, and why."""
        return [
            f"{informer.kind.full_name}: {informer.reflector.trouble or 'listing'}"
            for informer in self._shared.values()
            if not informer.has_synced
        ]

    def being_read(self) -> list[tuple[str, int, int]]:
        """Kinds that have not synced yet: how many objects are here, and of how many; 0: nobody
        has said."""
        return [
            (informer.kind.plural, len(informer.objects), informer.expected)
            for informer in self._shared.values()
            if not informer.has_synced
        ]

    def refused(self) -> Mapping[str, ApiError]:
        """Kinds that have not synced because we may not read them, or nobody knows who we are."""
        troubles = (
            (informer.kind.plural, informer.reflector.trouble)
            for informer in self._shared.values()
            if not informer.has_synced
        )
        return {
            kind: trouble
            for kind, trouble in troubles
            if isinstance(trouble, Forbidden | Unauthorized)
        }

    def unreachable(self) -> Unreachable | None:
        """Why the server cannot be reached, where nothing has ever come from it."""
        troubles = [one.reflector.trouble for one in self._shared.values()]
        found = [one for one in troubles if isinstance(one, Unreachable)]
        has_come = any(one.has_synced for one in self._shared.values())
        return found[0] if len(found) == len(troubles) > 0 and not has_come else None

    def broken(self, longer_than_s: float) -> list[str]:
        """Which have had no news from the server for so long, and why."""
        return [
            f"{informer.kind.full_name}: no news for {informer.reflector.trouble_s:.0f} s:"
            f" {informer.reflector.trouble}"
            for informer in self._shared.values()
            if informer.has_synced and informer.reflector.trouble_s > longer_than_s
        ]

    def unheard(self, longer_than_s: float) -> Mapping[str, float]:
        """Kinds of which there has been no news for so long: for how many seconds."""
        troubles = ((one.kind.plural, one.reflector.trouble_s) for one in self._shared.values())
        return {plural: for_s for plural, for_s in troubles if for_s > longer_than_s}

    def described(self) -> list[dict[str, object]]:
        """How each of them is doing, for people who look into a running service."""
        return [
            {
                "kind": informer.kind.full_name,
                "synced": informer.has_synced,
                "objects": len(informer.objects),
                "resource_version": informer.reflector.resource_version,
                "lists": informer.reflector.lists,
                "watches": informer.reflector.watches,
                "trouble": str(informer.reflector.trouble or ""),
                "out_of_step": sorted(str(key) for key in informer.out_of_step)[:100],
                "served": informer.is_served,
                "set_aside": [str(reject) for reject in informer.set_aside.values()],
            }
            for informer in self._shared.values()
        ]

    def _launch(self, informer: Informer[Any]) -> None:
        task = asyncio.create_task(informer.run(), name=f"informer {informer.kind.full_name}")
        task.add_done_callback(lambda _: self._stopped.set())
        self._tasks.append(task)


def _reject_recorder(recorder: Recorder, kind: Kind[Any]) -> SetAsideListener:
    def record(key: Key, reject: Reject | None) -> None:
        if reject is None:
            return
        about = ObjectReference(
            api_version=kind.api_version,
            kind=kind.kind,
            namespace=key.namespace,
            name=key.name,
            uid=reject.uid,
        )
        why = f"set aside, because it cannot be read: {reject.path}: {reject.reason}"
        recorder.warning(about, names.REASON_UNREADABLE, why)

    return record
