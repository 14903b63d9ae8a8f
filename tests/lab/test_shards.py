"""Several schedulers, each with nodes of its own, in one cluster."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    BY_REQUEST,
    NODE,
    POD_GROUP,
    QUEUE,
    Lab,
    Setting,
    in_lab,
)
from tests.support.struck import Withheld

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.offload import inline
from muster.client.transport import Transport
from muster.lab.hosting import HostedService
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler import roles
from muster.services.scheduler import wiring as scheduler
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

POOL = "kai.scheduler/node-pool"
ALONE = ("podgrouper", "podgroups", "queues", "admission", "scaleadjuster", "reservation")
_EACH = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


async def _start_shard(lab: Lab, name: str) -> None:
    options = replace(BY_REQUEST, shard=name, names=lab.product.names)

    def build(supervisor: Supervisor) -> None:
        scheduler.build(supervisor, SchedulerServiceConfig(options, offload=inline))

    rights = roles.rights(lab.product.names, (name,))
    supervisor = await lab.cluster.start(HostedService(f"scheduler-{name}", build, rights))

    async def is_ready() -> bool:
        return not supervisor.readiness()

    await lab.until(is_ready, 60.0, f"scheduler {name} is ready")
    spec = {"resources": {"cpu": _EACH, "memory": _EACH, "gpu": _EACH}}
    metadata = {"name": f"queue-{name}", "labels": {POOL: name}}
    await lab.create(QUEUE, {"metadata": metadata, "spec": spec})


async def _gang(lab: Lab, name: str, pool: str) -> None:
    spec = {"queue": f"queue-{pool}", "minMember": 2}
    metadata = {"name": name, "labels": {POOL: pool}}
    await lab.create(POD_GROUP, {"metadata": metadata, "spec": spec})
    for number in range(2):
        await lab.pod(f"{name}-{number}", gpus=4, annotations={"pod-group-name": name})


@pytest.mark.row(114)
def test_each_shard_binds_pods_to_the_nodes_of_its_own_pool() -> None:
    nodes = [
        NodeGroup(f"node-{pool}", count=2, gpus=Gpus(count=8), labels={POOL: pool})
        for pool in ("a", "b")
    ]

    async def scenario(lab: Lab) -> None:
        for pool in ("a", "b"):
            await _start_shard(lab, pool)
        for number in range(3):  # room for two of each
            for pool in ("a", "b"):
                await _gang(lab, f"{pool}{number}", pool)
        for pool in ("a", "b"):
            await lab.until_running(pool, 4)
            on = (await lab.running(pool)).values()
            assert all(name.startswith(f"node-{pool}-") for name in on)
            assert max(Counter(on).values()) == 2
        await lab.laptop.settled()
        for request in await lab.all(BIND_REQUEST):
            pool = request["metadata"]["name"][0]
            assert request["metadata"]["labels"][POOL] == pool
        said = [
            (one["metadata"]["labels"][POOL], condition["nodePool"])
            for one in await lab.all(POD_GROUP)
            for condition in (one.get("status") or {}).get("schedulingConditions") or ()
        ]
        assert sorted(said) == [("a", "a"), ("b", "b")]  # one of each waits

    in_lab(scenario, Setting(nodes=nodes, without=(*ALONE, "scheduler")))


def test_a_node_that_changes_pools_is_not_given_twice_where_binds_are_heard_of_late() -> None:
    """Pool b sees the node at once, and four seconds later who was bound to it."""
    late = [Withheld("scheduler-b", what) for what in ("pods", "bindrequests")]

    def wrap(who: str, transport: Transport, clock: Clock) -> Transport:
        for one in late:
            transport = one.wrap(who, transport, clock)
        return transport

    async def scenario(lab: Lab) -> None:
        for pool in ("a", "b"):
            await _start_shard(lab, pool)
        await _gang(lab, "b", "b")  # there is no node for it yet
        await lab.clock.sleep(5.0)
        for one in late:
            one.passing.clear()
        await _gang(lab, "a", "a")
        await lab.until_running("a", 2)
        moved = {"metadata": {"labels": {POOL: "b"}}}
        await lab.cluster.writer.patch(NODE, Key("", "node"), moved)
        await lab.clock.sleep(4.0)
        for one in late:
            one.passing.set()
        await lab.clock.sleep(60.0)
        assert len(await lab.running("a")) == 2
        assert {one["metadata"]["name"] for one in await lab.all(BIND_REQUEST)} == {"a-0", "a-1"}

    nodes = [NodeGroup("node", count=1, gpus=Gpus(count=8), labels={POOL: "a"})]
    habits = Habits(run=Chance(mean_s=1e9))
    in_lab(scenario, Setting(nodes, without=(*ALONE, "scheduler"), wrap=wrap, habits=habits))


def test_a_scheduler_that_has_nothing_else_to_do_takes_over_a_node_that_came_to_its_pool() -> None:
    async def scenario(lab: Lab) -> None:
        for pool in ("a", "b"):
            await _start_shard(lab, pool)
        await _gang(lab, "b", "b")
        await lab.clock.sleep(5.0)
        moved = {"metadata": {"labels": {POOL: "b"}}}
        await lab.cluster.writer.patch(NODE, Key("", "node"), moved)
        await lab.clock.sleep(4.0)
        assert await lab.all(BIND_REQUEST) == []
        await lab.until_running("b", 2, within_s=5.0)

    nodes = [NodeGroup("node", count=1, gpus=Gpus(count=8), labels={POOL: "a"})]
    in_lab(scenario, Setting(nodes, without=(*ALONE, "scheduler")))
