"""One round of questions: to the server it is a session.

A server that does not answer is given up for the rest of the round.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from muster.base.offload import Offload
from muster.engine.tiers.plugins import extender as verbs
from muster.model.extender import ExtenderSettings
from muster.services.scheduler.extender.payloads import World
from muster.services.scheduler.extender.server import ExtenderServer, NoAnswer
from muster.services.scheduler.extender.sheet import Line, Sheet, evictees, open_nodes

_AT_ONCE = 16
_QUESTIONS_MAX = 20_000
"""About nodes, of one round; the rest is asked in the next."""
_FAILURES_MAX = 3
"""After so many in a row the rest of a round is not asked."""
_VICTIM_LINES_MAX = 20
_SAID_MAX = 300
T = TypeVar("T")
News = Sequence[tuple[str, str]]
"""Verbs, and the job or the task that they are about."""


class _Fit(msgspec.Struct):
    status: str = ""
    """Why not; the name is Volcano's."""
    code: int = 0


class _Scores(msgspec.Struct):
    scores: dict[str, float] | None = msgspec.field(name="nodeScore", default=None)
    error: str = msgspec.field(name="errorMessage", default="")


class _Victim(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")


class _Victims(msgspec.Struct):
    status: int = 0
    victims: list[_Victim] | None = None


class _Vote(msgspec.Struct):
    status: int = 0


class _Overused(msgspec.Struct):
    overused: bool = False


class Round:
    """Fills a sheet."""

    def __init__(
        self,
        server: ExtenderServer,
        settings: ExtenderSettings,
        world: World,
        sheet: Sheet,
        offload: Offload,
    ) -> None:
        self._server, self._settings = server, settings
        self._world, self._sheet, self._offload = world, sheet, offload
        self._in_a_row = 0
        self.failures = 0
        self.why = ""
        """What the last failure was."""
        self.is_cut = False
        """Whether there is more to ask."""

    @property
    def is_given_up(self) -> bool:
        return self._in_a_row >= _FAILURES_MAX

    async def run(self, news: News, anew: bool, on_progress: Callable[[], None]) -> None:
        """`anew`: also what is known is asked once more."""
        asks = self._settings.verbs
        if verbs.OPEN in asks:
            told = await self._told(verbs.OPEN, self._world.session)
            if not told and not self._settings.is_ignorable:
                return
        await self._tell(news)
        if verbs.ENQUEUEABLE in asks:
            await _all(self._ask_enqueueable(job) for job in self._sheet.jobs)
        if verbs.OVERUSED in asks:
            await _all(self._ask_overused(queue) for queue in self._sheet.queues)
        left = _QUESTIONS_MAX
        for at, line in enumerate(self._sheet.lines):
            left -= await self._ask_about(line, anew, left, at < _VICTIM_LINES_MAX)
            on_progress()
        if verbs.CLOSE in asks:
            await self._told(verbs.CLOSE, dict)

    # -- questions -----------------------------------------------------------------------------

    async def _ask_about(self, line: Line, anew: bool, most: int, asks_victims: bool) -> int:
        """How many nodes were asked about."""
        asks, world = self._settings.verbs, self._world
        task = msgspec.json.encode(world.task(line.task, whole=True))
        nodes = list(open_nodes(world, line, anew)) if verbs.PREDICATE in asks else []
        if len(nodes) > most:
            self.is_cut = True
        await _all(self._ask_fit(line, task, node) for node in nodes[:most])
        if verbs.PRIORITIZE in asks and (anew or nodes or not line.is_scored):
            await self._ask_scores(line, task)
        for verb in (verbs.PREEMPTABLE, verbs.RECLAIMABLE):
            if verb in asks and asks_victims:
                await self._ask_victims(line, task, verb)
        return min(len(nodes), most)

    async def _ask_fit(self, line: Line, task: bytes, node: int) -> None:
        name = self._world.snapshot.nodes.names[node]

        def body() -> bytes:
            return b'{"task":' + task + b',"node":' + bytes(self._world.node(node)) + b"}"

        said = await self._answer(verbs.PREDICATE, body, _Fit)
        line.refused.pop(name, None)
        if said is None and not self._settings.is_ignorable:
            line.crowd.pop(name, None)
            return
        line.crowd[name] = int(self._world.crowds[node])
        if said is not None and said.status:
            line.refused[name] = said.status[:_SAID_MAX]

    async def _ask_scores(self, line: Line, task: bytes) -> None:
        names = self._world.snapshot.nodes.names
        nodes = [row for row, name in enumerate(names) if name not in line.refused]

        def body() -> bytes:
            shown = b",".join(bytes(self._world.node(node)) for node in nodes)
            return b'{"task":' + task + b',"nodes":[' + shown + b"]}"

        said = await self._answer(verbs.PRIORITIZE, body, _Scores, is_long=True)
        scores = None if said is None or said.error else said.scores
        line.is_scored, line.may_go = True, scores is not None or self._settings.is_ignorable
        known = self._world.snapshot.nodes.row
        line.scores = {name: score for name, score in (scores or {}).items() if name in known}

    async def _ask_victims(self, line: Line, task: bytes, verb: str) -> None:
        world = self._world
        rows = await self._offload(partial(evictees, world, line, verb == verbs.PREEMPTABLE))

        def body() -> bytes:
            shown = msgspec.json.encode([world.task(each) for each in rows])
            return b'{"evictor":' + task + b',"evictees":' + shown + b"}"

        said = await self._answer(verb, body, _Victims, is_long=True)
        shown = {world.snapshot.tasks.records[row].uid for row in rows}
        if said is not None and said.status == 0:
            line.victims[verb] = None
            return
        named = (said.victims or ()) if said is not None else ()
        line.victims[verb] = tuple(one.uid for one in named if one.uid in shown)

    async def _ask_overused(self, queue: int) -> None:
        said = await self._answer(
            verbs.OVERUSED, lambda: _body(queue=self._world.queue(queue)), _Overused
        )
        is_over = said.overused if said is not None else not self._settings.is_ignorable
        self._sheet.overused[self._world.snapshot.queues.names[queue]] = is_over

    async def _ask_enqueueable(self, job: int) -> None:
        said = await self._answer(verbs.ENQUEUEABLE, lambda: _body(job=self._world.job(job)), _Vote)
        unsaid = 1 if self._settings.is_ignorable else -1
        vote = unsaid if said is None else (said.status > 0) - (said.status < 0)
        self._sheet.enqueueable[self._world.snapshot.jobs.keys[job]] = vote

    # -- news ----------------------------------------------------------------------------------

    async def _tell(self, news: News) -> None:
        """What was decided, in order; what is gone meanwhile is not told."""
        world = self._world
        tasks, jobs = world.snapshot.tasks, world.snapshot.jobs
        for verb, name in news:
            if verb not in self._settings.verbs:
                continue
            if verb == verbs.ENQUEUED and name in jobs.row:
                await self._told(verb, partial(_job, world, jobs.row[name]))
            elif verb != verbs.ENQUEUED and name in tasks.row:
                row = tasks.row[name]
                if verbs.is_managed(tasks.records[row], self._settings.managed):
                    await self._told(verb, partial(_task, world, row))

    # -- answers -------------------------------------------------------------------------------

    async def _answer(
        self, verb: str, body: Callable[[], bytes], kind: type[T], is_long: bool = False
    ) -> T | None:
        """None where it said nothing, or was given up. A long body is written in a thread."""
        if self.is_given_up:
            return None
        text = await self._offload(body) if is_long else body()
        return await self._guarded(self._server.ask(verb, text, kind))

    async def _told(self, verb: str, content: Callable[[], dict[str, Any]]) -> bool:
        """Whether it heard it."""
        if self.is_given_up:
            return False
        text = await self._offload(lambda: msgspec.json.encode(content()))

        async def tell() -> bool:
            await self._server.tell(verb, text)
            return True

        return bool(await self._guarded(tell()))

    async def _guarded(self, answer: Awaitable[T]) -> T | None:
        try:
            found = await answer
        except NoAnswer as error:
            self.failures += 1
            self._in_a_row += 1
            self.why = str(error)
            return None
        if not self.is_given_up:
            self._in_a_row = 0
        return found


async def _all(questions: Iterable[Awaitable[None]]) -> None:
    """A few at once."""
    left = iter(questions)

    async def work() -> None:
        for question in left:
            await question

    workers = [asyncio.ensure_future(work()) for _ in range(_AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()


def _job(world: World, job: int) -> dict[str, Any]:
    return {"job": world.job(job)}


def _task(world: World, task: int) -> dict[str, Any]:
    return {"task": world.task(task, whole=True)}


def _body(**said: Any) -> bytes:
    return msgspec.json.encode(said)
