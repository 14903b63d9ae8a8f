"""What the controllers tell of running work, and what an autoscaler gets to see."""

import pytest
from tests.support.lab import POD, POD_GROUP, QUEUE, Lab, Setting, in_lab, pod_body

from muster.api.meta import Key
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_ONE_GPU = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=1)),))
_SCALING = "kai-scale-adjust"


@pytest.mark.row(89)
@pytest.mark.row(90)
@pytest.mark.row(92)
@pytest.mark.row(93)
def test_groups_and_queues_tell_what_is_asked_for_and_held() -> None:
    async def story(lab: Lab) -> None:
        await lab.queue("parent", gpus=8)
        await lab.queue("child", gpus=8, parent="parent")
        await lab.job("work", pods=2, gpus=2, queue="child")
        await lab.until_running("work", 2)
        await lab.laptop.settled()
        (group,) = await lab.all(POD_GROUP)
        resources = group["status"]["resourcesStatus"]
        assert resources["requested"]["nvidia.com/gpu"] == "4"
        assert resources["allocated"]["nvidia.com/gpu"] == "4"
        for name in ("parent", "child"):
            status = (await lab.get(QUEUE, name))["status"]
            assert status["allocated"]["nvidia.com/gpu"] == "4"
            assert status["requested"]["nvidia.com/gpu"] == "4"
        assert (await lab.get(QUEUE, "parent"))["status"]["childQueues"] == ["child"]

    in_lab(story)


@pytest.mark.row(109)
def test_a_share_that_finds_no_gpu_shows_an_autoscaler_a_whole_one_until_it_is_gone() -> None:
    async def story(lab: Lab) -> None:
        await lab.queue("team", gpus=1)
        await lab.pod("full", gpus=1, queue="team")
        await lab.until_running("full", 1)
        await lab.create(POD, pod_body("share", queue="team", annotations={"gpu-fraction": "0.5"}))

        async def asked() -> bool:
            return bool(await lab.all(POD, _SCALING))

        await lab.until(asked)
        (scaling,) = await lab.all(POD, _SCALING)
        limits = scaling["spec"]["containers"][0]["resources"]["limits"]
        assert limits["nvidia.com/gpu"] == "1"
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "share"))

        async def withdrawn() -> bool:
            return not await lab.all(POD, _SCALING)

        await lab.until(withdrawn)

    in_lab(story, _ONE_GPU)
