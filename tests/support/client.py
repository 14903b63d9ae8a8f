"""Our own client on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from muster.api.kinds import Kind
from muster.base.clock import SystemClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.https import HttpsTransport
from muster.client.informer import Informer
from muster.client.kubeconfig import Access, load_access
from muster.client.read import EVERYTHING, Reader, Selection
from muster.client.write import Writer

T = TypeVar("T")

CLOCK = SystemClock()
_WAIT_S = 60.0


@dataclass(frozen=True)
class Client:
    reader: Reader
    writer: Writer

    @property
    def connection(self) -> Connection:
        return self.reader.connection


@asynccontextmanager
async def client_with(access: Access) -> AsyncIterator[Client]:
    connection = Connection(HttpsTransport(access, CLOCK), CLOCK, Rand(1))
    try:
        yield Client(Reader(connection), Writer(connection, "test"))
    finally:
        await connection.close()


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    async with client_with(load_access(CLOCK, {}, path=kubeconfig)) as client:
        yield client


@asynccontextmanager
async def informing(
    client: Client,
    kind: Kind[T],
    selection: Selection = EVERYTHING,
    handler: Callable[[T | None, T | None], None] | None = None,
) -> AsyncIterator[tuple[Informer[T], MemorySink]]:
    """A running informer that has synced, and what it logs."""
    sink = MemorySink()
    informer = Informer(client.reader, kind, selection, log=Log("t", sink))
    if handler is not None:
        informer.add_handler(handler)
    running = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(_WAIT_S):
            await informer.synced()
        yield informer, sink
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds: Callable[[], bool], what: str, timeout_s: float = _WAIT_S) -> None:
    """Wait for the world to become so; fail with `what` if it does not."""
    try:
        async with asyncio.timeout(timeout_s):
            while not holds():  # noqa: ASYNC110 - the world has no event for it
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s:.0f} s: {what}") from None


def config_map(name: str, count: int = 0, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"count": str(count)}}
