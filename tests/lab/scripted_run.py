"""One run of the cluster from a seed, printed as its journal: what the determinism test compares.

Run as a program, so that each run has a process, and a hash seed, of its own.
"""

import gc
import sys
from typing import Any

from muster.api.meta import Key
from muster.base.log import Level
from muster.client.write import Deletion
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.sim.workloads.objects import BUDGET, DEPLOYMENT, JOB, POD, QUOTA


def plan(seed: int) -> ClusterPlan:
    groups = (
        NodeGroup("gpu", count=4, gpus=Gpus(), topology={"example.com/rack": 2}),
        NodeGroup("cpu", count=2),
    )
    habits = Habits(
        start=Chance("exponential", 3.0), run=Chance("lognormal", 90.0, 0.7), failing=0.2
    )
    return ClusterPlan(nodes=groups, habits=habits, seed=seed, log_level=Level.ERROR)


def pods(app: str, node: str, **spec: Any) -> dict[str, Any]:
    body = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]} | spec
    return {"metadata": {"labels": {"app": app}}, "spec": body}


async def scenario(lab: Cluster) -> None:
    """Work comes and goes, a node fails and comes back."""
    web = {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": pods("web", "cpu-0"),
    }
    await lab.writer.create(DEPLOYMENT, {"metadata": {"name": "web"}, "spec": web}, "default")
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await lab.writer.create(BUDGET, {"metadata": {"name": "b"}, "spec": budget}, "default")
    quota = {"hard": {"pods": "100"}}
    await lab.writer.create(QUOTA, {"metadata": {"name": "q"}, "spec": quota}, "default")
    for number in range(4):
        spec = {
            "completions": 6,
            "parallelism": 3,
            "backoffLimit": 8,
            "template": pods("job", f"gpu-{number}", restartPolicy="Never"),
        }
        await lab.writer.create(JOB, {"metadata": {"name": f"j{number}"}, "spec": spec}, "default")
        await lab.clock.sleep(20)
    lab.fleet.fail("gpu-1")
    await lab.clock.sleep(600)
    lab.fleet.recover("gpu-1")
    await lab.writer.patch(DEPLOYMENT, Key("default", "web"), {"spec": {"replicas": 3}})
    await lab.clock.sleep(300)
    for pod in (await lab.reader.list(POD)).objects:
        if pod["metadata"]["labels"]["app"] == "web":
            key = Key("default", pod["metadata"]["name"])
            await lab.writer.delete(POD, key, Deletion(grace_s=5))
    await lab.clock.sleep(1800)


def run(seed: int) -> list[str]:
    async def main(clock: LoopClock) -> list[str]:
        async with Cluster(plan(seed), clock=clock) as lab:
            await scenario(lab)
            return [
                f"{line.at_s:.6f} {line.who} {line.method} {line.path} {line.status} {line.digest}"
                for line in lab.write_log
            ]

    return run_virtually(main)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        # When garbage is found is chance too: it depends on what the process did before.
        gc.set_threshold(int(sys.argv[2]))
    sys.stdout.write("\n".join(run(int(sys.argv[1]))) + "\n")
