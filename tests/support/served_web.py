"""A dashboard that is served in a thread, for programs that ask it from outside."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.moments import moment_of

from muster.base.clock import Clock, SystemClock
from muster.base.offload import in_thread
from muster.foresight.situation import Situation, rules_of
from muster.model.records import ClusterRecords
from muster.testing import make
from muster.web.board import Board
from muster.web.handlers import Handlers
from muster.web.live import LiveCluster
from muster.web.server import WebPart
from muster.web.submission import Surroundings


@dataclass(frozen=True, slots=True)
class Fixed:
    """A cluster in which nothing happens."""

    records: ClusterRecords
    revision: int = 1

    def situation(self) -> Situation:
        return Situation.of(self.records, make.NOW_S, rules_of())

    def surroundings(self) -> Surroundings:
        return Surroundings()


@dataclass(frozen=True, slots=True)
class Unhurried(SystemClock):
    """However busy this machine is: nothing that is looked for or drawn is cut short for time."""

    clock: Clock

    def now_s(self) -> float:
        return self.clock.now_s()

    def monotonic_s(self) -> float:
        return 0.0


@contextmanager
def served(
    records: ClusterRecords,
    cluster: str,
    journal_folder: Path | None = None,
    usage_store: Path | None = None,
    clock: Clock | None = None,
    **beside: Any,
) -> Iterator[str]:
    """The address. `clock`: what time it is for the server; `beside`: what the cluster says of
    things that nothing is decided about."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    parts: list[WebPart] = []

    async def serve() -> None:
        board = Board(cluster)
        board.show(moment_of(records, **beside), b"{}")
        now = Unhurried(clock or SystemClock())
        live = LiveCluster(Fixed(records), now, in_thread, journal_folder, b"key", cluster)
        handlers = Handlers(live, usage_store=usage_store)
        part = WebPart("127.0.0.1", 0, board, SystemClock(), questions=handlers)
        parts.append(part)
        running = asyncio.ensure_future(part.run())
        await part.listening.wait()
        ready.set()
        await running

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(60)
    yield f"http://127.0.0.1:{parts[0].port}"
    loop.call_soon_threadsafe(parts[0].stop)
    thread.join()
    loop.close()
