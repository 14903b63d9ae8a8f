"""A real HTTP server as somebody would write it for Volcano's `extender`, and cycles beside it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from msgspec.structs import replace
from tests.support.batch import NOW_S, Batch

from muster.api import core
from muster.api.meta import ObjectMeta
from muster.base.clock import SystemClock
from muster.base.log import Level, Log
from muster.base.offload import in_thread
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.engine.tiers.plugins.extender import settings_of
from muster.model.extender import ExtenderAnswers
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.services.scheduler.extender.asker import Asker
from muster.services.scheduler.extender.payloads import Objects
from muster.services.scheduler.extender.server import connect_with

Handler = Callable[[Any], Any]
_LONG_S = 30.0


@dataclass
class Server:
    """Answers each verb by a function of what is asked."""

    verbs: dict[str, Handler]
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    def count(self, verb: str) -> int:
        return sum(asked == verb for asked, _ in self.asked)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        verb = request.path.rpartition("/")[2]
        said = await request.json()
        self.asked.append((verb, said))
        self.headers.append(dict(request.headers))
        found = self.verbs[verb](said)
        if isinstance(found, Awaitable):
            found = await found
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)


@dataclass
class Lines:
    """What the log says."""

    said: list[str] = field(default_factory=list)

    def write(self, level: Level, logger: str, message: str, fields: Mapping[str, object]) -> None:
        self.said.append(f"{message}: {fields.get('why', '')}")


@dataclass
class Play:
    """A cluster, a conf and a server; the asker runs beside."""

    told: Batch
    conf: str
    server: Server
    asker: Asker
    log: list[str]
    answers: ExtenderAnswers | None = None
    _told: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, answers: ExtenderAnswers | None) -> None:
        self.answers = answers
        self._told.set()

    async def cycle(self) -> CycleResult:
        """One cycle with what was said until now; returns when the round after it ended."""
        volcano = profile_of("volcano")
        read = parse_for(volcano, self.conf, "conf")
        policy, actions = build_policy(read, None, volcano), build_actions(read, volcano)
        self.asker.configure(settings_of(policy))
        snapshot = snapshot_of(self.told.seen(extender=self.answers).records())
        result = run_cycle(snapshot, policy, actions, NOW_S, EMPTY)
        self._told.clear()
        await self.asker.note(snapshot, result, NOW_S)
        async with asyncio.timeout(_LONG_S):
            await self._told.wait()
        self._carry_out(result)
        return result

    def _carry_out(self, result: CycleResult) -> None:
        """What got a node runs there."""
        node_of = {bind.task: bind.node for bind in result.plan.binds}
        self.told.tasks = [
            replace(task, status=TaskStatus.RUNNING, node=node_of[task.uid])
            if task.uid in node_of
            else task
            for task in self.told.tasks
        ]


def conf(port: int, verbs: list[str], actions: str = "allocate", **arguments: object) -> str:
    """One that asks the server on that port for these."""
    said = {"extender.urlPrefix": f"http://127.0.0.1:{port}/v1"}
    said |= {f"extender.{verb}Verb": verb for verb in verbs}
    said |= {f"extender.{name}": value for name, value in arguments.items()}  # type: ignore[misc]
    plugins = ["{name: gang}", "{name: predicates}"]
    plugins.append(f"{{name: extender, arguments: {json.dumps(said)}}}")
    return f"actions: {actions!r}\ntiers:\n- plugins: [{', '.join(plugins)}]\n"


def playing(
    told: Batch,
    verbs: dict[str, Handler],
    story: Callable[[Play], Awaitable[None]],
    actions: str = "allocate",
    **arguments: object,
) -> None:
    """Tell a story with a server that answers so."""

    async def main() -> None:
        server = Server(verbs)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{rest:.*}", server.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.port = runner.addresses[0][1]
        lines = Lines()
        clock = SystemClock()
        objects = Objects(lambda uid: _pod(told, uid), lambda name: None)
        asker = Asker(
            connect_with(clock),
            objects,
            lambda said: play.hear(said),
            clock,
            in_thread,
            Log("extender", lines),
        )
        play = Play(
            told, conf(server.port, list(verbs), actions, **arguments), server, asker, lines.said
        )
        running = asyncio.ensure_future(asker.run())
        try:
            await story(play)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await runner.cleanup()

    asyncio.run(main())


def _pod(told: Batch, uid: str) -> core.Pod | None:
    record = next((task for task in told.tasks if task.uid == uid), None)
    if record is None:
        return None
    meta = ObjectMeta(name=record.name, namespace=record.namespace, labels=record.labels)
    return core.Pod(metadata=meta)
