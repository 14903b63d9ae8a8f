"""A loop that is held up is seen."""

import asyncio

from prometheus_client import CollectorRegistry
from tests.support.virtual_time import LoopClock, virtually

from muster.runtime.loop_lag import LoopLag


class _LateClock(LoopClock):
    """Wakes a sleeper later than asked, once."""

    late_s = 3.0

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + self.late_s)
        self.late_s = 0.0


def test_the_worst_delay_of_the_last_minute_is_shown() -> None:
    async def scene() -> None:
        registry, clock = CollectorRegistry(), _LateClock()
        lag = LoopLag(clock, registry)
        running = asyncio.create_task(lag.run())
        await asyncio.sleep(10.0)
        assert abs((registry.get_sample_value("muster_event_loop_lag_seconds") or 0) - 3.0) < 0.01
        await asyncio.sleep(70.0)
        assert lag.worst_s() < 0.01, "what is over is forgotten"
        running.cancel()

    virtually(scene())
