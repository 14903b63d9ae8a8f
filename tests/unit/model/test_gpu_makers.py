"""GPUs of different makers: one resource to queues, different ones to nodes."""

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.build import node_record
from muster.model.reason_codes import Code
from muster.model.records import ClusterRecords, NodeRecord, TaskRecord
from muster.model.requests import request_of
from muster.model.tables import snapshot_of
from muster.testing import make

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
_CONF = parse_conf("actions: allocate")


def node(name: str, /, **gpus: int) -> NodeRecord:
    names = {"nvidia": NVIDIA, "amd": AMD}
    allocatable = {"pods": "10", "cpu": "8", **{names[m]: str(n) for m, n in gpus.items()}}
    ready = [{"type": "Ready", "status": "True"}]
    body = {
        "metadata": {"name": name},
        "status": {"allocatable": allocatable, "conditions": ready},
    }
    return node_record(from_builtins(Node, body))


def task(name: str, annotations: dict[str, str] | None = None, /, **asked: str) -> TaskRecord:
    resources = {"requests": {NVIDIA if m == "nvidia" else AMD: n for m, n in asked.items()}}
    body = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }
    amounts, gpu = request_of(from_builtins(Pod, body))
    job = make.gang(name, 0, queue="q", minimum=1).job
    return TaskRecord(name, name, job.key, "default", request=amounts, gpu=gpu)


def placed(nodes: tuple[NodeRecord, ...], one: TaskRecord) -> str:
    """The node that it gets, or why it gets none."""
    job = make.gang(one.name, 0, queue="q", minimum=1).job
    world = ClusterRecords(nodes=nodes, queues=(make.queue("q"),), jobs=(job,), tasks=(one,))
    policy = build_policy(_CONF)
    result = run_cycle(snapshot_of(world), policy, build_actions(_CONF), make.NOW_S)
    if result.plan.binds:
        return result.plan.binds[0].node
    why = result.explanation.why(job.key)
    return why.dominant.code if why else ""


@pytest.mark.parametrize(
    ("one", "place"),
    [
        (task("t", nvidia="1"), "green"),
        (task("t", amd="1"), "red"),
        (task("t", {"gpu-fraction": "0.5"}), "green"),
        (task("t", nvidia="1", amd="1"), Code.NO_MATCHING_NODE),
    ],
    ids=["NVIDIA", "AMD", "a part of one", "one of each"],
)
def test_a_gpu_is_only_placed_where_its_maker_has_some(one: TaskRecord, place: str) -> None:
    assert placed((node("green", nvidia=2), node("red", amd=2)), one) == place


@pytest.mark.parametrize(("asked", "there"), [("amd", "nvidia"), ("nvidia", "amd")])
def test_gpus_of_another_maker_never_match(asked: str, there: str) -> None:
    assert placed((node("n", **{there: 8}),), task("t", **{asked: "1"})) == Code.NO_MATCHING_NODE


def test_of_a_node_with_gpus_of_two_makers_only_those_of_one_are_counted() -> None:
    both = node("both", nvidia=2, amd=4)
    assert (both.allocatable["gpu"], both.gpu_maker) == (2000, "")
    assert placed((both,), task("t", nvidia="3")) == Code.TOO_LARGE
    assert placed((both,), task("t", amd="1")) == Code.NO_MATCHING_NODE


def test_queues_count_gpus_of_all_makers_alike() -> None:
    assert task("t", amd="2").request["gpu"] == task("t", nvidia="2").request["gpu"] == 2000
