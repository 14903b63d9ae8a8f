"""One pod, one GPU request: scheduler, binder, pod-group controller, queue controller and scale
adjuster speak of the same, up to the rounding that the table gives each of them.
"""

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.binder_world import BinderWorld

from muster.api import names
from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.devices import ResourceClaim
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plan import Bind
from muster.engine.registry import build_actions, build_policy
from muster.model.build import Identity, node_record, task_record
from muster.model.devices import NOBODY
from muster.model.gpu_request import accepted, gpu_problem, shared_request
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    JobRecord,
    QueueRecord,
    TaskRecord,
    queue_amounts,
)
from muster.model.requests import request_of, request_problem
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU, largest_amount
from muster.services.admission.review import Review
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_pods import validate_pod
from muster.services.podgroups.amounts import allocated, requested
from muster.services.queues.decide import gpus_allocated
from muster.services.scaleadjuster import decide as scaleadjuster
from muster.services.scheduler.manifests import bind_request
from muster.services.scheduler.options import Options
from muster.testing import make
from muster.testing.invariants import broken

SCALING = scaleadjuster.ScaleAdjusterSettings(
    "kai-scheduler", "scaling", "scaling-pod", "scaler", "image"
)
CLASS = "gpu.example.com"
CONF = parse_conf("actions: allocate, consolidation, reclaim, preempt, stalegangeviction")
KEY = "runai/shared-gpu-configmap"


@dataclass(frozen=True)
class Drawn:
    """What a pod asks for, and the memory of each GPU of the node it lands on."""

    annotations: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    claimed: int = 0
    memory_mib: int = 81_559

    @property
    def pod(self) -> Pod:
        return from_builtins(Pod, self.body)

    @property
    def body(self) -> dict[str, Any]:
        marks = {KEY: "maps", **self.annotations}
        if self.annotations:
            marks[names.ANNOTATION_RECEIVED_RESOURCE_TYPE] = "Fraction"
        uses = [{"name": "gpus", "resourceClaimName": "c"}] if self.claimed else []
        container = {"name": "main", "resources": {"requests": self.resources}}
        return {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team", "uid": "u", "annotations": marks},
            "spec": {"containers": [container], "nodeName": "n1", "resourceClaims": uses},
            "status": {"phase": "Running"},
        }

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        exactly = {"deviceClassName": CLASS, "count": self.claimed}
        devices = {"requests": [{"name": "r", "exactly": exactly}]}
        body = {"metadata": {"name": "c", "namespace": "team"}, "spec": {"devices": devices}}
        return {"gpus": from_builtins(ResourceClaim, body)} if self.claimed else {}

    @property
    def node(self) -> dict[str, Any]:
        labels = {names.LABEL_GPU_MEMORY: str(self.memory_mib)}
        status = {"allocatable": {"nvidia.com/gpu": "64", "pods": "99"}}
        return {"kind": "Node", "metadata": {"name": "n1", "labels": labels}, "status": status}


_devices = st.one_of(st.just(1), st.integers(1, 24))
_memory = st.integers(1_000, 200_000)
_whole = st.builds(
    lambda n, maker: Drawn(resources={f"{maker}.com/gpu": str(n)}),
    st.integers(1, 16),
    st.sampled_from(["nvidia", "amd"]),
)
_mig = st.builds(
    lambda slices, count: Drawn(resources={f"nvidia.com/mig-{slices}g.10gb": str(count)}),
    st.integers(1, 7),
    st.integers(1, 9),
)
_claims = st.builds(lambda n: Drawn(claimed=n), st.integers(1, 32))
_written = st.one_of(
    st.integers(1, 1000).map(lambda n: f"{n / 1000:.3f}"),
    st.integers(1, 999).map(lambda n: f"{n}e-3"),
    st.sampled_from([".5", "1", "+0.25", "0.3339", "0.0625", "0.125"]),
)


def _sharing(key: str, text: str, devices: int, memory_mib: int) -> Drawn:
    annotations = {key: text}
    if devices > 1:
        annotations[names.ANNOTATION_GPU_FRACTION_DEVICES] = str(devices)
    return Drawn(annotations=annotations, memory_mib=memory_mib)


_fractions = st.builds(_sharing, st.just("gpu-fraction"), _written, _devices, _memory)
_memories = _memory.flatmap(
    lambda memory: st.builds(
        _sharing,
        st.just("gpu-memory"),
        st.integers(1, memory - memory % 100).map(str),
        _devices,
        st.just(memory),
    )
)
requests = st.one_of(_whole, _mig, _claims, _fractions, _memories)


