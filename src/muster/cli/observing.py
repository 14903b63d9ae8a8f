"""The cluster as a scheduler that only looks sees it: for the dashboard, and for one question."""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from muster.base.clock import SystemClock
from muster.base.log import Log
from muster.base.offload import in_thread
from muster.cli.serving import Process, connected
from muster.cli.spinner import Doing
from muster.client.connection import Connection
from muster.client.errors import ApiError, Unauthorized, Unreachable
from muster.client.read import Reader
from muster.engine.session import Session
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.observer import Observation, build_observer
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.usage.cluster_copy import ClusterCopy
from muster.usage.kept import UsageFolder
from muster.web.answers import answer
from muster.web.handlers import Asked, Handlers
from muster.web.live import LiveCluster
from muster.web.moment import Moment
from muster.web.named_objects import reading
from muster.web.observed import ObservedCluster

_MAIN: Final = ("pods", "nodes", "queues", "podgroups")
_GLANCE_S: Final = 0.5
_TRIES_S: Final = 5.0
"""An API server that starts anew is there again by then, or not for this question."""
_USER: Final = re.compile(r'User "([^"]{1,200})"')
_NO_KEY: Final = b""
"""Tokens of plans end with this process: a `muster web` gives those that last."""


class NotSeen(Exception):
    """The cluster could not be read, and why."""


def moment_of(
    seen: Observation, before: Moment | None = None, observed: ObservedCluster | None = None
) -> Moment:
    """`observed`: what the cluster says of things that no decision looks at."""
    # Who must evict first may wait for reasons of its own: a scheduler remembers more than we do.
    starts, known = {one.job for one in seen.result.plan.binds}, before.undone if before else {}
    session = Session(seen.snapshot, seen.active.policy, seen.now_s)
    moment = Moment(
        seen.snapshot,
        seen.result.explanation,
        session.policy.queue_shares(),
        seen.now_s,
        seen.number,
        seen.took_s,
        {job: known.get(job, seen.now_s) for job in sorted(starts)},
    )
    if observed is None:
        return moment
    closed_since = observed.closed_since(moment.closed)
    return replace(moment, closed_since=closed_since, labels=observed.labels)


@dataclass(frozen=True, slots=True)
class Look:
    """The cluster as it was when it was read, to be asked about without it."""

    moment: Moment
    observed: ObservedCluster
    connect: Callable[[], Connection]
    """For what is not of a moment: past usage."""
    namespace: str

    async def answer(self, path: str, query: Mapping[str, str], body: bytes = b"") -> Any:
        """What /api/v1/PATH answers; with a body: a POST."""
        connection, clock = self.connect(), SystemClock()
        reader = Reader(connection)
        copy = ClusterCopy(reader, self.namespace)
        kept = UsageFolder(copy, clock, in_thread)
        live = LiveCluster(self.observed, clock, in_thread, token_key=_NO_KEY)
        try:
            handlers = Handlers(live, kept_usage=kept, read=reading(reader))
            return await self._answered(handlers, path, query, body)
        finally:
            kept.close()
            await connection.close()

    async def _answered(
        self, handlers: Handlers, path: str, query: Mapping[str, str], body: bytes
    ) -> Any:
        routes = handlers.posted() if body else handlers.routes()
        for pattern, handler in routes.items():
            named = _match(pattern, path)
            if named is not None:
                return await handler(Asked(named, query, body))
        ailments = self.observed.ailments({}, self.moment.at_s)
        return answer(self.moment, path, query, ailments=ailments)


def _match(pattern: str, path: str) -> dict[str, str] | None:
    """What stands for the names of a pattern such as why/{namespace}/{name}; None: another."""
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    pairs = list(zip(wanted, given, strict=True))
    if any(want != part for want, part in pairs if not want.startswith("{")):
        return None
    return {want[1:-1]: part for want, part in pairs if want.startswith("{")}


def refused_sentence(refused: Mapping[str, ApiError], context: str) -> str:
    """Who may not read what, and whom to ask."""
    first = next(iter(refused.values()))
    where = f"context {context}" if context else "the current context"
    if isinstance(first, Unauthorized):
        return (
            f"the cluster does not know you ({where}): the credentials of the kubeconfig are wrong "
            "or have expired; sign in anew, or name another context with --context"
        )
    kind = next((kind for kind in _MAIN if kind in refused), next(iter(refused)))
    more = " and other kinds" if len(refused) > 1 else ""
    user = _USER.search(first.message)
    who = f"user {user[1]}, {where}" if user else where
    return (
        f"you may not list {kind}{more} in all namespaces ({who}); ask "
        "for the right to list and watch them, or ask a dashboard that has it, with --server"
    )


def unreachable_sentence(away: Unreachable, context: str) -> str:
    """Who is not there, and what to look at."""
    where = f"context {context}" if context else "the current context"
    return (
        f"the API server cannot be reached ({where}): {away}; see whether the cluster runs, or "
        "name another context with --context"
    )


async def _is_done(awaited: Collection[asyncio.Future[Any]]) -> bool:
    """Whether one of them is, soon."""
    done, _ = await asyncio.wait(awaited, timeout=_GLANCE_S, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def tell(doing: Doing, missing: Sequence[tuple[str, int, int]]) -> None:
    """What is still to be read: of what is most, how much of it is here."""
    if not missing:
        doing.what, doing.done, doing.of = "deciding", 0, 0
        return
    kind, doing.done, doing.of = max(missing, key=lambda one: one[2])
    named = [kind] if doing.of else [plural for plural, _, _ in missing]
    doing.what = f"reading the cluster: {', '.join(named)}"


async def look_once(
    process: Process,
    config: SchedulerServiceConfig,
    within_s: float,
    log: Log,
    doing: Doing | None = None,
) -> Look:
    """Read the cluster, decide once, and let go of it."""
    connection = connected(process, SystemClock(), log)
    supervisor = Supervisor(process.name, connection, log=log)
    seen: asyncio.Future[Observation] = asyncio.get_running_loop().create_future()

    async def observed(found: Observation) -> None:
        if not seen.done():
            seen.set_result(found)

    build_observer(supervisor, config, observed)
    cluster = ObservedCluster.of(supervisor, config.options.names)
    running, tries = asyncio.create_task(supervisor.run()), 0
    try:
        async with asyncio.timeout(within_s):
            while not await _is_done((running, seen)):
                if refused := supervisor.refused():
                    raise NotSeen(refused_sentence(refused, process.context))
                tries += 1
                if (away := supervisor.unreachable()) and tries * _GLANCE_S >= _TRIES_S:
                    raise NotSeen(unreachable_sentence(away, process.context))
                if doing is not None:
                    tell(doing, supervisor.being_read())
            if running.done():
                running.result()
            cluster.newest = await seen
            connect = partial(connected, process, SystemClock(), log)
            namespace = config.options.names.namespace
            moment = moment_of(cluster.newest, observed=cluster)
            return Look(moment, cluster, connect, namespace)
    except TimeoutError:
        if away := supervisor.unreachable():
            raise NotSeen(unreachable_sentence(away, process.context)) from None
        missing = "; ".join(supervisor.readiness()) or "no answer"
        raise NotSeen(f"the cluster was not read within {within_s:g} s: {missing}") from None
    except (ApiError, Unreachable) as problem:
        raise NotSeen(str(problem)) from None
    finally:
        supervisor.kill()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()
