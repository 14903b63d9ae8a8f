"""A child process that writes to a durable server and prints what was acknowledged."""

import asyncio
import json
from multiprocessing.connection import Connection
from pathlib import Path

from muster.client.transport import Request
from muster.sim.apiserver.data_dir import DataDir
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings

TOKEN = "writer"
_WRITERS = 8


def write_until_killed(folder: str, acknowledged: Connection, started_at: int) -> None:
    """Creates, changes and deletes config maps; sends (name, value or None) after each answer."""
    with DataDir(Path(folder)) as data:
        asyncio.run(_write(data, acknowledged, started_at))


async def _write(data: DataDir, acknowledged: Connection, started_at: int) -> None:
    store = data.journal.opened_store()
    async with Embedded(
        EmbeddedSettings(admin_token=TOKEN), EmbeddedDependencies(store=store)
    ) as cluster:
        await asyncio.gather(
            *(_writer(cluster, acknowledged, started_at, number) for number in range(_WRITERS))
        )


async def _writer(
    cluster: Embedded, acknowledged: Connection, started_at: int, number: int
) -> None:
    count = 0
    while True:
        name = f"t{started_at}-w{number}-{count}"
        await _call(cluster, "POST", "", {"metadata": {"name": name}, "data": {"v": "1"}})
        acknowledged.send((name, "1"))
        if count % 3 == 1:
            await _call(cluster, "PUT", name, {"metadata": {"name": name}, "data": {"v": "2"}})
            acknowledged.send((name, "2"))
        if count % 3 == 2:
            await _call(cluster, "DELETE", name, None)
            acknowledged.send((name, None))
        count += 1


async def _call(cluster: Embedded, method: str, name: str, body: object) -> None:
    path = "/api/v1/namespaces/default/configmaps" + (f"/{name}" if name else "")
    headers = {"authorization": f"Bearer {TOKEN}"}
    raw = b"" if body is None else json.dumps(body).encode()
    answer = await cluster.handle(Request(method, path, (), headers, raw))
    assert answer.status in (200, 201), answer.body
