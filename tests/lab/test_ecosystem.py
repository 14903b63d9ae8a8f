"""What `muster up` has beside the scheduler: operators, volumes, devices, each by its example."""

from pathlib import Path

import pytest
from tests.support.apply import apply
from tests.support.lab import EVENT, NODE, POD, POD_GROUP, Lab, Setting, in_lab

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.errors import api_error
from muster.client.kinds import Plain, plain_kind
from muster.lab.ecosystem import SPECIAL_NODES, TOPOLOGY, start_ecosystem
from muster.lab.hosting import HostedService
from muster.lab.virtual_loop import run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.operators.job_sets import TRAINING_RUNTIME

_FOLDER = Path(__file__).resolve().parents[2] / "examples"
_SETTING = Setting(
    nodes=(NodeGroup("node", count=2, gpus=Gpus(), topology=TOPOLOGY), *SPECIAL_NODES)
)
_VOLUME = plain_kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
_TRAIN_JOB = plain_kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")


async def _apply(lab: Lab, *names: str) -> None:
    await start_ecosystem(lab.cluster)
    for name in ("quick-start/queues.yaml", *names):
        await apply(lab, (_FOLDER / name).read_text())


@pytest.mark.parametrize(
    ("example", "prefix", "pods", "minimums"),
    [
        ("operators/mpijob", "allreduce", 3, [3]),
        ("operators/jobset", "pretrain", 5, [None]),
        ("operators/leaderworkerset", "llama", 6, [3, 3]),
        ("operators/sparkapplication", "etl", 3, [1]),
        ("operators/trainjob", "finetune", 2, [None]),
        ("ray/rayjob", "sweep", 3, [3]),
    ],
)
def test_the_pods_of_a_kind_with_an_operator_run_and_are_one_gang(
    example: str, prefix: str, pods: int, minimums: list[int | None]
) -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, f"{example}.yaml")
        await lab.until_running(prefix, pods)
        groups = await lab.all(POD_GROUP, lab.namespace)
        assert [group["spec"].get("minMember") for group in groups] == minimums
        # The objects tell the grouper all that it asks for before there are pods.
        events = await lab.all(EVENT, lab.namespace)
        assert [one["message"] for one in events if one["reason"] == "PodGrouperWarning"] == []

    in_lab(scenario, _SETTING)


def test_an_operator_makes_a_pod_again_that_somebody_deleted_and_none_of_a_deleted_object() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "pytorchjob/pytorchjob.yaml")
        await lab.until_running("bert", 4)
        first = await lab.get(POD, "bert-worker-1")
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "bert-worker-1"))

        async def is_another() -> bool:
            found = await lab.running("bert")
            if "bert-worker-1" not in found:
                return False
            pod = await lab.get(POD, "bert-worker-1")
            return bool(pod["metadata"]["uid"] != first["metadata"]["uid"])

        await lab.until(is_another)
        job = plain_kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        await lab.cluster.writer.delete(job, Key(lab.namespace, "bert"))

        async def is_gone() -> bool:
            return not await lab.all(POD, lab.namespace)

        await lab.until(is_gone)

    in_lab(scenario, _SETTING)


def test_a_train_job_that_has_run_is_complete_and_stays_so() -> None:
    async def scenario(lab: Lab) -> None:
        await start_ecosystem(lab.cluster)
        text = (_FOLDER / "operators/trainjob.yaml").read_text().replace("1h", "1m")
        await apply(lab, (_FOLDER / "quick-start/queues.yaml").read_text())
        await apply(lab, text)

        async def is_complete() -> bool:
            job = await lab.get(_TRAIN_JOB, "finetune")
            conditions = job.get("status", {}).get("conditions") or ()
            return any((one["type"], one["status"]) == ("Complete", "True") for one in conditions)

        await lab.until(is_complete)
        await lab.clock.sleep(120.0)
        assert await lab.running("finetune") == {}

    in_lab(scenario, _SETTING)


@pytest.mark.parametrize(
    ("example", "pod", "node"),
    [("mig", "slice", "mig-0"), ("amd", "instinct", "amd-0"), ("claim", "claimant", "dra-0")],
)
def test_a_pod_that_asks_for_a_device_runs_where_it_is(example: str, pod: str, node: str) -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, f"devices/{example}.yaml")
        await lab.until_running(pod, 1)
        assert await lab.running(pod) == {pod: node}

    in_lab(scenario, _SETTING)


def test_the_pods_of_a_stateful_set_get_volumes_of_their_own() -> None:
    async def scenario(lab: Lab) -> None:
        await _apply(lab, "storage/statefulset.yaml")
        await lab.until_running("store", 2)
        claims = {one["spec"]["claimRef"]["name"] for one in await lab.all(_VOLUME)}
        assert claims == {"data-store-0", "data-store-1"}

    in_lab(scenario, _SETTING)


def test_ordinary_nodes_have_racks_and_zones() -> None:
    async def scenario(lab: Lab) -> None:
        node = await lab.get(NODE, "node-1")
        assert node["metadata"]["labels"]["example.com/rack"] == "rack-0"
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-0"

    in_lab(scenario, _SETTING)


class _SlowlyServing:
    """A host whose API server serves what was defined a moment later."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.writer = clock, self
        self.made: list[str] = []
        self.refused = 0

    async def create(self, kind: Kind[Plain], body: Plain, namespace: str) -> Plain:
        if kind == TRAINING_RUNTIME and self.refused < 5:
            self.refused += 1
            raise api_error(404, {}, b"404 page not found", "POST")
        self.made.append(kind.kind)
        return body

    async def start(self, service: HostedService) -> None:
        self.made.append(service.name)


def test_what_is_of_a_defined_kind_is_made_once_the_kind_is_served() -> None:
    async def main(clock: Clock) -> None:
        host = _SlowlyServing(clock)
        await start_ecosystem(host)  # type: ignore[arg-type]
        assert host.refused == 5
        assert host.made[-2:] == [TRAINING_RUNTIME.kind, "operators"]

    run_virtually(main)
