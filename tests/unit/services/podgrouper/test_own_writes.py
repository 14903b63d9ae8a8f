"""A pod group that we have just written is known before the watch shows it."""

import asyncio
from typing import Any, cast

from muster.api.meta import Key
from muster.base.clock import VirtualClock
from muster.client.informer import Informer
from muster.client.kinds import Plain
from muster.services.podgrouper.own_writes import OwnWrites

KEY = Key("default", "g")


class Copy:
    """As much of an informer as is looked at, told of changes by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.held: Plain | None = None
        self.handlers: list[Any] = []

    def get(self, _: Key) -> Plain | None:
        return self.held

    def add_handler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def tell(self, new: Plain | None) -> None:
        old, self.held = self.held, new
        for handler in self.handlers:
            handler(old, new)


def group(version: int) -> Plain:
    return {"metadata": {"namespace": "default", "name": "g", "resourceVersion": str(version)}}


def test_an_own_write_is_used_until_the_informer_has_caught_up() -> None:
    copy = Copy()
    own = OwnWrites(cast("Informer[Plain]", copy))
    own.note(KEY, group(5))
    assert own.newest(KEY) == group(5)
    copy.tell(group(4))
    assert own.newest(KEY) == group(5)
    copy.tell(group(6))
    assert own.newest(KEY) == group(6)
    copy.tell(None)
    assert own.newest(KEY) is None


def test_an_own_write_older_than_the_informer_is_ignored() -> None:
    copy = Copy()
    own = OwnWrites(cast("Informer[Plain]", copy))
    copy.tell(group(7))
    own.note(KEY, group(5))
    assert own.newest(KEY) == group(7)


def test_a_group_that_came_and_went_before_its_write_was_noted_is_forgotten() -> None:
    copy = Copy()
    own = OwnWrites(cast("Informer[Plain]", copy))
    for number in range(1000):
        copy.tell(group(5))
        copy.tell(None)
        own.note(Key("default", f"g-{number}"), group(5))
    copy.clock.advance(61)
    assert own.newest(Key("default", "g-0")) is None
    assert len(own._ahead) == 0


def test_writes_of_one_group_are_serialized() -> None:
    own = OwnWrites(cast("Informer[Plain]", Copy()))
    created = 0

    async def worker() -> None:
        nonlocal created
        async with own.turn(KEY):
            if own.newest(KEY) is None:
                await asyncio.sleep(0)  # the request is on its way
                created += 1
                own.note(KEY, group(1))

    async def main() -> None:
        await asyncio.gather(*(worker() for _ in range(10)))

    asyncio.run(main())
    assert created == 1
