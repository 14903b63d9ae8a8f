"""Nothing that becomes of the stored history of evictions stops evictions, or cycles."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.scripted import Answer, refused
from tests.support.virtual_time import virtually

from muster.client.transport import Request

_CONF = "actions: stalegangeviction\ndisruptionBudget: {maxEvictedPerHour: 8}\n"
_STALE = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "conf.yaml"
    path.write_text(_CONF)
    return path


def stale_gang(world: SchedulerWorld) -> None:
    world.show(node("n1"), queue(), group("old", minimum=2, metadata=_STALE))
    world.show(pod("o", group="old", node="n1"))


def stored(world: SchedulerWorld) -> list[str]:
    """How the history was to be written, in order."""
    return [method for method, _, _ in world.server.written("/configmaps")]


@pytest.mark.parametrize(
    "trouble",
    [
        OSError("the token cannot be read"),
        RuntimeError("Session is closed"),
        refused(403, "Forbidden"),
    ],
    ids=["a file", "a library", "a refusal"],
)
def test_an_eviction_goes_on_though_the_history_cannot_be_written(
    conf: Path, trouble: Answer | Exception
) -> None:
    async def scenario() -> SchedulerWorld:
        world = SchedulerWorld(conf_file=conf)
        stale_gang(world)

        def react(asked: Request) -> Any:
            is_history = "/configmaps" in asked.path and asked.method != "GET"
            return trouble if is_history else None

        world.server.react = react
        await world.loop.cycle()
        assert "eviction history not written" in world.log.messages()
        world.server.react = lambda _: None
        tried = len(stored(world))
        await world.loop._eviction_history.write()
        assert len(stored(world)) > tried, "what is not stored is written with the next"
        return world

    world = virtually(scenario())
    assert len(world.server.written("/eviction")) == 1


@pytest.mark.parametrize(
    "found",
    [Answer(200, [b"[]"]), Answer(200, [b'{"metadata": 7}']), refused(403, "Forbidden")],
    ids=["a list", "no object", "a refusal"],
)
def test_a_cycle_goes_on_though_the_history_cannot_be_read(conf: Path, found: Answer) -> None:
    async def scenario() -> None:
        world = SchedulerWorld(conf_file=conf)
        stale_gang(world)
        world.server.react = lambda asked: found if asked.method == "GET" else None
        assert len((await world.loop.cycle()).plan.evictions) == 1
        assert "eviction history not read" in world.log.messages()

    virtually(scenario())
