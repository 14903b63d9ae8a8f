"""Usage that is kept in the cluster: by one of two queue controllers, read by schedulers."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lab import CONFIG_MAP, Lab, Setting, in_lab
from tests.unit.usage.test_days import changed

from muster.api.meta import Key
from muster.api.names import DEFAULT, LEASE_QUEUE_CONTROLLER
from muster.base.log import Log, MemorySink
from muster.base.offload import inline
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.election import Elector
from muster.client.errors import Unreachable
from muster.client.read import Reader
from muster.client.transport import Request, Response, Transport
from muster.client.write import Writer
from muster.lab.cluster import ADMIN_TOKEN
from muster.runtime.supervisor import Supervisor
from muster.services.queues import wiring as queues
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.usage.accounts import Account, Question, read_accounts
from muster.usage.cluster_copy import ClusterCopy, map_of
from muster.usage.kept import UsageFolder

HOUR_S = 3600.0
CONF = (
    "actions: allocate, reclaim\n"
    "usageDBConfig: {clientType: embedded, connectionString: cluster, "
    "usageParams: {windowSize: 2h}}\n"
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    conf = tmp_path / "conf.yaml"
    conf.write_text(CONF)
    return Setting(
        nodes=(NodeGroup("gpu", count=1, gpus=Gpus()),),
        habits=Habits(run=Chance(mean_s=1e9)),
        conf_file=conf,
        usage_store=tmp_path / "usage.db",
        usage_in_cluster=True,
    )


@contextmanager
def folder(lab: Lab) -> Iterator[UsageFolder]:
    found = UsageFolder(ClusterCopy(lab.cluster.reader, DEFAULT.namespace), lab.clock, inline)
    yield found
    found.close()


async def accounts(lab: Lab, *by: str) -> list[Account]:
    """What `muster usage` would show."""
    now_s = lab.clock.now_s()
    with folder(lab) as kept:
        return read_accounts(await kept.path(), Question(now_s - 3 * 86_400, now_s, by=by))


async def gpu_hours(lab: Lab) -> float:
    return sum(one.gpu_hours for one in await accounts(lab, "queue"))


def used(lab: Lab, queue: str) -> float:
    loop = lab.product.loop
    assert loop is not None
    assert loop.last is not None
    known = loop.last[0].queues
    return float(known.records[known.row[queue]].usage.get("gpu", 0.0))


async def half_the_cluster_is_held(lab: Lab) -> None:
    await lab.queue("busy", gpus=0)
    await lab.job("busy", pods=4, gpus=1, queue="busy", minimum=1, labels={"user": "ann"})
    await lab.until_running("busy", 4)


def test_a_scheduler_elsewhere_divides_by_what_the_cluster_keeps(setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        await lab.clock.sleep(HOUR_S)
        assert used(lab, "busy") == pytest.approx(0.5, rel=0.05)
        (found,) = await accounts(lab, "queue", "user")
        assert (found.queue, found.user) == ("busy", "ann")
        assert found.gpu_hours == pytest.approx(4, rel=0.05)

    in_lab(story, setting)


def test_a_new_pod_without_a_file_goes_on_from_what_was_kept(setting: Setting) -> None:
    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        await lab.clock.sleep(HOUR_S)
        (service,) = [one for one in lab.product.services if one.name == "queues"]
        await lab.laptop.stop("queues")
        before = await gpu_hours(lab)
        _lose_file(setting)
        await lab.laptop.start(service)
        await lab.clock.sleep(0.5 * HOUR_S)
        assert await gpu_hours(lab) == pytest.approx(before + 2, rel=0.03)

    in_lab(story, setting)


def test_days_that_were_saved_and_put_back_count_as_before(setting: Setting) -> None:
    """As the guide says: put back before the queue controller runs."""

    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        await lab.clock.sleep(HOUR_S)
        (service,) = [one for one in lab.product.services if one.name == "queues"]
        await lab.laptop.stop("queues")
        before, writer = await gpu_hours(lab), lab.cluster.writer
        saved = [
            one
            for one in await lab.all(CONFIG_MAP, DEFAULT.namespace)
            if one["metadata"]["name"].startswith("muster-usage-")
        ]
        assert saved
        for one in saved:
            await writer.delete(CONFIG_MAP, Key(DEFAULT.namespace, one["metadata"]["name"]))
        _lose_file(setting)
        for one in saved:
            name = {"name": one["metadata"]["name"]}
            await writer.create(CONFIG_MAP, {**one, "metadata": name}, DEFAULT.namespace)
        assert await gpu_hours(lab) == pytest.approx(before)
        await lab.laptop.start(service)
        await lab.clock.sleep(0.5 * HOUR_S)
        assert await gpu_hours(lab) == pytest.approx(before + 2, rel=0.03)

    in_lab(story, setting)


def _lose_file(setting: Setting) -> None:
    assert setting.usage_store is not None
    for file in setting.usage_store.parent.glob("usage.db*"):
        file.unlink()


class Cut(Transport):
    """A network that may be cut."""

    def __init__(self, below: Transport) -> None:
        self._below = below
        self.is_cut = False

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self.is_cut:
            raise Unreachable("the network is cut")
        return await self._below.send(request, timeout_s)

    async def close(self) -> None:
        await self._below.close()


class Replica:
    """One of several queue controllers, with a file of its own and the lease of all."""

    def __init__(self, lab: Lab, name: str, folder: Path) -> None:
        self.network = Cut(lab.laptop.transport(name, ADMIN_TOKEN))
        self.sink = MemorySink()
        connection = Connection(self.network, lab.clock, Rand(len(name)))
        log = Log(name, self.sink)
        lease = Key(DEFAULT.namespace, LEASE_QUEUE_CONTROLLER)
        reader, writer = Reader(connection), Writer(connection, "queues")
        self.elector = Elector(reader, writer, lease, name, log=log)
        self.supervisor = Supervisor(name, connection, log=log, elector=self.elector)
        config = queues.QueueServiceConfig(
            DEFAULT, usage_store=folder / f"{name}.db", usage_in_cluster=True, offload=inline
        )
        queues.build(self.supervisor, config)
        self._running = asyncio.ensure_future(self.supervisor.run())

    async def stop(self) -> None:
        self.supervisor.stop()
        await asyncio.gather(self._running, return_exceptions=True)


async def replicas(lab: Lab, folder: Path, *names: str) -> list[Replica]:
    found = []
    for name in names:
        found.append(Replica(lab, name, folder))
        await lab.clock.sleep(10)
    return found


def test_a_follower_takes_over_and_not_a_second_is_lost_or_counted_twice(
    setting: Setting, tmp_path: Path
) -> None:
    async def story(lab: Lab) -> None:
        first, second = await replicas(lab, tmp_path, "first", "second")
        await half_the_cluster_is_held(lab)
        began_s = lab.clock.now_s()
        await lab.clock.sleep(HOUR_S)
        assert [one.elector.is_leader for one in (first, second)] == [True, False]
        # A power cut: what it had not written goes with it.
        first.network.is_cut = True
        await lab.clock.sleep(0.25 * HOUR_S)
        assert second.elector.is_leader
        await first.stop()
        await lab.clock.sleep(0.25 * HOUR_S)
        await second.stop()
        expected = 4 * (lab.clock.now_s() - began_s) / HOUR_S
        assert await gpu_hours(lab) == pytest.approx(expected, abs=0.03)

    in_lab(story, replace(setting, without=("queues",)))


def test_one_that_leads_again_after_another_does_not_bring_back_what_it_knew(
    setting: Setting, tmp_path: Path
) -> None:
    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        began_s = lab.clock.now_s()
        for name in ("first", "second", "first", "second"):
            (one,) = await replicas(lab, tmp_path, name)
            await lab.clock.sleep(0.25 * HOUR_S)
            await one.stop()
        expected = 4 * (lab.clock.now_s() - began_s) / HOUR_S
        assert await gpu_hours(lab) == pytest.approx(expected, rel=0.05)

    in_lab(story, replace(setting, without=("queues",)))


def test_two_processes_that_both_write_are_found_out(setting: Setting, tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        (one,) = await replicas(lab, tmp_path, "first")
        await lab.clock.sleep(600)
        day = int(lab.clock.now_s() // 86_400)
        key = Key(DEFAULT.namespace, map_of(day))
        found = await lab.cluster.reader.get(CONFIG_MAP, key)
        await lab.cluster.writer.patch(CONFIG_MAP, key, {"metadata": {"labels": {"a": "b"}}})
        await lab.clock.sleep(600)
        assert "somebody else wrote usage; it is written again" in one.sink.messages()
        now = await lab.cluster.reader.get(CONFIG_MAP, key)
        assert now["binaryData"] != found["binaryData"], "it goes on"
        await one.stop()

    in_lab(story, replace(setting, without=("queues",)))


def test_days_of_a_newer_version_are_left_alone_and_said(setting: Setting, tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await half_the_cluster_is_held(lab)
        name = map_of(int(lab.clock.now_s() // 86_400))
        theirs = {"day": b64encode(changed(format=9)).decode()}
        body = {"metadata": {"name": name}, "binaryData": theirs}
        await lab.cluster.writer.create(
            CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **body}, DEFAULT.namespace
        )
        (one,) = await replicas(lab, tmp_path, "first")
        await lab.clock.sleep(600)
        assert "a day of usage cannot be read" in one.sink.messages()
        found = await lab.cluster.reader.get(CONFIG_MAP, Key(DEFAULT.namespace, name))
        assert found["binaryData"] == theirs
        with pytest.raises(Exception, match="format 9, this version reads 1"):
            await accounts(lab, "queue")
        await one.stop()

    in_lab(story, replace(setting, without=("queues",), conf_file=None))
