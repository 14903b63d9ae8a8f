"""Every folder of examples/, run to the end of its README."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.apply import any_shape, apply, apply_one, owner_of
from tests.support.lab import JOB, POD, POD_GROUP, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.client.kinds import Plain
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_FOLDER = Path(__file__).resolve().parents[2] / "examples"
_ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
_TWO_RACKS = Setting(
    nodes=(NodeGroup("gpu", count=4, gpus=Gpus(count=8), topology={"example.com/rack": 2}),)
)


async def _apply(lab: Lab, *names: str) -> list[Plain]:
    made = []
    for name in ("quick-start/queues.yaml", *names):
        made += await apply(lab, (_FOLDER / name).read_text())
    return made


@pytest.mark.row(88)
def test_the_quick_start_example_runs() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "quick-start/pods.yaml")
        await lab.until_running("cpu-only", 1)
        await lab.until_running("with-gpu", 1)

    in_lab(scenario, _ONE_NODE)


def test_the_batch_example_completes() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "batch/job.yaml")
        await lab.until_running("render", 3)

        async def complete() -> bool:
            job = await lab.get(JOB, "render")
            return bool(job.get("status", {}).get("succeeded") == 6)

        await lab.until(complete)

    in_lab(scenario, _ONE_NODE)


def test_the_elastic_example_shrinks_to_its_minimum_when_reclaimed() -> None:
    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("kubeflow.org/v1", "PyTorchJob"))
        *_, job = await _apply(lab, "elastic/pytorchjob.yaml")
        await _training_operator(lab, job)
        # Eight GPUs: four workers of two, though six would be welcome.
        await lab.until_running("elastic", 4)
        # The queue that is owed takes the surplus, and leaves the two that the job needs.
        await lab.queue("owed", gpus=4, parent="department")
        await lab.job("newcomer", pods=1, gpus=4, queue="owed")
        await lab.until_running("newcomer", 1)
        assert len(await lab.running("elastic")) == 2

    in_lab(scenario, _ONE_NODE)


def test_the_priority_example_preempts() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "priority/train.yaml")
        await lab.until_running("background", 1)
        await apply(lab, (_FOLDER / "priority/urgent.yaml").read_text())
        await lab.until_running("urgent", 1)
        assert await lab.running("background") == {}

    in_lab(scenario, _ONE_NODE)


def test_the_gpu_sharing_example_shares_one_gpu() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "gpu-sharing/pods.yaml")
        await lab.until_running("half", 1)
        await lab.until_running("memory", 1)
        groups = {
            pod["metadata"]["labels"]["runai-gpu-group"]
            for pod in await lab.all(POD, lab.namespace)
        }
        assert len(groups) == 1, "both are on the same GPU"

    in_lab(scenario, _ONE_NODE)


def test_the_topology_example_stays_in_one_rack() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "topology/topology.yaml", "topology/job.yaml")
        await lab.until_running("close", 4)
        nodes = set((await lab.running("close")).values())
        assert nodes in ({"gpu-0", "gpu-1"}, {"gpu-2", "gpu-3"})

    in_lab(scenario, _TWO_RACKS)


def test_the_ray_example_starts_the_head_and_its_minimum_workers() -> None:
    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("ray.io/v1", "RayCluster"))
        *_, cluster = await _apply(lab, "ray/raycluster.yaml")
        await _ray_operator(lab, cluster)
        # Eight GPUs: the head and the two least workers.
        await lab.until_running("tune", 3)
        (group,) = await lab.all(POD_GROUP)
        assert group["spec"]["minMember"] == 3

    in_lab(scenario, _ONE_NODE)


@pytest.mark.row(105)
def test_the_pytorchjob_example_starts_all_pods_or_none() -> None:
    async def scenario(lab: Lab) -> None:
        await apply_one(lab, any_shape("kubeflow.org/v1", "PyTorchJob"))
        await lab.queue("busy", gpus=4)
        await lab.pod("in-the-way", gpus=4, queue="busy")
        await lab.until_running("in-the-way", 1)
        *_, job = await _apply(lab, "pytorchjob/pytorchjob.yaml")
        await _training_operator(lab, job)
        await lab.clock.sleep(30.0)
        # Room for three of four: none of them starts.
        assert await lab.running("bert") == {}
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "in-the-way"))
        await lab.until_running("bert", 4)

    in_lab(scenario, Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=8)),)))


async def _training_operator(lab: Lab, job: Plain) -> None:
    """Makes the pods of a PyTorchJob as the training operator does."""
    for kind, replica in job["spec"]["pytorchReplicaSpecs"].items():
        role = kind.lower()
        for index in range(replica["replicas"]):
            labels = {
                "training.kubeflow.org/job-name": job["metadata"]["name"],
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
            }
            name = f"{job['metadata']['name']}-{role}-{index}"
            await _pod(lab, job, name, replica["template"], labels)


async def _ray_operator(lab: Lab, cluster: Plain) -> None:
    """Makes the pods of a RayCluster as KubeRay does."""
    name, spec = cluster["metadata"]["name"], cluster["spec"]
    head = spec["headGroupSpec"]["template"]
    await _pod(lab, cluster, f"{name}-head", head, {"ray.io/group": "headgroup"})
    for group in spec["workerGroupSpecs"]:
        for index in range(group["replicas"]):
            labels = {"ray.io/group": group["groupName"]}
            pod = f"{name}-{group['groupName']}-{index}"
            await _pod(lab, cluster, pod, group["template"], labels)


async def _pod(
    lab: Lab, owner: Plain, name: str, template: dict[str, Any], labels: dict[str, str]
) -> None:
    metadata = {
        **template["metadata"],
        "name": name,
        "labels": {**template["metadata"]["labels"], **labels},
        "ownerReferences": [owner_of(owner)],
    }
    await lab.create(POD, {"metadata": metadata, "spec": template["spec"]})
