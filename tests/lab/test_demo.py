"""The demo of `muster up` meets its expectations, every time."""

from pathlib import Path

from muster.base.clock import Clock
from muster.client.kinds import plain_kind
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.demo import Demo
from muster.lab.demo_past import DemoPast
from muster.lab.install import Installation
from muster.lab.virtual_loop import run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.usage.store import UsageStore

_POD = plain_kind("", "v1", "Pod", "pods")
_NODE = plain_kind("", "v1", "Node", "nodes", namespaced=False)
_README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
_MANIFESTS = Path(__file__).resolve().parents[2] / "examples" / "demo"


def test_every_expectation_of_the_demo_is_met(tmp_path: Path) -> None:
    said: list[str] = []
    past = DemoPast(tmp_path)

    async def main(clock: Clock) -> None:
        past.begin(counts=False)
        past.write_week(clock.now_s(), 512.0)
        installation = Installation(conf_file=past.conf, usage_store=past.store)
        nodes = [NodeGroup("node", count=64, gpus=Gpus())]
        async with Cluster(
            ClusterPlan(nodes=nodes, webhooks=installation.webhooks), clock=clock
        ) as cluster:
            await installation.bring_up(cluster)
            demo = Demo(cluster.reader, cluster.writer, clock, _MANIFESTS, said.append, past=past)
            is_well = await demo.run()
            # Whoever watched has the whole cluster for a first Job of their own.
            assert (await cluster.reader.list(_POD)).objects == []
            for node in (await cluster.reader.list(_NODE)).objects:
                assert not node["spec"].get("taints"), node["metadata"]["name"]
        assert [one.text for one in demo.expectations if one.text not in _README] == []
        assert is_well, [one for one in demo.expectations if not one.is_met]

    run_virtually(main)
    titles = [line for line in said if line.startswith("\n")]
    assert [title for title in titles if title not in _README] == []
    assert titles.pop() == "\nWhat the demo ran is deleted: the cluster is free. Its queues stay."
    assert titles == [
        "\n1. a gang",
        "\n2. an elastic job",
        "\n3. shared GPUs",
        "\n4. a pair of nodes for later",
        "\n5. a burst over quota",
        "\n6. a reclaim by the queue that is owed",
        "\n7. a consolidation",
        "\n8. a team that comes back",
    ]


def test_the_past_counts_from_a_moment_at_which_its_store_is_being_written(tmp_path: Path) -> None:
    past = DemoPast(tmp_path)
    past.begin(counts=False)
    writer = UsageStore(past.store)
    past.begin(counts=True)
    writer.close()
    assert str(past.store) in past.conf.read_text()
