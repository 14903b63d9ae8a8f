"""Parts of cards by Volcano's resources: from the list on a node to annotations of the pod."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lab import NODE, POD, Lab, Setting, in_lab

from muster.api.kinds import VOLCANO_JOB
from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.client.kinds import plainly
from muster.services.scheduler.options import BindRequests, Options
from muster.sim.kubelet.nodes import NodeGroup

JOB = plainly(VOLCANO_JOB)
_CARDS = "GPU-a,10,10000,NVIDIA-A100,true,hami-core:GPU-b,10,10000,NVIDIA-A100,true,hami-core:"
_CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: proportion}]
- plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]
"""


async def _register(lab: Lab, node: str) -> None:
    """As Volcano's device plugin does."""
    amounts = {"volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-memory": "20000"}
    status = {"status": {"allocatable": amounts, "capacity": amounts}}
    await lab.cluster.writer.patch(NODE, Key("", node), status, subresource="status")
    notes = {
        "volcano.sh/node-vgpu-register": _CARDS,
        "volcano.sh/node-vgpu-handshake": "Reported_2026.11.18 12:00:00",
    }
    await lab.cluster.writer.patch(NODE, Key("", node), {"metadata": {"annotations": notes}})


async def _job(lab: Lab, name: str, replicas: int) -> None:
    asks = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "6000"}
    container = {"name": "c", "image": "i", "resources": {"limits": asks, "requests": asks}}
    tasks = [{"name": "t", "replicas": replicas, "template": {"spec": {"containers": [container]}}}]
    await lab.create(JOB, {"metadata": {"name": name}, "spec": {"tasks": tasks}})


@pytest.mark.parametrize("bind_requests", BindRequests)
def test_a_pod_learns_its_cards_when_it_is_bound(
    tmp_path: Path, bind_requests: BindRequests
) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(_CONF)

    async def story(lab: Lab) -> None:
        await _register(lab, "node-1")
        await _job(lab, "two", 2)
        await lab.until_running("two", 2)
        pods = [await lab.get(POD, f"two-t-{index}") for index in (0, 1)]
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1"}
        notes = [pod["metadata"]["annotations"] for pod in pods]
        cards = {one["volcano.sh/vgpu-ids-new"].partition(",")[0] for one in notes}
        assert cards == {"GPU-a", "GPU-b"}
        assert {one["volcano.sh/bind-phase"] for one in notes} == {"allocating"}
        # In sum there is memory for one more, on no card.
        await _job(lab, "third", 1)
        await lab.clock.sleep(20)
        assert not await lab.running("third")
        await lab.cluster.writer.delete(JOB, Key(lab.namespace, "two"))
        await lab.until_running("third", 1)

    setting = Setting(
        nodes=(NodeGroup("node", count=3, cpu="8"),),
        options=replace(Options(watches_claims=False), bind_requests=bind_requests),
        dialect=ProfileName.VOLCANO,
        dialect_conf=conf,
        without=("scheduler", "podgrouper", "scaleadjuster", "reservation"),
    )
    in_lab(story, setting)
