"""A server that returns the responses of a script, in order."""

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.virtual_time import LoopClock

from muster.base.clock import Clock
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.limits import UNLIMITED, Limits
from muster.client.transport import InProcessTransport, Request, Response


@dataclass
class Answer:
    """A response; an exception among the chunks breaks it off there."""

    status: int = 200
    body: Sequence[bytes | Exception] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    closed: bool = False
    ended: bool = False
    """Whether nobody reads its chunks any more."""

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in self.body:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
        finally:
            self.ended = True

    async def close(self) -> None:
        self.closed = True


Reaction = Answer | Exception | Callable[[Request], Answer]


class ScriptedServer:
    """Answers requests from a list and remembers them."""

    def __init__(self, *script: Reaction) -> None:
        self.script = deque(script)
        self.requests: list[Request] = []

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        reaction = self.script.popleft()
        if isinstance(reaction, Exception):
            raise reaction
        return reaction if isinstance(reaction, Answer) else reaction(request)

    def connection(self, *, limits: Limits = UNLIMITED, clock: Clock | None = None) -> Connection:
        transport = InProcessTransport(self.handle)
        return Connection(transport, clock or LoopClock(), Rand(1), limits=limits)


def said(body: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, [json.dumps(body).encode()], named)


def refused(code: int, reason: str, message: str = "", **details: Any) -> Answer:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return said({**status, "message": message, "details": details}, code)


def line(change: str, obj: object) -> bytes:
    return json.dumps({"type": change, "object": obj}).encode() + b"\n"
