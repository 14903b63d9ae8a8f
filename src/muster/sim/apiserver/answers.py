"""What the server answers with: the in-process side of `muster.client.transport.Response`."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec

JSON = {"content-type": "application/json"}


class ApiResponse:
    """A whole body, or a stream of chunks."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] = JSON,
        stream: AsyncIterator[bytes] | None = None,
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = headers
        self.body = body
        self.stream = stream

    async def read(self) -> bytes:
        if self.stream is None:
            return self.body
        return b"".join([chunk async for chunk in self.stream])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.stream is None:
            yield self.body
            return
        async for chunk in self.stream:
            yield chunk

    async def close(self) -> None:
        if self.stream is not None and hasattr(self.stream, "aclose"):
            await self.stream.aclose()


def json_answer(value: Any, status: int = 200) -> ApiResponse:
    return ApiResponse(status, msgspec.json.encode(value))


def text_answer(text: str, status: int = 200) -> ApiResponse:
    return ApiResponse(status, text.encode(), {"content-type": "text/plain; charset=utf-8"})
