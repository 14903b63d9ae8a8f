"""The local copy: indexes, handlers, and objects that cannot be read."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from tests.support.history import THINGS, Fault, HistoryServer, Thing
from tests.support.scripted import Answer, ScriptedServer, refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import Reject, Unreadable
from muster.api.meta import Key, replace
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import Unreachable
from muster.client.informer import Informer
from muster.client.read import Reader
from muster.client.transport import InProcessTransport, Request, Response


class Watched:
    """An informer on a server, and what it logged."""

    def __init__(self, server: HistoryServer) -> None:
        self.server = server
        self.sink = MemorySink()
        self.clock = LoopClock()
        connection = Connection(InProcessTransport(server.handle), self.clock, Rand(3))
        self.reader = Reader(connection)
        self.informer = Informer(self.reader, THINGS, log=Log("t", self.sink))

    def names(self) -> list[str]:
        return [key.name for key in self.informer.objects]

    async def settle(self) -> None:
        await self.clock.sleep(100)


def watching(
    scene: Callable[[Watched], Awaitable[None]], server: HistoryServer | None = None
) -> None:
    """Plays a scene while an informer runs."""

    async def run() -> None:
        watched = Watched(server or HistoryServer())
        running = asyncio.create_task(watched.informer.run())
        try:
            await scene(watched)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    virtually(run())


@pytest.mark.row(3)
def test_an_informer_has_synced_once_the_first_list_is_applied() -> None:
    async def scene(watched: Watched) -> None:
        watched.server.write("a", 1)
        assert not watched.informer.has_synced
        await watched.informer.synced()
        assert watched.names() == ["a"]
        assert watched.informer.get(Key("here", "a")) is not None
        assert watched.informer.get(Key("here", "z")) is None

    watching(scene)


def test_an_index_follows_every_change() -> None:
    async def scene(watched: Watched) -> None:
        by_size = watched.informer.add_index(lambda thing: [thing.size])
        for name, size in [("a", 1), ("b", 1), ("c", 2)]:
            watched.server.write(name, size)
        await watched.settle()
        assert [thing.metadata.name for thing in by_size.get(1)] == ["a", "b"]
        watched.server.write("a", 2)
        watched.server.delete("b")
        await watched.settle()
        assert by_size.get(1) == []
        assert list(by_size.values()) == [2], "an empty entry leaves nothing behind"
        assert [thing.metadata.name for thing in by_size.get(2)] == ["c", "a"]
        late = watched.informer.add_index(lambda thing: [thing.metadata.name])
        assert [thing.size for thing in late.get("c")] == [2]

    watching(scene)


def test_a_handler_added_late_gets_every_object() -> None:
    async def scene(watched: Watched) -> None:
        watched.server.write("a", 1)
        await watched.settle()
        heard: list[tuple[int | None, int | None]] = []
        watched.informer.add_handler(
            lambda old, new: heard.append((old.size if old else None, new.size if new else None))
        )
        watched.server.write("a", 2)
        watched.server.delete("a")
        await watched.settle()
        assert heard == [(None, 1), (1, 2), (2, None)]

    watching(scene)


def test_a_failing_handler_does_not_stop_the_others() -> None:
    async def scene(watched: Watched) -> None:
        def fail(old: Thing | None, new: Thing | None) -> None:
            raise RuntimeError("out of cheese")

        heard: list[Thing | None] = []
        watched.informer.add_handler(fail)
        watched.informer.add_handler(lambda old, new: heard.append(new))
        watched.server.write("a", 1)
        await watched.settle()
        watched.server.write("a", 2)
        await watched.settle()
        assert [thing and thing.size for thing in heard] == [1, 2]
        assert watched.sink.messages().count("handler failed") == 1, "said once for each object"

    watching(scene)


@pytest.mark.row(3)
def test_an_object_that_cannot_be_decoded_is_set_aside_until_it_can() -> None:
    async def scene(watched: Watched) -> None:
        told: list[tuple[Key, Reject | None]] = []
        watched.informer.on_set_aside.append(lambda key, reject: told.append((key, reject)))
        watched.server.write("bad", "banana")
        watched.server.write("good", 1)
        await watched.settle()
        assert watched.names() == ["good"]
        (reject,) = watched.informer.set_aside.values()
        assert (reject.key, reject.path) == (Key("here", "bad"), "$.size")
        assert "object set aside" in watched.sink.messages()

        watched.server.write("bad", 5)
        await watched.settle()
        assert watched.names() == ["good", "bad"]
        assert not watched.informer.set_aside
        assert told == [(reject.key, reject), (reject.key, None)]

    watching(scene)


def test_an_object_that_becomes_unreadable_stays_at_its_last_readable_version() -> None:
    async def scene(watched: Watched) -> None:
        watched.server.write("a", 1)
        await watched.settle()
        watched.server.write("a", "banana")
        await watched.settle()
        key = Key("here", "a")
        kept = watched.informer.get(key)
        assert kept is not None
        assert kept.size == 1
        assert key in watched.informer.set_aside
        watched.server.delete("a")
        await watched.settle()
        assert not watched.informer.set_aside
        assert watched.names() == []

    watching(scene)


def test_objects_are_stored_as_the_transform_returns_them() -> None:
    async def scene(watched: Watched) -> None:
        log = Log("t", watched.sink)
        reader = watched.reader
        informer = Informer(
            reader, THINGS, log=log, transform=lambda thing: replace(thing, size=-1)
        )
        watched.server.write("listed", 1)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        watched.server.write("watched", 2)
        await watched.settle()
        assert [thing.size for thing in informer.objects.values()] == [-1, -1]
        assert [key.name for key in informer.objects] == ["listed", "watched"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    watching(scene)


def test_an_object_that_the_transform_finds_unreadable_is_set_aside() -> None:
    def transform(thing: Thing) -> Thing:
        if thing.size > 9:
            raise Unreadable("$.size", "too large")
        return thing

    async def scene(watched: Watched) -> None:
        for name, size in (("a", 1), ("large", 10), ("z", 2)):
            watched.server.write(name, size)
        informer = Informer(watched.reader, THINGS, log=Log("t", watched.sink), transform=transform)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        assert [key.name for key in informer.objects] == ["a", "z"]
        watched.server.write("later", 11)
        watched.server.write("b", 3)
        await watched.settle()
        assert [key.name for key in informer.objects] == ["a", "z", "b"]
        aside = {key.name: (one.path, one.reason) for key, one in informer.set_aside.items()}
        assert aside == {"large": ("$.size", "too large"), "later": ("$.size", "too large")}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    watching(scene)


def test_the_first_list_is_applied_page_by_page_and_is_complete() -> None:
    """A page is told before the next has come; what a new beginning does not show goes again."""
    thing = {"namespace": "here", "uid": "u", "resourceVersion": "1"}

    def page(*names: str, token: str = "", left: int = 0) -> Answer:
        items = [{"metadata": {**thing, "name": name, "uid": f"u-{name}"}} for name in names]
        meta = {"resourceVersion": "9", "continue": token, "remainingItemCount": left}
        return said({"metadata": meta, "items": items})

    told: list[str] = []
    expected: list[int] = []

    async def run() -> None:
        server = ScriptedServer(
            page("a", "b", token="more", left=3),
            refused(410, "Expired"),
            page("b", "c", token="more"),
            page("d"),
            *[Unreachable("later")] * 100,
        )
        connection = server.connection()
        informer = Informer(Reader(connection, page_size=2), THINGS, log=Log("t", MemorySink()))

        def hear(old: Thing | None, new: Thing | None) -> None:
            told.append(f"+{new.metadata.name}" if new else f"-{old.metadata.name if old else ''}")
            assert not informer.has_synced
            expected.append(informer.expected)

        informer.add_handler(hear)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        assert sorted(key.name for key in informer.objects) == ["b", "c", "d"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtually(run())
    assert told == ["+a", "+b", "+c", "+d", "-a"]
    assert expected == [0, 0, 5, 3, 4]  # as far as the pages before have said


def test_a_dropped_watch_resumes_without_a_new_list() -> None:
    async def scene(watched: Watched) -> None:
        await watched.settle()
        for number in range(5):
            watched.server.write("a", number)
            watched.server.drop()
            await watched.settle()
        known = watched.informer.get(Key("here", "a"))
        assert known is not None
        assert known.size == 4
        assert watched.server.lists == 1
        assert watched.server.watches >= 6

    watching(scene)


def test_a_bookmark_avoids_a_relist_after_compaction() -> None:
    async def scene(watched: Watched) -> None:
        watched.server.write("a", 1)
        await watched.settle()
        watched.server.pass_by()
        await watched.settle()
        watched.server.compact()
        watched.server.drop()
        await watched.settle()
        assert watched.server.lists == 1

    watching(scene)


async def beat(watched: Watched, minutes: int) -> None:
    """A bookmark every minute, as Kubernetes sends them."""
    for _ in range(minutes):
        await watched.clock.sleep(60)
        watched.server.pass_by()
    await watched.clock.sleep(1)


def test_a_watch_that_went_deaf_is_noticed_by_its_missing_bookmarks() -> None:
    async def scene(watched: Watched) -> None:
        await beat(watched, 3)
        watched.server.deafen()
        watched.server.write("a", 1)
        await watched.clock.sleep(145)
        assert watched.names() == []
        await watched.clock.sleep(10)
        assert watched.names() == ["a"]
        assert watched.server.lists == 1, "it goes on from the last version seen"
        assert watched.server.watches == 2

    watching(scene)


def test_a_watch_that_is_deaf_again_and_again_recovers_each_time() -> None:
    async def scene(watched: Watched) -> None:
        for name in "abc":
            await beat(watched, 2)
            watched.server.deafen()
            watched.server.write(name, 1)
            await watched.clock.sleep(170)
            assert name in watched.names()

    watching(scene)


def test_a_server_without_bookmarks_may_be_silent_until_the_watch_ends() -> None:
    async def scene(watched: Watched) -> None:
        await watched.clock.sleep(400)
        assert watched.server.watches == 1
        watched.server.deafen()
        watched.server.write("a", 1)
        await watched.clock.sleep(230)
        assert watched.names() == ["a"]

    watching(scene)


def test_repeated_relists_back_off() -> None:
    server = HistoryServer()
    server.watch_faults.extend(Fault("forgotten") for _ in range(100))

    async def scene(watched: Watched) -> None:
        await watched.clock.sleep(60)
        assert 3 <= server.lists <= 15
        server.watch_faults.clear()
        server.write("a", 1)
        await watched.settle()
        assert watched.names() == ["a"]

    watching(scene, server)


def test_the_reflector_shows_its_error_until_it_recovers() -> None:
    server = HistoryServer()
    server.list_faults.extend(Fault("unreachable") for _ in range(3))

    async def scene(watched: Watched) -> None:
        await watched.clock.sleep(0.1)
        assert "connection refused" in str(watched.informer.reflector.trouble)
        await watched.informer.synced()
        assert watched.informer.reflector.trouble is None
        assert watched.sink.messages().count("list or watch failed") == 3
        assert "list and watch recovered" in watched.sink.messages()

    watching(scene, server)


def test_list_retries_back_off_while_the_server_is_unavailable() -> None:
    server = HistoryServer()
    server.list_faults.extend(Fault("unreachable") for _ in range(12))

    async def scene(watched: Watched) -> None:
        await watched.informer.synced()
        waits = [
            float(str(fields["retry_after_s"]))
            for _, _, message, fields in watched.sink.events
            if message == "list or watch failed"
        ]
        assert waits[0] < 1 < waits[5]
        assert max(waits) <= 45

    watching(scene, server)


def test_an_informer_goes_on_after_an_error_that_nobody_foresaw() -> None:
    async def run() -> None:
        server, clock = HistoryServer(), LoopClock()
        broken: list[Exception] = [RuntimeError("session is closed"), UnicodeError("token")]

        async def handle(request: Request) -> Response:
            if broken:
                raise broken.pop()
            return await server.handle(request)

        connection = Connection(InProcessTransport(handle), clock, Rand(3))
        informer = Informer(Reader(connection), THINGS, log=Log("t", MemorySink()))
        running = asyncio.create_task(informer.run())
        server.write("a", 1)
        await clock.sleep(100)
        assert [key.name for key in informer.objects] == ["a"]
        broken.append(ValueError("not a number"))
        server.write("b", 1)
        await clock.sleep(1000)
        assert [key.name for key in informer.objects] == ["a", "b"]
        assert not broken
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtually(run())


def test_an_informer_hears_of_changes_seconds_after_a_long_outage() -> None:
    async def run() -> None:
        server, clock, away = HistoryServer(), LoopClock(), True

        async def handle(request: Request) -> Response:
            if away:
                raise Unreachable("connection refused")
            return await server.handle(request)

        connection = Connection(InProcessTransport(handle), clock, Rand(3))
        informer = Informer(Reader(connection), THINGS, log=Log("t", MemorySink()))
        running = asyncio.create_task(informer.run())
        server.write("a", 1)
        await clock.sleep(600)
        away = False
        await clock.sleep(9)
        assert [key.name for key in informer.objects] == ["a"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtually(run())


def test_an_informer_takes_a_server_that_has_come_back_at_its_word() -> None:
    """An API server that has just started refuses lists for a while: come again in a second."""

    async def run() -> None:
        server, clock, state = HistoryServer(), LoopClock(), "away"
        asked_s: list[float] = []

        async def handle(request: Request) -> Response:
            if state == "away":
                raise Unreachable("connection refused")
            asked_s.append(clock.monotonic_s())
            if state == "starting":
                return refused(429, "TooManyRequests", retryAfterSeconds=1)
            return await server.handle(request)

        connection = Connection(InProcessTransport(handle), clock, Rand(3))
        informer = Informer(Reader(connection), THINGS, log=Log("t", MemorySink()))
        running = asyncio.create_task(informer.run())
        server.write("a", 1)
        await clock.sleep(600)
        state = "starting"
        await clock.sleep(60)
        state = "back"
        await clock.sleep(3)
        assert [key.name for key in informer.objects] == ["a"]
        assert max(later - sooner for sooner, later in pairwise(asked_s)) < 3.0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtually(run())


def test_a_kind_that_is_not_served_is_said_once_and_again_when_it_is() -> None:
    async def run() -> None:
        served, sink, clock = HistoryServer(), MemorySink(), LoopClock()
        is_installed = False

        async def handle(request: Request) -> Response:
            return await served.handle(request) if is_installed else refused(404, "NotFound")

        def said() -> list[str]:
            return [message for message in sink.messages() if message.startswith("kind ")]

        connection = Connection(InProcessTransport(handle), clock, Rand(3))
        informer = Informer(Reader(connection), THINGS, log=Log("t", sink), is_optional=True)
        running = asyncio.create_task(informer.run())
        await clock.sleep(300)
        assert informer.has_synced, "there are none, and that is known"
        assert said() == ["kind not served, doing without"]
        served.write("a", 1)
        is_installed = True
        await clock.sleep(100)
        assert [key.name for key in informer.objects] == ["a"]
        assert said() == ["kind not served, doing without", "kind is served now"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    virtually(run())
