"""The embedded API server behind the same plain call as a real control plane."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl

from muster.client.transport import Request
from muster.lab.plain_call import PlainResponse
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_TOKEN = "tests"


class EmbeddedServer:
    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: Embedded) -> None:
        self._loop = loop
        self._transport = cluster.transport(_TOKEN)

    def call(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> PlainResponse:
        """One request, JSON both ways."""
        place, _, query = path.partition("?")
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": content_type, "accept": "application/json"}
        request = Request(method, place, parse_qsl(query), headers, content)
        return self._loop.run_until_complete(self._answer(request))

    async def _answer(self, request: Request) -> PlainResponse:
        response = await self._transport.send(request)
        data = await response.read()
        await response.close()
        return PlainResponse(response.status, json.loads(data or b"{}"))


@contextmanager
def embedded_server() -> Iterator[EmbeddedServer]:
    loop = asyncio.new_event_loop()
    cluster = Embedded(EmbeddedSettings(admin_token=_TOKEN))
    try:
        loop.run_until_complete(cluster.__aenter__())
        yield EmbeddedServer(loop, cluster)
    finally:
        loop.run_until_complete(cluster.__aexit__(None, None, None))
        loop.close()
