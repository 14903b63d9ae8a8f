"""The configuration in a ConfigMap: waited for, followed, and a bad one leaves the last good."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from tests.support.scheduler_world import Body, SchedulerWorld
from tests.support.virtual_time import virtually

from muster.api import kinds
from muster.api.meta import Key
from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.api.yaml_text import read_yaml
from muster.client.read import Selection
from muster.engine.config.reader import ConfigError
from muster.engine.profiles.kube_batch import FLAT_CONF
from muster.services.scheduler.conf_map import conf_text
from muster.services.scheduler.options import Options

NINE = {str(key): str(value) for key, value in read_yaml(FLAT_CONF).items()}
WHERE = Key("kube-system", "scheduler-conf")


def config_map(data: Mapping[str, str]) -> Body:
    metadata = {"name": WHERE.name, "namespace": WHERE.namespace, "uid": "conf"}
    return {"kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def world() -> SchedulerWorld:
    options = Options(
        names=Names(scheduler="kube-batch"), profile=ProfileName.KUBE_BATCH_02, watches_claims=False
    )
    return SchedulerWorld(options, conf_map=WHERE)


@asynccontextmanager
async def deciding(made: SchedulerWorld) -> AsyncIterator[None]:
    """With the loop running."""
    running = asyncio.create_task(made.loop.run())
    await made.settle()
    try:
        yield
    finally:
        made.loop.stop()
        await running


def problems(made: SchedulerWorld) -> list[str]:
    return [str(e[3].get("problem", e[2])) for e in made.log.events if e[3].get("kept")]


def actions(made: SchedulerWorld) -> list[str]:
    return [name for name, _ in made.loop._active_policy().actions]


def test_one_map_is_followed_and_no_other_is_asked_for() -> None:
    followed = world().supervisor._informers._shared
    selections = {selection for kind, selection, _ in followed if kind == kinds.CONFIG_MAP}
    assert selections == {Selection("kube-system", fields="metadata.name=scheduler-conf")}


@pytest.mark.row(37)
def test_nothing_is_decided_before_there_is_a_config_map_that_can_be_used() -> None:
    async def run() -> None:
        made = world()
        async with deciding(made):
            assert problems(made) == [
                "ConfigMap kube-system/scheduler-conf: does not exist; create it, or name another"
            ]
            assert "does not exist" in " ".join(made.supervisor.readiness())
            made.show(config_map({**NINE, "actions": "allocate, dance"}))
            await made.settle()
            assert 'no action "dance"' in problems(made)[-1]
            assert made.loop.cycles == 0
            made.show(config_map(NINE))
            await made.settle()
            assert made.loop.cycles == 1
            assert actions(made) == ["reclaim", "allocate", "preempt"]
            assert "does not exist" not in " ".join(made.supervisor.readiness())

    virtually(run())


@pytest.mark.row(37)
def test_a_changed_map_is_taken_in_and_a_bad_one_leaves_the_last_good_one() -> None:
    async def run() -> None:
        made = world()
        made.show(config_map(NINE))
        async with deciding(made):
            made.show(config_map({**NINE, "actions": "allocate"}))
            await asyncio.sleep(2.0)
            assert actions(made) == ["allocate"]
            made.show(config_map({**NINE, "plugins": "gagn"}))
            await asyncio.sleep(5.0)
            assert actions(made) == ["allocate"]
            (said,) = problems(made)
            assert "plugins: must name at least one plugin; known are" in said
            made.hide(config_map(NINE))
            await asyncio.sleep(5.0)
            assert actions(made) == ["allocate"]
            assert problems(made)[1:] == ["configuration missing"]

    virtually(run())


def test_a_scheduler_that_waits_for_its_map_can_be_stopped() -> None:
    async def run() -> None:
        made = world()
        async with asyncio.timeout(5.0):
            async with deciding(made):
                pass

    virtually(run())


@pytest.mark.row(37)
@pytest.mark.parametrize(
    "data", [NINE, {"kube-batch.conf": FLAT_CONF}, {"plugin.gang.jobready": "true"}]
)
def test_a_map_is_a_flat_one_or_holds_a_whole_file(data: Mapping[str, str]) -> None:
    async def run() -> None:
        made = world()
        made.show(config_map(data))
        async with deciding(made):
            assert made.loop.cycles == 1
            assert actions(made)[-2:] == ["allocate", "preempt"]

    virtually(run())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "it has no data"),
        ({"a": "x", "b": "y"}, "or one key that holds a file; it has a, b"),
    ],
)
def test_a_map_that_is_neither_is_an_error_that_says_what_it_must_be(
    data: Mapping[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        conf_text(data, "ConfigMap a/b")
