"""A configuration file that cannot be read stops nobody: a pipe, a disk that hangs, a huge file."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.support.patience import ended
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import virtually

from muster.engine.config.reader import ConfigError

T = TypeVar("T")


def replaced(file: Path, how: str) -> None:
    file.unlink()
    if how == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"#" * (2 << 20))


@pytest.mark.parametrize("how", ["pipe", "huge"])
def test_a_file_that_becomes_unreadable_leaves_the_last_policy_in_force(
    tmp_path: Path, how: str
) -> None:
    async def run() -> None:
        file = tmp_path / "conf.yaml"
        file.write_text("actions: allocate\n")
        world = SchedulerWorld(conf_file=file)
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=2))
        replaced(file, how)
        await world.loop.cycle()
        assert len(world.server.written("/bindrequests")) == 1

    ended(lambda: virtually(run()))


@pytest.mark.parametrize("how", ["pipe", "huge"])
def test_a_service_does_not_start_with_such_a_file(tmp_path: Path, how: str) -> None:
    async def run() -> None:
        file = tmp_path / "conf.yaml"
        file.touch()
        replaced(file, how)
        with pytest.raises(ConfigError, match=r"not a regular file|larger than 1048576 bytes"):
            SchedulerWorld(conf_file=file)

    ended(lambda: virtually(run()))


def test_a_read_that_hangs_is_waited_for_once_and_cycles_go_on(tmp_path: Path) -> None:
    asked = []

    async def run() -> None:
        ends = asyncio.Event()

        async def hangs(work: Callable[[], T]) -> T:
            if getattr(work, "__name__", "") == "_read":
                asked.append(work)
                await ends.wait()
            return work()

        file = tmp_path / "conf.yaml"
        file.write_text("actions: allocate\n")
        world = SchedulerWorld(conf_file=file, offload=hangs)
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=2))
        began_s = world.clock.monotonic_s()
        for _ in range(4):
            await world.loop.cycle()
        assert world.clock.monotonic_s() - began_s < 6
        assert len(world.server.written("/bindrequests")) == 1
        assert len(asked) == 1
        assert world.log.messages().count("configuration not read") == 1
        file.write_text("actions: allocate, reclaim\n")
        ends.set()
        await asyncio.sleep(0)
        await world.loop.cycle()
        await world.loop.cycle()
        assert "configuration loaded" in world.log.messages()

    virtually(run())
