"""The server that is asked: one POST of JSON for each question."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from muster.base.clock import Clock
from muster.base.json_text import NotJson, parse_json
from muster.client.errors import BadAccess, Interrupted, Unreachable
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access
from muster.client.transport import Request, Transport
from muster.model.extender import ExtenderSettings

ANSWER_BYTES_MAX = 10 << 20
"""As in Volcano."""
_OK = 200
_JSON = {"content-type": "application/json"}
T = TypeVar("T")


class NoAnswer(Exception):
    """It said nothing that can be used; the text says what."""


class ExtenderServer:
    """Nobody else is asked: redirections are not followed, and no credential of ours is shown."""

    def __init__(self, settings: ExtenderSettings, transport: Transport) -> None:
        self._settings, self._transport = settings, transport

    async def ask(self, verb: str, body: bytes, kind: type[T]) -> T:
        """What it answers. Raises `NoAnswer`."""
        text = await self._sent(verb, body)
        try:
            return parse_json(text, kind)
        except NotJson as error:
            raise NoAnswer(f"{verb}: this is no answer: {error}") from None

    async def tell(self, verb: str, body: bytes) -> None:
        """Whatever it answers. Raises `NoAnswer` where it did not."""
        await self._sent(verb, body)

    async def close(self) -> None:
        await self._transport.close()

    async def _sent(self, verb: str, body: bytes) -> bytes:
        path = f"/{self._settings.verbs[verb].lstrip('/')}"
        request = Request("POST", path, headers=_JSON, body=body)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                response = await self._transport.send(request, self._settings.timeout_s)
                try:
                    if response.status != _OK:
                        raise NoAnswer(f"{verb}: it answered {response.status}")
                    found = bytearray()
                    async for chunk in response.chunks():
                        found += chunk
                        if len(found) > ANSWER_BYTES_MAX:
                            raise NoAnswer(f"{verb}: an answer of more than 10 MiB")
                    return bytes(found)
                finally:
                    await response.close()
        except TimeoutError:
            said = f"{verb}: no answer within {self._settings.timeout_s:g} s"
            raise NoAnswer(said) from None
        except (Unreachable, Interrupted, BadAccess) as error:
            raise NoAnswer(f"{verb}: {error}") from None


Connect = Callable[[ExtenderSettings], ExtenderServer]


def connect_with(clock: Clock) -> Connect:
    """Makes servers of settings."""

    def connect(settings: ExtenderSettings) -> ExtenderServer:
        access = Access(settings.url, context="extender")
        return ExtenderServer(settings, HttpsTransport(access, clock))

    return connect
