"""Services whose requests are struck by a script; one that is killed is started again."""

import asyncio
from collections.abc import Collection, Sequence

from tests.support.lab import Lab

from muster.base.clock import Clock
from muster.client.transport import Transport
from muster.lab.chaos import ChaosTransport
from muster.lab.faults import Script, Strike


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

        async def kill() -> None:
            self._restarts.append(asyncio.create_task(self._restart(who)))
            # Whoever asked never hears an answer: it ends here.
            await asyncio.Event().wait()

        return ChaosTransport(transport, self.script, clock, on_kill=kill)

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
