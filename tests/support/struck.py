"""Services whose requests are struck by a script; one that is killed is started again."""

import asyncio
from collections.abc import Collection, Sequence

from tests.support.lab import Lab

from muster.base.clock import Clock
from muster.client.transport import Request, Response, Transport
from muster.lab.chaos import ChaosTransport
from muster.lab.faults import Script, Strike


class _Mortal:
    """A transport that, once dead, does nothing more: its owner is about to be ended."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._is_dead = False

    async def die(self) -> None:
        self._is_dead = True
        await asyncio.Event().wait()

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self._is_dead:
            await asyncio.Event().wait()
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


class Struck:
    """Stands between some services and the API server; `arm` it when the story begins."""

    def __init__(self, services: Collection[str]) -> None:
        self.script = Script()
        self._services = services
        self._lab: Lab | None = None
        self._restarts: list[asyncio.Task[None]] = []

    def wrap(self, who: str, transport: Transport, clock: Clock) -> Transport:
        if who not in self._services:
            return transport
        mortal = _Mortal(transport)

        async def kill() -> None:
            self._restarts.append(asyncio.create_task(self._restart(who)))
            await mortal.die()

        return ChaosTransport(mortal, self.script, clock, on_kill=kill)

    def arm(self, lab: Lab, strikes: Sequence[Strike] = ()) -> None:
        self._lab = lab
        self.script.arm(strikes)

    async def restarted(self) -> None:
        await asyncio.gather(*self._restarts)

    async def _restart(self, who: str) -> None:
        assert self._lab is not None
        await self._lab.cluster.kill(who)
        (service,) = [one for one in self._lab.product.services if one.name == who]
        await self._lab.cluster.start(service)
