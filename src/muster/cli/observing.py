"""The cluster as a scheduler that only looks sees it: for the dashboard, and for one question."""

import asyncio
from pathlib import Path

from muster.base.clock import SystemClock
from muster.base.log import Log
from muster.cli.serving import Process, connected
from muster.client.errors import ApiError, Unreachable
from muster.engine.session import Session
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.observer import Observation, build_observer
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.web.moment import Moment


class NotSeen(Exception):
    """The cluster could not be read, and why."""


def moment_of(seen: Observation) -> Moment:
    session = Session(seen.snapshot, seen.active.policy, seen.now_s)
    return Moment(
        seen.snapshot,
        seen.result.explanation,
        session.policy.queue_shares(),
        seen.now_s,
        seen.number,
        seen.took_s,
    )


async def look_once(
    kubeconfig: Path | None, config: SchedulerServiceConfig, within_s: float, log: Log
) -> Moment:
    """Read the cluster, decide once, and let go of it."""
    connection = connected(Process("cli", kubeconfig=kubeconfig), SystemClock(), log)
    supervisor = Supervisor("cli", connection, log=log)
    seen: asyncio.Future[Observation] = asyncio.get_running_loop().create_future()

    async def observed(found: Observation) -> None:
        if not seen.done():
            seen.set_result(found)

    build_observer(supervisor, config, observed)
    running = asyncio.create_task(supervisor.run())
    try:
        async with asyncio.timeout(within_s):
            await asyncio.wait((running, seen), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return moment_of(await seen)
    except TimeoutError:
        missing = "; ".join(supervisor.readiness()) or "no answer"
        raise NotSeen(f"the cluster was not read within {within_s:g} s: {missing}") from None
    except (ApiError, Unreachable) as problem:
        raise NotSeen(str(problem)) from None
    finally:
        supervisor.kill()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()