def _snapshot(drawn: Drawn) -> ClusterSnapshot:
    """The pod on its node, in a queue."""
    amounts, gpu = request_of(drawn.pod, drawn.claims)
    assert gpu.is_shared == bool(drawn.annotations)
    shares = tuple(f"g{number}" for number in range(gpu.devices)) if gpu.is_shared else ()
    task = TaskRecord(
        uid="u",
        name="p",
        job="team/j",
        status=TaskStatus.RUNNING,
        node="n1",
        request=amounts,
        gpu=gpu,
        gpu_shares=shares,
    )
    return snapshot_of(
        ClusterRecords(
            nodes=(node_record(from_builtins(Node, drawn.node)),),
            queues=(QueueRecord("q", quota=queue_amounts(-1)),),
            jobs=(JobRecord("team/j", queue="q"),),
            tasks=(task,),
        )
    )


@settings(max_examples=150, deadline=None)
@given(requests)
def test_pod_group_status_counts_the_gpus_that_the_scheduler_charges(drawn: Drawn) -> None:
    snapshot = _snapshot(drawn)
    charged = snapshot.queues.allocated[0, QUEUE_GPU] / GPU_UNIT
    held = allocated(
        drawn.pod,
        lambda _: from_builtins(Node, drawn.node),
        lambda _, __: drawn.claims.get("gpus"),
    )
    gpu = snapshot.shapes[0].gpu
    slack = {GpuKind.FRACTION: 0.005, GpuKind.MEMORY: 0.0105}.get(gpu.kind, 0.0) * gpu.devices
    assert abs(gpus_allocated(held) - charged) <= slack + 1e-9
    wish = requested(drawn.pod, lambda _, __: drawn.claims.get("gpus"))
    if gpu.kind is GpuKind.MEMORY:
        assert wish == {names.RESOURCE_GPU_MEMORY: wish[names.RESOURCE_GPU_MEMORY]}
        assert wish[names.RESOURCE_GPU_MEMORY].value == gpu.devices * gpu.memory_mib
    else:
        assert wish == held


@settings(max_examples=100, deadline=None)
@given(requests)
def test_the_container_gets_the_gpu_portion_that_its_queue_is_charged(drawn: Drawn) -> None:
    """From the bind request through the binder to the environment of the container."""
    snapshot = _snapshot(drawn)
    gpu = accepted(snapshot.shapes[0].gpu, int(snapshot.nodes.gpu_memory_mib[0]))
    charged = snapshot.queues.allocated[0, QUEUE_GPU] / GPU_UNIT
    shares = snapshot.tasks.records[0].gpu_shares
    made = bind_request(drawn.pod, Bind("u", "team/j", "n1", shares), gpu, Options())
    received = made["spec"]["receivedGPU"]
    if gpu.kind in (GpuKind.WHOLE, GpuKind.CLAIM):
        assert received["count"] == charged
    if not gpu.is_shared:
        return
    # Two decimals print a half to the even one; a queue is charged the larger.
    slack = 0.0101 * gpu.devices if gpu.kind is GpuKind.FRACTION else 1e-9
    assert abs(float(received["portion"]) * received["count"] - charged) <= slack
    unbound = {**drawn.body, "spec": {**drawn.body["spec"], "nodeName": ""}}
    world = BinderWorld(drawn.node, {**unbound, "status": {"phase": "Pending"}}, made)
    world.run()
    (given_to_container,) = [
        m["data"] for m in world.all("ConfigMap") if "GPU_PORTION" in m.get("data", {})
    ]
    assert given_to_container["GPU_PORTION"] == received["portion"]
    (bound,) = [p for p in world.all("Pod") if p["metadata"]["name"] == "p"]
    labels = bound["metadata"]["labels"]
    if gpu.devices == 1:
        assert labels == {"runai-gpu-group": shares[0]}
    else:
        assert labels == {f"runai-gpu-group/{share}": share for share in shares}


