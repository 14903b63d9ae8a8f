"""What a scheduler does that does not lead: it keeps its tables ready, and free of what is gone.

Tables list what changed since the last snapshot. Somebody who never takes one would keep the names
of all that ever was; and the first cycle after a change of leaders would begin with all of it.
"""

import asyncio
from collections.abc import Callable

from muster.base.clock import Clock
from muster.services.scheduler.cache import SchedulerCache

_EVERY_S = 30.0


async def keep_tables_ready(cache: SchedulerCache, clock: Clock, leads: Callable[[], bool]) -> None:
    """Until this replica leads; then there is nothing more to do."""
    while not leads():
        cache.snapshot(clock.now_s())
        await clock.sleep(_EVERY_S)
    await asyncio.Event().wait()
