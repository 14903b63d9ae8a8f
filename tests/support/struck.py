"""Our services on a bad day: requests struck by a script, services killed, the API server away.

Whoever is killed is started again at once, as a Deployment would do it.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from tests.support.lab import Lab

from muster.base.clock import Clock
from muster.client.errors import Interrupted
from muster.client.transport import Request, Response, Transport
from muster.lab.chaos import ChaosTransport
from muster.lab.faults import WRITES, FaultRule, FaultScript, observed_call

OURS = ("podgrouper", "podgroups", "queues", "admission", "binder", "scheduler", "reservation")


@dataclass(frozen=True)
class Restart:
    """A service is killed after the k-th write of anybody."""

    service: str
    at: int


@dataclass(frozen=True)
class Away:
    """From the k-th write of ours on, none of us reaches the API server for a while."""

    at: int
    for_s: float = 60.0


Blow = FaultRule | Restart | Away


class Struck:
    """Stands between everybody and the API server; `arm` it when the work begins."""

    def __init__(self, may_be_away: bool = False) -> None:
        """`may_be_away`: what is listened to can break off, where nothing real would do it."""
        self.script = FaultScript()
        self.writes = 0
        """Of anybody, since it was armed."""
        self.fell = 0
        """Blows that came to pass since then."""
        self._blows: Sequence[Blow] = ()
        self._lab: Lab | None = None
        self._aftermath: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self._went_away = asyncio.Event() if may_be_away else None

    def wrap(self, who: str, transport: Transport, clock: Clock) -> Transport:
        if who in OURS:
            mortal = _Mortal(transport, self._went_away)

            async def kill() -> None:
                self._later(self._restart(who))
                await mortal.die()

            transport = ChaosTransport(mortal, self.script, clock, on_kill=kill)
        return _Heard(transport, who, self)

    def arm(self, lab: Lab, blows: Sequence[Blow] = ()) -> None:
        """Counting starts here; a blow falls when its number is reached."""
        self._lab, self._blows = lab, blows
        self.writes = self.fell = 0
        self.script.arm([blow for blow in blows if isinstance(blow, FaultRule)])

    async def over(self) -> None:
        """Returns when everybody is back."""
        while self._aftermath:
            await self._aftermath.pop()
        if self.script.rules:
            self.fell += sum(each.fault is not None for each in self.script.history)

    def heard(self, who: str, method: str, path: str) -> None:
        """A write was made, or at least asked for."""
        if not WRITES.fits(observed_call(method, path)):
            return
        self.writes += 1
        for blow in self._blows:
            match blow:
                case Restart(service, at) if self.writes == at:
                    self.fell += 1
                    self._later(self._restart(service))
                case Away(at, for_s) if who in OURS and not self.fell:
                    # Of several at once the last may be the first that we hear of.
                    if self.script.count() >= at:
                        self.fell += 1
                        self._later(self._away(for_s))

    def _later(self, what: Coroutine[Any, Any, None]) -> None:
        self._aftermath.append(asyncio.create_task(what))

    async def _restart(self, who: str) -> None:
        assert self._lab is not None
        (service,) = [one for one in self._lab.product.services if one.name == who]
        async with self._one_at_a_time:  # Nobody can be killed who is not there yet.
            await self._lab.cluster.kill(who)
            await self._lab.cluster.start(service)

    async def _away(self, for_s: float) -> None:
        assert self._lab is not None
        assert self._went_away is not None
        self.script.away = True
        self._went_away.set()
        await self._lab.clock.sleep(for_s)
        self._went_away.clear()
        self.script.away = False


class Withheld:
    """What one service hears of one resource is kept back while it is not `passing`."""

    def __init__(self, who: str, resource: str) -> None:
        self.passing = asyncio.Event()
        self.passing.set()
        self._who = who
        self._resource = resource

    def pass_one(self) -> None:
        """Let the next of what is kept back through, and nothing after it."""
        self.passing.set()
        self.passing.clear()

    def wrap(self, who: str, transport: Transport, _: Clock) -> Transport:
        return _Late(transport, self._resource, self.passing) if who == self._who else transport


class _Late:
    """A transport whose watches of one resource tell only what may pass."""

    def __init__(self, inner: Transport, resource: str, passing: asyncio.Event) -> None:
        self._inner = inner
        self._resource = resource
        self._passing = passing

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        answer = await self._inner.send(request, timeout_s)
        is_watch = ("watch", "true") in request.query
        if is_watch and request.path.endswith(f"/{self._resource}"):
            return _LateAnswer(answer, self._passing)
        return answer

    async def close(self) -> None:
        await self._inner.close()


class _LateAnswer:
    def __init__(self, inner: Response, passing: asyncio.Event) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._passing = passing

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._inner.chunks()) as chunks:
            async for chunk in chunks:
                await self._passing.wait()
                yield chunk

    async def close(self) -> None:
        await self._inner.close()


class _Heard:
    """A transport that tells of every write that goes through it."""

    def __init__(self, inner: Transport, who: str, struck: Struck) -> None:
        self._inner = inner
        self._who = who
        self._struck = struck

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        try:
            return await self._inner.send(request, timeout_s)
        finally:
            self._struck.heard(self._who, request.method, request.path)

    async def close(self) -> None:
        await self._inner.close()


class _Mortal:
    """A transport that, once dead, does nothing more: its owner is about to be ended.

    What it was listening to breaks off when the server goes away.
    """

    def __init__(self, inner: Transport, went_away: asyncio.Event | None) -> None:
        self._inner = inner
        self._is_dead = False
        self._went_away = went_away

    async def die(self) -> None:
        self._is_dead = True
        await asyncio.Event().wait()

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self._is_dead:
            await asyncio.Event().wait()
        answer = await self._inner.send(request, timeout_s)
        if self._went_away is None or request.method != "GET":
            return answer
        return _Breakable(answer, self._went_away)

    async def close(self) -> None:
        await self._inner.close()


class _Breakable:
    """An answer that breaks off when an event comes."""

    def __init__(self, inner: Response, broken: asyncio.Event) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._broken = broken

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        broken = asyncio.ensure_future(self._broken.wait())
        chunks = self._inner.chunks()
        following = asyncio.ensure_future(anext(chunks))
        try:
            while True:
                await asyncio.wait((following, broken), return_when=asyncio.FIRST_COMPLETED)
                if broken.done():
                    raise Interrupted("the API server went away")
                try:
                    yield following.result()
                except StopAsyncIteration:
                    return
                following = asyncio.ensure_future(anext(chunks))
        finally:
            for waiting in (broken, following):
                waiting.cancel()
            # Whoever reads on, or closes, must not meet the one that was reading.
            await asyncio.gather(broken, following, return_exceptions=True)
            await chunks.aclose()

    async def close(self) -> None:
        await self._inner.close()
