"""build(supervisor, pod): the whole object graph of what runs in a reservation pod."""

import asyncio

from muster.api.meta import Key
from muster.client.write import Writer
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.services.reservation.agent import Agent
from muster.services.reservation.discover import visible_devices


def build(supervisor: Supervisor, config: Key) -> None:
    """`config` is the pod that this runs in."""
    writer = Writer(supervisor.connection, "muster-reservation")
    agent = Agent(supervisor.reader, writer, supervisor.log, visible_devices)

    async def hold() -> None:
        await agent.announce(config)
        await asyncio.Event().wait()

    supervisor.add(Loop("reservation", hold), Phase.SERVING)
