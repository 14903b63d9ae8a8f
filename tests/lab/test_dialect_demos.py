"""The demo in other words: `muster up --profile volcano` and `--profile kube-batch`."""

import pytest

from muster.api.profiles import ProfileName
from muster.base.clock import Clock
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.demo import Demo, demo_manifests
from muster.lab.dialect_demos import KubeBatchDemo, VolcanoDemo
from muster.lab.ecosystem import SPECIAL_NODES
from muster.lab.install import Installation
from muster.lab.virtual_loop import run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup


@pytest.mark.parametrize(
    ("dialect", "demo"),
    [(ProfileName.VOLCANO, VolcanoDemo), (ProfileName.KUBE_BATCH, KubeBatchDemo)],
)
def test_every_expectation_of_the_demo_is_met(dialect: ProfileName, demo: type[Demo]) -> None:
    said: list[str] = []

    async def main(clock: Clock) -> None:
        manifests = demo_manifests(dialect)
        installation = Installation(dialect=dialect, dialect_conf=manifests / "scheduler.conf")
        nodes = [NodeGroup("node", count=64, gpus=Gpus()), *SPECIAL_NODES]
        plan = ClusterPlan(nodes=nodes, webhooks=installation.webhooks)
        async with Cluster(plan, clock=clock) as cluster:
            await installation.bring_up(cluster)
            told = demo(cluster.reader, cluster.writer, clock, manifests, said.append)
            is_well = await told.run()
            assert is_well, "\n".join(said)

    run_virtually(main)
