"""The hourly limit on evictions holds for the hour, whatever happens to the scheduler meanwhile."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab import CONFIG_MAP, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.api.names import DEFAULT, PAST_EVICTIONS_CONFIG_MAP
from muster.client.errors import NotFound
from muster.sim.kubelet.nodes import Gpus, NodeGroup

TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus()),))
KEPT = Key(DEFAULT.namespace, PAST_EVICTIONS_CONFIG_MAP)

Meanwhile = Callable[[Lab], Awaitable[None]]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """Eight GPUs an hour."""
    conf = tmp_path / "conf.yaml"
    conf.write_text("actions: allocate, reclaim\ndisruptionBudget: {maxEvictedPerHour: 8}\n")
    return replace(TWO_NODES, conf_file=conf)


async def spend_the_hour(lab: Lab) -> None:
    """Eight GPUs are evicted for one pod, and another pod wants as many."""
    await lab.queue("a", gpus=0)
    await lab.queue("b", gpus=16)
    for number in range(16):
        await lab.pod(f"greedy-{number}", gpus=1, queue="a")
    await lab.until_running("greedy", 16)
    await lab.pod("first", gpus=8, queue="b")
    await lab.until_running("first", 1)
    await lab.pod("second", gpus=8, queue="b")


async def restart(lab: Lab) -> None:
    await lab.cluster.kill("scheduler")
    (scheduler,) = [one for one in lab.product.services if one.name == "scheduler"]
    await lab.cluster.start(scheduler)


async def stands_still(lab: Lab) -> bool:
    return (len(await lab.running("greedy")), await lab.running("second")) == (8, {})


def test_the_hourly_eviction_limit_holds_until_the_hour_is_over(setting: Setting) -> None:
    async def scenario(lab: Lab) -> None:
        await spend_the_hour(lab)
        await lab.clock.sleep(3500)
        assert await stands_still(lab)
        await lab.until_running("second", 1, within_s=200.0)

    in_lab(scenario, setting)


def test_a_scheduler_restart_does_not_reset_the_hourly_eviction_limit(setting: Setting) -> None:
    async def scenario(lab: Lab) -> None:
        await spend_the_hour(lab)
        await lab.clock.sleep(600)
        await restart(lab)
        await lab.clock.sleep(2900)
        assert await stands_still(lab)
        await lab.until_running("second", 1, within_s=200.0)

    in_lab(scenario, setting)


def test_a_scheduler_killed_while_evicting_stays_within_the_hourly_eviction_limit(
    setting: Setting,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=0)
        await lab.queue("b", gpus=16)
        for number in range(16):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 16)
        await lab.pod("first", gpus=8, queue="b")
        while not await is_kept(lab):
            await lab.clock.sleep(0.001)
        await restart(lab)
        await lab.pod("second", gpus=8, queue="b")
        await lab.clock.sleep(1800)
        assert len(await lab.running("greedy")) >= 8

    in_lab(scenario, setting)


async def is_kept(lab: Lab) -> bool:
    try:
        await lab.cluster.reader.get(CONFIG_MAP, KEPT)
    except NotFound:
        return False
    return True


async def _remove(lab: Lab) -> None:
    await lab.cluster.writer.delete(CONFIG_MAP, KEPT)


def _fill_with(text: str) -> Meanwhile:
    async def fill(lab: Lab) -> None:
        await lab.cluster.writer.patch(CONFIG_MAP, KEPT, {"data": {"default": text}})

    return fill


@pytest.mark.parametrize(
    "meanwhile",
    [
        _remove,
        _fill_with("nonsense"),
        _fill_with('[{"queue": 7}]'),
        _fill_with("[" * 5000),
        _fill_with('[{"queue": "a", "gpu_units": -1, "at_s": 1e300}]'),
    ],
    ids=["removed", "not json", "wrong types", "deep", "impossible"],
)
def test_a_deleted_or_corrupt_eviction_history_does_not_stop_the_scheduler(
    setting: Setting, meanwhile: Meanwhile
) -> None:
    async def scenario(lab: Lab) -> None:
        await spend_the_hour(lab)
        await lab.clock.sleep(60)
        await meanwhile(lab)
        await lab.clock.sleep(60)
        assert await stands_still(lab)
        await restart(lab)
        await lab.until_running("second", 1, within_s=200.0)
        stored: dict[str, Any] = await lab.cluster.reader.get(CONFIG_MAP, KEPT)
        assert '"gpu_units":8000' in stored["data"]["default"]

    in_lab(scenario, setting)


def test_without_an_hourly_limit_no_eviction_history_is_written() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=0)
        await lab.queue("b", gpus=16)
        for number in range(16):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", 16)
        await lab.pod("first", gpus=8, queue="b")
        await lab.until_running("first", 1)
        assert not await is_kept(lab)

    in_lab(scenario, TWO_NODES)
