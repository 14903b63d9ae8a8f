"""A handler that failed is told again, until it has what the server has."""

import asyncio
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry
from tests.support.history import THINGS, HistoryServer, Thing
from tests.support.virtual_time import LoopClock, virtually

from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import Reader
from muster.client.transport import InProcessTransport
from muster.runtime.meters import InformerMeters


class Mirror:
    """Keeps the sizes of things, as a handler does; fails for as often as it is told to."""

    def __init__(self) -> None:
        self.server = HistoryServer()
        self.clock = LoopClock()
        self.sink = MemorySink()
        connection = Connection(InProcessTransport(self.server.handle), self.clock, Rand(3))
        self.informer = Informer(Reader(connection), THINGS, log=Log("t", self.sink))
        self.informer.add_handler(self.hear)
        self.sizes: dict[str, int] = {}
        self.fails = 0
        self.heard: list[tuple[int | None, int | None]] = []

    def hear(self, old: Thing | None, new: Thing | None) -> None:
        self.heard.append((_size(old), _size(new)))
        if self.fails:
            self.fails -= 1
            raise RuntimeError("out of cheese")
        if new is not None:
            self.sizes[new.metadata.name] = new.size
        elif old is not None:
            del self.sizes[old.metadata.name]


def _size(thing: Thing | None) -> int | None:
    return None if thing is None else thing.size


def mirroring(scene: Callable[[Mirror], Awaitable[None]]) -> None:
    async def run() -> None:
        mirror = Mirror()
        running = asyncio.create_task(mirror.informer.run())
        await mirror.informer.synced()
        try:
            await scene(mirror)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    virtually(run())


def test_a_handler_that_failed_is_told_again_until_it_succeeds() -> None:
    async def scene(mirror: Mirror) -> None:
        mirror.server.write("a", 1)
        await mirror.clock.sleep(1)
        mirror.fails = 4
        mirror.server.write("a", 2)
        await mirror.clock.sleep(60)
        assert mirror.sizes == {"a": 2}
        # Each time as one that last heard of the version before.
        assert mirror.heard[1:] == [(1, 2)] * 5
        assert mirror.server.gets == 4
        assert mirror.sink.messages().count("handler failed") == 1
        assert mirror.sink.messages().count("handler caught up") == 1

    mirroring(scene)


def test_objects_that_a_handler_did_not_take_in_are_counted() -> None:
    async def scene(mirror: Mirror) -> None:
        registry = CollectorRegistry()
        InformerMeters(registry).add(mirror.informer)
        label = {"kind": "things.muster.test"}
        mirror.fails = 2
        mirror.server.write("a", 1)
        await mirror.clock.sleep(0.5)
        assert registry.get_sample_value("muster_informer_out_of_step", label) == 1
        assert mirror.informer.out_of_step == {Key("here", "a")}
        await mirror.clock.sleep(60)
        assert registry.get_sample_value("muster_informer_out_of_step", label) == 0
        assert registry.get_sample_value("muster_informer_handler_failures", label) == 2

    mirroring(scene)


def test_the_next_change_tells_what_was_missed_too() -> None:
    async def scene(mirror: Mirror) -> None:
        mirror.server.write("a", 1)
        await mirror.clock.sleep(1)
        mirror.fails = 1
        mirror.server.write("a", 2)
        mirror.server.write("a", 3)
        await mirror.clock.sleep(60)
        assert mirror.heard[1:] == [(1, 2), (1, 3)]
        assert mirror.server.gets == 0

    mirroring(scene)


def test_a_handler_that_failed_to_remove_an_object_is_told_again_of_its_end() -> None:
    async def scene(mirror: Mirror) -> None:
        mirror.server.write("a", 1)
        await mirror.clock.sleep(1)
        mirror.fails = 3
        mirror.server.delete("a")
        await mirror.clock.sleep(60)
        assert mirror.sizes == {}
        assert mirror.heard[1:] == [(1, None)] * 4

    mirroring(scene)


def test_an_object_made_anew_is_a_second_story_for_one_that_missed_the_end_of_the_first() -> None:
    async def scene(mirror: Mirror) -> None:
        mirror.server.write("a", 1)
        await mirror.clock.sleep(1)
        mirror.fails = 1
        mirror.server.delete("a")
        mirror.server.write("a", 5)
        await mirror.clock.sleep(60)
        assert mirror.heard[1:] == [(1, None), (1, None), (None, 5)]
        assert mirror.sizes == {"a": 5}

    mirroring(scene)


def test_a_handler_that_always_fails_is_told_ever_more_rarely() -> None:
    async def scene(mirror: Mirror) -> None:
        mirror.fails = 1_000_000
        for number in range(50):
            mirror.server.write(f"thing-{number}", number)
        mirror.server.write("goes", 1)
        await mirror.clock.sleep(1)
        mirror.server.delete("goes")
        await mirror.clock.sleep(24 * 3600)
        assert mirror.server.gets < 50 * (24 * 3600 / 300 + 20)
        assert len(mirror.informer.out_of_step) == 50, "what has gone is given up"
        assert mirror.sink.messages().count("handler failed") == 51

    mirroring(scene)
