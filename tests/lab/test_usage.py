"""Fair share over time with the whole product: the queue controller records, the scheduler decides
by it, accounts are kept; on virtual time."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lab import Lab, Setting, in_lab

from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.usage.accounts import Account, Question, read_accounts

HOUR_S = 3600.0
ONE_NODE = Setting(
    nodes=(NodeGroup("gpu", count=1, gpus=Gpus()),),
    habits=Habits(run=Chance(mean_s=1e9)),
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """Usage of the last two hours, from our own store."""
    store = tmp_path / "usage.db"
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "actions: allocate, reclaim\n"
        f"usageDBConfig: {{clientType: embedded, connectionString: {store}, "
        "usageParams: {windowSize: 2h}}\n"
    )
    return replace(ONE_NODE, conf_file=conf, usage_store=store)


async def one_team_works_then_another_comes(lab: Lab) -> None:
    for name in ("busy", "returns"):
        await lab.queue(name, gpus=0)
    await lab.job("busy", pods=8, gpus=1, queue="busy", minimum=1, labels={"user": "ann"})
    await lab.until_running("busy", 8)
    await lab.clock.sleep(HOUR_S)
    await lab.job("returns", pods=8, gpus=1, queue="returns", minimum=1, labels={"user": "bob"})


def accounts(setting: Setting, lab: Lab, *by: str) -> list[Account]:
    assert setting.usage_store is not None
    now_s = lab.clock.now_s()
    return read_accounts(setting.usage_store, Question(now_s - 3 * 86_400, now_s, by=by))


@pytest.mark.row(33)
def test_a_team_that_comes_back_holds_most_until_both_used_the_same(setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await one_team_works_then_another_comes(lab)
        await lab.clock.sleep(0.1 * HOUR_S)
        assert len(await lab.running("returns")) >= 7, "the other one had it all for an hour"
        await lab.clock.sleep(3 * HOUR_S)
        held = {name: len(await lab.running(name)) for name in ("busy", "returns")}
        assert sum(held.values()) == 8
        assert 3 <= held["busy"] <= 5, held

    in_lab(story, setting)


@pytest.mark.row(30)
def test_without_a_usage_database_the_past_does_not_count(setting: Setting, tmp_path: Path) -> None:
    conf = tmp_path / "plain.yaml"
    conf.write_text("actions: allocate, reclaim\n")

    async def story(lab: Lab) -> None:
        await one_team_works_then_another_comes(lab)
        await lab.clock.sleep(0.1 * HOUR_S)
        assert len(await lab.running("returns")) == 4

    in_lab(story, replace(setting, conf_file=conf))


def test_accounts_say_who_held_waited_and_lost_what(setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await one_team_works_then_another_comes(lab)
        await lab.clock.sleep(0.05 * HOUR_S)
        by_user = {one.user: one for one in accounts(setting, lab, "user", "queue")}
        ann, bob = by_user["ann"], by_user["bob"]
        assert (ann.queue, bob.queue) == ("busy", "returns")
        assert ann.gpu_hours + bob.gpu_hours == pytest.approx(8 * 1.05, rel=0.03)
        assert ann.gpu_hours > 8
        assert ann.evictions >= 1
        assert 0 < ann.lost_gpu_hours <= ann.gpu_hours
        assert bob.evictions == 0
        assert bob.wait_max_s < 300

    in_lab(story, setting)


def test_accounts_and_usage_go_on_after_the_queue_controller_was_killed(setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await lab.queue("busy", gpus=0)
        await lab.job("busy", pods=4, gpus=1, queue="busy", minimum=1)
        await lab.until_running("busy", 4)
        await lab.clock.sleep(0.5 * HOUR_S)
        await lab.laptop.kill("queues")
        await lab.clock.sleep(0.5 * HOUR_S)
        (service,) = [one for one in lab.product.services if one.name == "queues"]
        await lab.laptop.start(service)
        await lab.clock.sleep(0.5 * HOUR_S)
        (found,) = accounts(setting, lab, "queue")
        # What nobody watched is in no account.
        assert found.gpu_hours == pytest.approx(4 * 1, rel=0.03)
        loop = lab.product.loop
        assert loop is not None
        assert loop.last is not None
        queues = loop.last[0].queues
        used = queues.records[queues.row["busy"]].usage
        assert used["gpu"] == pytest.approx(0.5, rel=0.02), "half of the cluster while it was seen"

    in_lab(story, setting)
