"""Which pods of a pod group are evicted together."""

import pytest
from tests.support.lab import POD_GROUP, InWorld, Lab, Setting

from muster.sim.kubelet.nodes import Gpus, NodeGroup

ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
MODE = "kai.scheduler/disruption-mode"


@pytest.mark.parametrize(
    ("mode", "minimum", "stay"),
    [("", 1, 3), ("", 4, 0), ("PodGroup", 1, 0), ("Pod", 4, 3)],
    ids=["surplus pods", "entire gang", "entire pod group", "single pods"],
)
def test_disruption_mode_decides_which_pods_are_evicted_together(
    in_world: InWorld, mode: str, minimum: int, stay: int
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        notes = {MODE: mode} if mode else {}
        await lab.job("train", pods=4, gpus=2, minimum=minimum, queue="a", annotations=notes)
        await lab.until_running("train", 4)
        first = set(await lab.running("train"))
        (group,) = await lab.all(POD_GROUP)
        assert group["metadata"]["annotations"].get(MODE, "") == mode
        await lab.job("urgent", pods=1, gpus=2, queue="a", priority="build")
        await lab.until_running("urgent", 1)
        assert len(first & set(await lab.running("train"))) == stay

    in_world(scenario, ONE_NODE)
