"""The scheduler's searches for victims obey the budgets of its configuration, by its own clock."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import LoopClock, virtually

_CONF = (
    "actions: allocate, reclaim\nscenarioSearchBudgets: {maxActionSearchDuration: {reclaim: 2s}}"
)


class TickingClock(LoopClock):
    """Each look at it costs a second."""

    looks = 0

    def monotonic_s(self) -> float:
        self.looks += 1
        return super().monotonic_s() + self.looks


def contended(world: SchedulerWorld) -> None:
    """A queue holds all of the GPUs and owns none of them; another wants what it owns."""
    world.show(node("n1"))
    for name, quota in (("greedy", 0), ("modest", 8)):
        body: dict[str, Any] = queue(name)
        body["spec"]["resources"]["gpu"] = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
        world.show(body)
    for number in range(8):
        held = f"held-{number}"
        world.show(group(held, queue="greedy"), pod(held, node="n1"))
    world.show(group("wants", queue="modest"), pod("wants", gpus=4))


@pytest.mark.parametrize(
    ("clock", "evictions", "said"),
    [(LoopClock, 4, []), (TickingClock, 0, [{"reclaim.cut_short": 1}])],
    ids=["in no time", "too slowly"],
)
def test_a_search_for_victims_that_takes_longer_than_its_budget_is_cut_short_and_logged(
    tmp_path: Path, clock: type[LoopClock], evictions: int, said: list[dict[str, int]]
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(_CONF)

    async def main() -> SchedulerWorld:
        world = SchedulerWorld(conf_file=conf, clock=clock())
        contended(world)
        assert len((await world.loop.cycle()).plan.evictions) == evictions
        return world

    events = virtually(main()).log.events
    assert [fields["jobs"] for _, _, text, fields in events if text == "searches cut short"] == said


@pytest.mark.parametrize(("news", "cut"), [(True, 1), (False, 0)])
def test_a_search_gives_way_when_something_happens_while_it_is_decided(
    tmp_path: Path, news: bool, cut: int
) -> None:
    """Two jobs of one queue that nobody can make room for, and a pod that comes meanwhile."""
    conf = tmp_path / "conf.yaml"
    conf.write_text("actions: allocate, reclaim")

    async def main() -> SchedulerWorld:
        world = SchedulerWorld(conf_file=conf, clock=TickingClock())
        contended(world)
        world.show(group("more", queue="modest"), pod("more", gpus=7))
        active = world.loop._active_policy()
        comes = ("comes", lambda _: world.show(group("new"), pod("new")) if news else None)
        world.loop._active_policy = lambda: replace(active, actions=(comes, *active.actions))
        await world.loop.decide()
        return world

    events = virtually(main()).log.events
    said = [fields["jobs"] for _, _, text, fields in events if text == "searches cut short"]
    assert said == [{"reclaim.cut_short": cut}] * cut
