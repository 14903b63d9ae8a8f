"""Configuration without effect is logged, counted by a metric, and listed on a page."""

from pathlib import Path
from typing import cast

from tests.support.scheduler_world import SchedulerWorld
from tests.support.virtual_time import virtually

_USAGE = "usageDBConfig: {clientType: fake}\n"
_WARNING = "configuration without effect"


def test_keys_without_effect_are_logged_once_per_configuration_change(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.yaml"

    async def scenario() -> None:
        conf.write_text(f"actions: allocate\n{_USAGE}configurations: [{{name: enqueue}}]\n")
        world = SchedulerWorld(conf_file=conf)
        metric, page = (
            "muster_configuration_without_effect",
            world.supervisor.debug["configuration"],
        )
        value = world.supervisor.registry.get_sample_value
        assert world.log.messages().count(_WARNING) == 2
        assert value(metric, {"key": "configurations"}) == 1
        for _ in range(2):
            await world.loop.cycle()
        assert world.log.messages().count(_WARNING) == 2, "logged once"
        conf.write_text(f"actions: allocate\n{_USAGE}")
        await world.loop.cycle()
        assert world.log.messages().count(_WARNING) == 3
        assert value(metric, {"key": "configurations"}) is None
        assert value(metric, {"key": "usageDBConfig.clientType"}) == 1
        (line,) = cast("list[str]", page())
        assert line.startswith("usageDBConfig.clientType: has no effect")

    virtually(scenario())
