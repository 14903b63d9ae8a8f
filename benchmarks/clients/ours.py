"""muster's own client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from benchmarks.load import node_name, pod_name
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.clock import SystemClock
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.read import Reader
from muster.client.write import Writer

_IN_FLIGHT = 32
_NODES = 100


def list_pods(kubeconfig: Path, count: int) -> int:
    async def work() -> int:
        async with _connection(kubeconfig) as connection:
            return len((await Reader(connection).list(POD)).objects)

    return asyncio.run(work())


def watch_pods(kubeconfig: Path, count: int) -> int:
    async def work() -> int:
        seen = 0
        async with _connection(kubeconfig) as connection:
            # Version 0: everything that is there, as events.
            watch = Reader(connection).watch(POD, resource_version="0")
            async with aclosing(watch) as events:
                async for _ in events:
                    seen += 1
                    if seen == count:
                        break
        return seen

    return asyncio.run(work())


def bind_pods(kubeconfig: Path, count: int) -> int:
    async def work() -> int:
        async with _connection(kubeconfig) as connection:
            writer, numbers = Writer(connection), iter(range(count))
            async with asyncio.TaskGroup() as workers:
                for _ in range(_IN_FLIGHT):
                    workers.create_task(_bind_each(writer, numbers))
        return count

    return asyncio.run(work())


async def _bind_each(writer: Writer, numbers: Iterator[int]) -> None:
    for number in numbers:
        await writer.bind(Key("default", pod_name(number)), node_name(number % _NODES))


@asynccontextmanager
async def _connection(kubeconfig: Path) -> AsyncIterator[Connection]:
    clock = SystemClock()
    access = load_access(clock, {}, path=kubeconfig)
    connection = Connection(HttpsTransport(access, clock), clock, Rand(1))
    try:
        yield connection
    finally:
        await connection.close()
