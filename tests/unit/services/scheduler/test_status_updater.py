"""Of what is to be said about an object, only what is still true is written, and once."""

import json
from typing import Any

from tests.support.scripted import ScriptedServer, said
from tests.support.virtual_time import virtually

from muster.api.kinds import POD, POD_GROUP
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.client.write import Writer
from muster.services.scheduler.status_updater import StatusUpdater, Update

KEY = Key("ns", "one")


def written(*steps: Update | tuple[Any, Key]) -> list[object]:
    """The patches that reach the server after updates, and cancellations (kind, key), in order."""
    server = ScriptedServer(*(said({"metadata": {"name": "one"}}) for _ in steps))

    async def run() -> None:
        updater = StatusUpdater(Writer(server.connection()), Log("test", MemorySink()))
        for step in steps:
            updater.put(step) if isinstance(step, Update) else updater.cancel(*step)
        updater.stop()
        await updater.run()

    virtually(run())
    return [json.loads(request.body) for request in server.requests]


def update(slot: str, value: int, kind: Any = POD) -> Update:
    return Update(kind, KEY, slot, {"status": {slot: value}})


def test_the_newest_update_of_a_thing_is_the_one_that_is_written() -> None:
    assert written(update("a", 1), update("b", 2), update("a", 3)) == [
        {"status": {"a": 3}},
        {"status": {"b": 2}},
    ]


def test_cancelling_drops_all_that_waits_about_one_object_and_nothing_else() -> None:
    others = update("a", 4, POD_GROUP)
    assert written(update("a", 1), update("b", 2), others, (POD, KEY)) == [{"status": {"a": 4}}]
