"""Pods that run on what others asked for and do not use, through webhook, scheduler and kubelet."""

from typing import Any

from tests.support.lab import NODE, POD, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.client.write import PatchType
from muster.sim.kubelet.nodes import NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

ON_SPARE = {"kai.scheduler/run-on-spare": "true"}
SPARE_CPU = "kai.scheduler/spare-cpu-milli"
SETTING = Setting(
    nodes=(NodeGroup("cpu", count=1, cpu="4"),), habits=Habits(run=Chance(mean_s=1e9))
)


def two_cores() -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": "2"}}}


async def offered(lab: Lab, milli: int) -> None:
    """As the scheduler writes it by what was measured."""
    (node,) = await lab.all(NODE)
    said = {SPARE_CPU: str(milli)}
    await lab.cluster.writer.patch(
        NODE,
        Key("", node["metadata"]["name"]),
        {"status": {"capacity": said, "allocatable": said}},
        PatchType.MERGE,
        subresource="status",
    )


def test_a_full_node_takes_as_many_on_spare_room_as_it_offers_and_no_other_pod() -> None:
    async def story(lab: Lab) -> None:
        for name in ("first", "second"):
            await lab.pod(name, container=two_cores())
        await lab.until_running("first", 1)
        await lab.until_running("second", 1)
        await lab.pod("plain", container=two_cores())
        for name in ("guest-0", "guest-1"):
            await lab.pod(name, container=two_cores(), annotations=ON_SPARE)
        await lab.clock.sleep(30)
        assert await lab.running("guest") == {}, "nothing is spare unless somebody says so"
        await offered(lab, 3000)
        await lab.until_running("guest", 1)
        await lab.clock.sleep(60)
        assert len(await lab.running("guest")) == 1
        assert await lab.running("plain") == {}
        (guest,) = await lab.running("guest")
        resources = (await lab.get(POD, guest))["spec"]["containers"][0]["resources"]
        assert resources["requests"] == {"cpu": "0", SPARE_CPU: "2k"}
        assert resources["limits"] == {"cpu": "2", SPARE_CPU: "2k"}

    in_lab(story, SETTING)
