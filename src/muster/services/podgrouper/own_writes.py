"""Pod groups as we wrote them, until the local copy has caught up.

The pods of a workload come in bursts. Without this, each worker would look at a copy that has no
group yet, and create it once more. A copy that has not caught up within a minute will not: the
group came and went before we heard that it was written.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from muster.api.meta import Key
from muster.base.expiring import ExpiringMap
from muster.client.informer import Informer
from muster.client.kinds import Plain, header

_CATCHES_UP_WITHIN_S = 60.0
_AHEAD_MAX = 10_000
"""One that is forgotten too soon costs a write that is refused, and another look."""


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class OwnWrites:
    """The newest we know of each group: the local copy's, or our own write that it lacks."""

    def __init__(self, groups: Informer[Plain]) -> None:
        self._groups = groups
        self._ahead: ExpiringMap[Key, Plain] = ExpiringMap(groups.clock, _AHEAD_MAX)
        self._turns: dict[Key, _Turn] = {}
        groups.add_handler(self._seen)

    def newest(self, key: Key) -> Plain | None:
        return self._ahead.get(key) or self._groups.get(key)

    def note(self, key: Key, written: Plain) -> None:
        local = self._groups.get(key)
        if local is None or _version(local) < _version(written):
            self._ahead.put(key, written, _CATCHES_UP_WITHIN_S)

    @asynccontextmanager
    async def turn(self, key: Key) -> AsyncIterator[None]:
        """One writer at a time for each group."""
        turn = self._turns.setdefault(key, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                self._turns.pop(key, None)

    def _seen(self, old: Plain | None, new: Plain | None) -> None:
        shown = new or old
        if shown is None:
            return
        key = header(shown).key
        ahead = self._ahead.get(key)
        if ahead is not None and (new is None or _version(new) >= _version(ahead)):
            self._ahead.pop(key)


def _version(group: Plain) -> int:
    version = header(group).resource_version
    return int(version) if version.isdigit() else 0
