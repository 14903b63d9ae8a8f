"""A transport on which things go wrong as a `FaultScript` says: for services in this process.

It stands between a client and any other transport, so that the same faults are played over the
embedded API server on virtual time and over a real one. For programs of others there is the same
as a server in between: `chaos_proxy`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from muster.base.clock import Clock
from muster.client.errors import Interrupted, Unreachable
from muster.client.transport import Request, Response, Transport
from muster.lab.faults import (
    WRITE_FAULTS,
    WRITES,
    AnswerInstead,
    CallMatcher,
    CutStream,
    Delay,
    Drop,
    Fault,
    FaultRule,
    FaultScript,
    Hang,
    Kill,
    LoseAnswer,
    Refuse,
    every_fault,
    observed_call,
    refusal,
)

Flow = Callable[[FaultScript], Awaitable[None]]
OnKill = Callable[[], Awaitable[None]]


class FlowFailed(Exception):
    """A flow that goes well by itself did not survive a fault."""

    def __init__(self, strike: FaultRule, script: FaultScript) -> None:
        struck = [str(each.call) for each in script.history if each.fault is not None]
        super().__init__(
            f"{strike.fault} at write {strike.at} ({', '.join(struck) or 'not reached'})"
        )
        self.strike = strike
        self.script = script


async def play_every_fault(
    flow: Flow, faults: Sequence[Fault] = WRITE_FAULTS, which: CallMatcher = WRITES
) -> int:
    """Run `flow` once as it is, then once for each fault at each of its writes.

    A flow builds its world, does its work with the script it is given, and ends by checking the
    world. Returns how many faults it survived; the first that it does not is a `FlowFailed`.
    """
    clean = FaultScript()
    await flow(clean)
    strikes = list(every_fault(clean.count(which), faults, which))
    for strike in strikes:
        script = FaultScript([strike])
        try:
            await flow(script)
        except Exception as error:
            raise FlowFailed(strike, script) from error
    return len(strikes)


class ChaosTransport:
    """`inner`, struck by `script`. `on_kill` ends whoever is behind this transport."""

    def __init__(
        self, inner: Transport, script: FaultScript, clock: Clock, on_kill: OnKill | None = None
    ) -> None:
        self._inner = inner
        self.script = script
        self._clock = clock
        self._on_kill = on_kill

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        watch = ("watch", "true") in request.query or ("watch", "1") in request.query
        what = observed_call(request.method, request.path, watch)
        match self.script.fault_for(what):
            case None:
                return await self._inner.send(request, timeout_s)
            case Delay(by_s):
                await self._clock.sleep(by_s)
                return await self._inner.send(request, timeout_s)
            case CutStream() as cut:
                return _CutResponse(await self._inner.send(request, timeout_s), cut)
            case Refuse(status, retry_after_s):
                return refused(status, str(what), retry_after_s)
            case AnswerInstead(status):
                await self._do(request, timeout_s)
                return refused(status, str(what))
            case fault:
                raise await self._broken(fault, request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()

    async def _broken(self, fault: Fault, request: Request, timeout_s: float | None) -> Unreachable:
        match fault:
            case LoseAnswer():
                await self._do(request, timeout_s)
            case Hang() if timeout_s is None:
                await asyncio.Event().wait()
            case Hang():
                await self._clock.sleep(timeout_s or 0.0)
            case Kill(after_write):
                if after_write:
                    await self._do(request, timeout_s)
                if self._on_kill is not None:
                    await self._on_kill()
            case Drop():
                pass
        return Unreachable(f"{request.method} {request.path}: {type(fault).__name__} by script")

    async def _do(self, request: Request, timeout_s: float | None) -> None:
        """Let the server do it, and hear it out so that it is done."""
        response = await self._inner.send(request, timeout_s)
        await response.read()
        await response.close()


class MadeUpResponse:
    """An answer that no server gave."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def close(self) -> None:
        """Nothing is held open."""


class _CutResponse:
    """An answer that breaks off."""

    def __init__(self, inner: Response, cut: CutStream) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._cut = cut

    async def read(self) -> bytes:
        async for _ in self.chunks():
            pass
        raise AssertionError("a cut answer has no end")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with (
            aclosing(self._inner.chunks()) as chunks,
            aclosing(cut_lines(chunks, self._cut)) as pieces,
        ):
            async for piece in pieces:
                yield piece
        raise Interrupted("the answer broke off by script")

    async def close(self) -> None:
        await self._inner.close()


async def cut_lines(chunks: AsyncIterator[bytes], cut: CutStream) -> AsyncGenerator[bytes, None]:
    """The first lines of a stream, and half of the next if it is to break inside."""
    left, rest = cut.after_lines, b""
    if left == 0 and not cut.inside_next:
        return
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if left == 0:
                yield line[: len(line) // 2]
                return
            left -= 1
            yield line + b"\n"
            if left == 0 and not cut.inside_next:
                return


def refused(status: int, what: str, retry_after_s: int | None = None) -> MadeUpResponse:
    headers = {"content-type": "application/json"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    body = refusal(status, f"{what}: {status} by script", retry_after_s)
    return MadeUpResponse(status, headers, json.dumps(body).encode())
