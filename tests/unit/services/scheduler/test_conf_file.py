"""The configuration file: a bad one is said once, and the last good one stays in force."""

from pathlib import Path

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import virtually

from muster.engine.config.reader import ConfigError

GOOD = b"actions: allocate\n"
LATIN = "actions: allocate # gr\xf6\xdfer\n".encode("latin-1")


def test_a_file_that_is_not_utf_8_is_said_once_and_the_last_good_one_decides(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        file = tmp_path / "conf.yaml"
        file.write_bytes(GOOD)
        world = SchedulerWorld(conf_file=file)
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=2))
        file.write_bytes(LATIN)
        for _ in range(3):
            await world.loop.cycle()
        assert len(world.server.written("/bindrequests")) == 1
        rejected = [e for e in world.log.events if e[2] == "configuration rejected"]
        assert len(rejected) == 1
        assert "is not UTF-8: byte 22" in str(rejected[0][3]["problem"])
        file.write_bytes(b"actions: allocate, reclaim\n")
        await world.loop.cycle()
        assert "configuration loaded" in world.log.messages()

    virtually(run())


def test_a_service_does_not_start_with_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    async def run() -> None:
        file = tmp_path / "conf.yaml"
        file.write_bytes(LATIN)
        with pytest.raises(ConfigError, match="save it as UTF-8"):
            SchedulerWorld(conf_file=file)

    virtually(run())
