"""A dashboard that is served on this loop, and the board behind it: for a browser of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import company
from tests.support.moments import moment_of
from tests.support.served_web import Fixed, Unhurried

from muster.base.clock import SystemClock
from muster.base.offload import in_thread
from muster.model.records import TopologyRecord
from muster.runtime.page_access import PageRequest, Refusal
from muster.testing import make
from muster.web.board import Board, difference
from muster.web.handlers import Handlers
from muster.web.live import LiveCluster
from muster.web.server import WebPart

_RACKS = 2


class Gate:
    """Knows one token, until it ends."""

    def __init__(self) -> None:
        self.known = {"word"}

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return None if asked.token in self.known else Refusal(401, "who are you?")


@dataclass
class Site:
    """A dashboard that is served, and the board behind it."""

    board: Board
    part: WebPart
    cycle: int = 0

    def address(self, page: str) -> str:
        return f"http://127.0.0.1:{self.part.port}/#/{page}"

    def show(self, *parts: make.Part, nodes: int = 4) -> None:
        """The cluster with these queues and jobs in it."""
        self.cycle += 1
        fixed = [TopologyRecord("default", ("rack", "kubernetes.io/hostname"))]
        records = make.cluster(*fixed, *nodes_of(nodes), *parts)
        moment = moment_of(records, self.cycle)
        self.board.show(moment, difference(self.board.moment, moment, self.board.cluster))


def nodes_of(count: int) -> Iterator[make.Part]:
    for at in range(count):
        yield make.node(f"n{at:04}", gpu=8, labels={"rack": f"r{at % _RACKS}"})


def team(name: str, runs: int, waits: int) -> list[make.Part]:
    """A queue with a job that runs on the first nodes and one that waits for too much."""
    nodes = tuple(f"n{at // 8:04}" for at in range(runs))
    found: list[make.Part] = [make.queue(name, quota_gpu=8)]
    if runs:
        found.append(make.gang(f"{name}-runs", runs, gpu=1, queue=name, nodes=nodes))
    if waits:
        found.append(make.gang(f"{name}-waits", waits, gpu=8, queue=name))
    return found


@asynccontextmanager
async def served_site(
    folder: Path | None = None,
    gate: Gate | None = None,
    write_past: Callable[[Path], None] = company.write_past,
) -> AsyncIterator[Site]:
    """With a folder: of the company, with the past that is written there."""
    board, clock = Board("laptop"), SystemClock()
    handlers = None
    if folder is not None:
        write_past(folder)
        source, now = Fixed(company.records()), Unhurried(company.CompanyClock())
        live = LiveCluster(source, now, in_thread, folder / "journal", token_key=b"key")
        handlers = Handlers(
            live, why_budget_s=600.0, usage_store=folder / "usage.db", tracks=board.tracks
        )
        board.show(moment_of(company.records()), b"{}")
    part = WebPart("127.0.0.1", 0, board, clock, gate, questions=handlers)
    running = asyncio.create_task(part.run())
    await part.listening.wait()
    yield Site(board, part)
    part.stop()
    await running
