"""Board: the newest moment, and what was told of it, for everybody who looks.

Answers are made once for a revision, however many ask. What changed between two is told in small
events; who was away gets those it missed, or is told to ask anew.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from muster.web.moment import Moment
from muster.web.shapes import Ailment, Map
from muster.web.tracks import Tracks
from muster.web.views.nodes import gpu_map
from muster.web.views.queues import queues
from muster.web.views.status import status

_KEPT = 300
_KEPT_ANSWERS = 64


@dataclass(frozen=True, slots=True)
class Told:
    """One event of the stream: the revision that it leads to, and the data as JSON."""

    revision: int
    data: bytes


@dataclass
class Board:
    """Changed by `show` and `ail` alone, on the event loop."""

    cluster: str = ""
    moment: Moment | None = None
    events: deque[Told] = field(default_factory=lambda: deque(maxlen=_KEPT))
    tracks: Tracks = field(default_factory=Tracks)
    ailments: tuple[Ailment, ...] = ()
    """What is wrong now, whatever moment is shown: where nothing is heard, none comes."""
    _answers: dict[str, bytes] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, moment: Moment, told: bytes) -> None:
        """The cluster as it is now; `told` says what is other than before (see `difference`)."""
        self.moment = moment
        self._answers.clear()
        self.tracks.add(moment.at_s, queues(moment))
        self.events.append(Told(moment.revision, told))
        self._wake()

    def ail(self, found: tuple[Ailment, ...]) -> None:
        """What is wrong now."""
        if found != self.ailments:
            self.ailments = found
            self._answers.clear()
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def news(self) -> None:
        """Returns when there is something newer."""
        await self._news.wait()

    def answer(self, name: str, make: Callable[[Moment], Any]) -> bytes | None:
        """JSON of a view of the newest moment; None before the first."""
        if self.moment is None:
            return None
        if name not in self._answers:
            if len(self._answers) >= _KEPT_ANSWERS:
                self._answers.clear()
            self._answers[name] = msgspec.json.encode(make(self.moment))
        return self._answers[name]

    def since(self, revision: int) -> list[Told] | None:
        """What was told after that revision; None: no longer known, ask for everything anew."""
        if self.moment is None or revision >= self.moment.revision:
            return []
        kept = [told for told in self.events if told.revision > revision]
        is_whole = len(kept) < len(self.events)
        return kept if is_whole else None


def difference(before: Moment | None, after: Moment, cluster: str = "") -> bytes:
    """What readers of `before` must hear to know `after`. May be made in a thread."""
    told: dict[str, Any] = {
        "rev": after.revision,
        "at": after.at_s,
        "status": status(after, cluster),
        "queues": _changed_queues(before, after),
    }
    if before is not None:
        told["map"] = _changed_cells(before, after)
    return msgspec.json.encode(told)


def _changed_queues(before: Moment | None, after: Moment) -> list[list[Any]]:
    """Those of which something else is shown, or all."""
    known = {} if before is None else {row[0]: row for row in _queue_rows(before)}
    return [row for row in _queue_rows(after) if known.get(row[0]) != row]


def _queue_rows(moment: Moment) -> list[list[Any]]:
    found = moment.made.get("queue rows")
    if found is None:
        found = moment.made["queue rows"] = [
            [queue.name, queue.gpu.used, queue.gpu.share, queue.jobs.running, queue.jobs.waiting]
            for queue in queues(moment)
        ]
    rows: list[list[Any]] = found
    return rows


def _changed_cells(before: Moment, after: Moment) -> dict[str, Any] | None:
    """Cells with their new holder and its queue; None: other nodes, the map must be asked for."""
    old, new = gpu_map(before), gpu_map(after)
    if (old.nodes, old.per, old.rack) != (new.nodes, new.per, new.rack):
        return None
    was, holders = _holders(old), _holders(new)
    cells = [
        [cell, holders[cell], new.queues[new.gpu[cell] - 1] if new.gpu[cell] > 0 else ""]
        for cell in np.flatnonzero(was != holders).tolist()
    ]
    states = [[row, state] for row, state in enumerate(new.state) if state != old.state[row]]
    return {"cells": cells, "states": states}


def _holders(found: Map) -> "np.ndarray[Any, Any]":
    """[cells] the job that holds each; "": nobody."""
    names = np.array(("", *found.jobs), dtype=object)
    return names[np.maximum(np.array(found.gpu, dtype=np.int64), 0)]
