"""The transport into an app of this process."""

import asyncio

import pytest
from tests.support.scripted import Answer, ScriptedServer
from tests.support.virtual_time import virtually

from muster.client.errors import Unreachable
from muster.client.transport import InProcessTransport, Request, Response


def test_credentials_are_added_to_every_request() -> None:
    server = ScriptedServer(Answer())

    async def run() -> None:
        transport = InProcessTransport(server.handle, {"authorization": "Bearer t"})
        await transport.send(Request("GET", "/x", headers={"accept": "application/json"}))
        await transport.close()

    virtually(run())
    assert server.requests[0].headers == {
        "accept": "application/json",
        "authorization": "Bearer t",
    }


def test_a_handler_that_times_out_is_unreachable() -> None:
    async def never(request: Request) -> Response:
        await asyncio.sleep(1e6)
        return Answer()

    async def run() -> None:
        with pytest.raises(Unreachable, match="no answer within 5 s"):
            await InProcessTransport(never).send(Request("GET", "/x"), timeout_s=5)

    virtually(run())