@settings(max_examples=100, deadline=None)
@given(requests)
def test_scaling_pods_request_the_gpus_that_a_gpu_share_will_be_charged(drawn: Drawn) -> None:
    snapshot = _snapshot(drawn)
    gpu = snapshot.shapes[0].gpu
    need = scaleadjuster.gpus_needed([drawn.pod], SCALING)
    if gpu.kind is GpuKind.FRACTION:
        assert need == math.ceil(snapshot.queues.allocated[0, QUEUE_GPU] / GPU_UNIT)
    elif gpu.kind is GpuKind.MEMORY:
        assert need == math.ceil(Decimal("0.1") * gpu.devices)
    else:
        assert need == 0
    if gpu.is_shared:
        scaling = scaleadjuster.scaling_pod(drawn.pod, SCALING)
        limits = scaling["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {"nvidia.com/gpu": str(gpu.devices)}
        assert (
            len([share for share in snapshot.nodes.gpu_shares[0].values() if share != NOBODY])
            == gpu.devices
        )


_texts = st.one_of(
    st.integers(-(10**24), 10**24).map(str),
    st.floats().map(str),
    st.text(alphabet="0123456789.eE+-_ n٣", max_size=12),
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"]), _texts)
def test_an_admitted_gpu_annotation_is_a_shared_request_or_refused_by_field(
    key: str, text: str
) -> None:
    """Nobody's request for a part of a GPU is taken for no request."""
    annotations = {"gpu-fraction": "0.5", key: text}
    if key == "gpu-memory":
        del annotations["gpu-fraction"]
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c"}]}
    body = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    settings_ = AdmissionSettings(scheduler_name="kai-scheduler", gpu_sharing=True)
    admitted = not validate_pod(Review("CREATE", body), settings_).problems
    problem = gpu_problem(annotations, {})
    if admitted:
        assert shared_request(annotations).is_shared or problem
        is_tiny = key == "gpu-fraction" and float(text) < 1e-9
        assert bool(problem) == is_tiny
    assert not problem or f"metadata.annotations[{key}]" in problem
    amounts, gpu = request_of(from_builtins(Pod, body))
    assert gpu.devices <= 1024
    assert all(0 <= amount < largest_amount(name) for name, amount in amounts.items())


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-7g.80gb"]),
    st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=4),
)
def test_resource_amounts_stay_within_the_bounds_of_their_column(
    name: str, written: list[int]
) -> None:
    containers = [
        {"name": f"c{at}", "resources": {"requests": {name: str(amount)}}}
        for at, amount in enumerate(written)
    ]
    pod = from_builtins(Pod, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    amounts, gpu = request_of(pod)
    unit = GPU_UNIT if name in ("cpu", "nvidia.com/gpu", "amd.com/gpu") else 1
    largest = largest_amount("gpu" if name.endswith("/gpu") else name)
    is_fine = all(amount >= 0 for amount in written) and sum(written) * unit < largest
    assert (request_problem(pod, {}, amounts) == "") == is_fine
    assert all(0 <= amount <= largest_amount(name) for name, amount in amounts.items())
    assert gpu.mig_slices * GPU_UNIT <= largest_amount("gpu")


_absurd = st.sampled_from(["1", "7", str(2**40), str(2**48), str(2**63 - 1), "100Ei"])
_annotations = st.sampled_from(
    [
        {},
        {"gpu-fraction": "0.5"},
        {"gpu-memory": "40000", "gpu-fraction-num-devices": "2"},
        {"gpu-memory": "99999999999999999999"},
        {"gpu-fraction": "0.3", "gpu-fraction-num-devices": "1000000000000"},
    ]
)
_pods = st.lists(
    st.tuples(
        st.dictionaries(
            st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-7g.80gb"]), _absurd
        ),
        _annotations,
        st.sampled_from(["", "n0", "n1"]),
        st.sampled_from(["q0", "q1"]),
    ),
    max_size=6,
)
_nodes = st.lists(
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-7g.80gb"]), _absurd
    ),
    min_size=2,
    max_size=2,
)


@settings(max_examples=60, deadline=None)
@given(_nodes, _pods)
def test_any_gpu_requests_and_capacities_give_a_valid_plan_that_places_a_modest_job(
    nodes: list[dict[str, str]], pods: list[tuple[dict[str, str], dict[str, str], str, str]]
) -> None:
    tasks, jobs = [], []
    for at, (resources, annotations, node, queue) in enumerate(pods):
        drawn = Drawn(annotations=annotations, resources=resources)
        body = drawn.body
        body["metadata"]["uid"] = body["metadata"]["name"] = f"p{at}"
        body["metadata"]["annotations"].pop(KEY)
        body["spec"]["nodeName"] = node
        body["status"]["phase"] = "Running" if node else "Pending"
        body["metadata"]["labels"] = {"runai-gpu-group": f"g{at}"} if node else {}
        record = task_record(from_builtins(Pod, body), Identity(), make.NOW_S)
        jobs.append(make.gang(f"j{at}", 0, queue=queue, minimum=1).job)
        tasks.append(make.with_fields(record, job=jobs[-1].key, is_ours=True))
    modest = make.gang("modest", 1, gpu=1, queue="q1")
    labels = {names.LABEL_GPU_MEMORY: "40000"}
    offered = [
        {"metadata": {"name": f"n{at}", "labels": labels}, "status": {"allocatable": each}}
        for at, each in enumerate(nodes)
    ]
    records = ClusterRecords(
        nodes=(
            make.node("roomy", gpu=16),
            *(
                make.with_fields(node_record(from_builtins(Node, each)), is_ready=True)
                for each in offered
            ),
        ),
        queues=(make.queue("q0", quota_gpu=1), make.queue("q1", quota_gpu=1)),
        jobs=(*jobs, modest.job),
        tasks=(*tasks, *modest.tasks),
    )
    with np.errstate(over="raise", invalid="raise"):
        result = run_cycle(
            snapshot_of(records), build_policy(CONF), build_actions(CONF), make.NOW_S
        )
    assert broken(records, result.plan) == []
    placed = {bind.task for bind in result.plan.binds} | {n.task for n in result.plan.nominations}
    assert "modest-0" in placed
