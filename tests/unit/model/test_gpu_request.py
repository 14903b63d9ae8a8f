"""Rounding of GPU requests, and requests that are out of range."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.bounds import SHARED_GPUS_MAX
from muster.api.codec import from_builtins
from muster.api.core import Node, Pod
from muster.api.devices import ResourceClaim
from muster.api.queue import Queue
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.plugins.fair_share.shares import shares_of
from muster.engine.registry import build_actions, build_policy
from muster.model.build import Identity, node_record, queue_record, task_record
from muster.model.gpu_request import (
    MOST_MEMORY_MIB,
    ROUNDINGS,
    Use,
    accepted,
    claimed_by_class,
    claimed_gpus,
    device_mib,
    least_units,
    mig_slices,
    most_units,
    portion_text,
    shared_gpus,
    shared_request,
    shared_units,
)
from muster.model.pod_requirements import requirements_of
from muster.model.reasons import Reason
from muster.model.records import ClusterRecords, GpuKind, GpuRequest, TaskRecord
from muster.model.requests import request_of
from muster.model.tables import snapshot_of
from muster.numerics.axis import (
    GPU_UNIT,
    LARGEST_AMOUNT,
    LARGEST_GPU_AMOUNT,
    LARGEST_SUM,
    QUEUE_GPU,
    QUEUE_RESOURCES,
)
from muster.testing import make

INT64_MAX = 2**63 - 1
EIGHTHS = GpuRequest(GpuKind.FRACTION, 2, portion=125)
MEMORY = GpuRequest(GpuKind.MEMORY, 2, memory_mib=10_000)
CONF = parse_conf("actions: allocate, consolidation, reclaim, preempt, stalegangeviction")


@pytest.mark.parametrize(
    ("use", "gpu", "units"),
    [
        (Use.PENDING, EIGHTHS, 260),
        (Use.PENDING, MEMORY, 245),
        (Use.BOUNDS, MEMORY, 2 * 10_000_000 / 81_500),
        (Use.PLACED, EIGHTHS, 260),
        (Use.PLACED, MEMORY, 260),
        (Use.PORTION, EIGHTHS, 240),
        (Use.PORTION, MEMORY, 260),
        (Use.STATUS, MEMORY, 246),
        (Use.SCALING, EIGHTHS, 260),
    ],
)
def test_each_use_of_a_gpu_request_has_its_rounding(
    use: Use, gpu: GpuRequest, units: float
) -> None:
    """Two devices, of each an eighth, or 10,000 of 81,500 MiB."""
    assert shared_units(gpu, use, 81_500) == units


@pytest.mark.parametrize("use", [use for use, kind in ROUNDINGS if kind is GpuKind.MEMORY])
def test_memory_counts_nothing_where_no_node_says_how_much_a_gpu_has(use: Use) -> None:
    assert shared_units(MEMORY, use, 0) == 0


def test_every_use_has_a_rounding_and_every_rounding_a_reason() -> None:
    assert {use for use, _ in ROUNDINGS} == set(Use)
    assert all(rounding.why for rounding in ROUNDINGS.values())


def test_a_part_counts_at_least_what_it_takes_of_the_gpu_that_suits_it_best() -> None:
    """0.335 of a GPU of 100 MiB are 33 MiB: three find room there, and two on any other."""
    third = GpuRequest(GpuKind.FRACTION, 1, portion=335)
    assert least_units(third, [81_500]) == 334
    assert least_units(third, [100, 81_500]) == 330
    assert least_units(MEMORY, [10_000, 81_500]) == 2 * 122
    assert least_units(MEMORY, []) == 0


@given(
    st.lists(st.integers(1, 2_000), max_size=6),
    st.integers(1, 2_000),
    st.integers(1, 4),
    st.integers(1, 20).map(lambda hundreds: 100 * hundreds),
)
def test_what_finds_room_when_others_leave_is_never_counted_as_too_large(
    leaving: list[int], wanted: int, devices: int, size: int
) -> None:
    """On each of the devices there is just the room that the others leave, in parts of MiB."""
    gone = [GpuRequest(GpuKind.MEMORY, 1, memory_mib=mib) for mib in leaving]
    idle_mib = max(0, wanted - sum(leaving))
    free = idle_mib * GPU_UNIT // size + sum(most_units(gpu, size) for gpu in gone)
    asked = GpuRequest(GpuKind.MEMORY, devices, memory_mib=wanted)
    assert least_units(asked, [size]) <= devices * free


@pytest.mark.parametrize(
    ("gpu", "memory_mib", "text"),
    [
        (GpuRequest(GpuKind.WHOLE, 3), 81_500, "1.00"),
        (GpuRequest(GpuKind.MIG, mig_slices=3), 81_500, "0.00"),
        (EIGHTHS, 81_500, "0.12"),
        (GpuRequest(GpuKind.FRACTION, 1, portion=4), 81_500, "0.00"),
        (GpuRequest(GpuKind.FRACTION, 1, portion=15), 81_500, "0.01"),
        (MEMORY, 81_500, "0.13"),
        (MEMORY, 10_000, "1.00"),
        (MEMORY, 40_000, "0.25"),
    ],
)
def test_the_portion_has_two_decimals_and_memory_is_rounded_up(
    gpu: GpuRequest, memory_mib: int, text: str
) -> None:
    assert portion_text(accepted(gpu, memory_mib)) == text


def test_a_memory_request_counts_exactly_and_a_fraction_is_rounded_down_to_mib() -> None:
    assert device_mib(MEMORY, 81_500) == 10_000
    assert device_mib(EIGHTHS, 81_500) == 10_187
    assert device_mib(GpuRequest(GpuKind.FRACTION, 1, portion=1), 100) == 1


def pod(**parts: Any) -> Pod:
    metadata = {"name": "p", "uid": "p", "annotations": parts.pop("annotations", {})}
    return from_builtins(Pod, {"metadata": metadata, "spec": {"containers": [], **parts}})


def asking(**amounts: str) -> Pod:
    named = {"gpu": "nvidia.com/gpu", "mig": "nvidia.com/mig-7g.80gb"}
    requests = {named.get(name, name): amount for name, amount in amounts.items()}
    return pod(containers=[{"name": "c", "resources": {"requests": requests}}])


def claim(*counts: int) -> ResourceClaim:
    requests = [
        {"name": f"r{at}", "exactly": {"deviceClassName": "gpu", "count": count}}
        for at, count in enumerate(counts)
    ]
    body = {
        "metadata": {"name": "c", "namespace": "x"},
        "spec": {"devices": {"requests": requests}},
    }
    return from_builtins(ResourceClaim, body)


REFUSED = [
    (asking(gpu=str(INT64_MAX)), "spec.containers[0].resources.requests[nvidia.com/gpu] is 9223"),
    (
        asking(memory="4Ei"),
        "spec.containers[0].resources.requests[memory] is 4Ei: write an amount of at least 0 and "
        "less than 256Ti",
    ),
    (asking(cpu="-1"), "spec.containers[0].resources.requests[cpu] is -1"),
    (asking(mig=str(INT64_MAX)), "requests[nvidia.com/mig-7g.80gb] is 9223"),
    (pod(overhead={"memory": "4Ei"}), "spec.overhead[memory] is 4Ei"),
    (
        pod(containers=[{"resources": {"requests": {"memory": "200Ti"}}}] * 2),
        "all of the pod's requests of memory together",
    ),
    (
        pod(annotations={"gpu-memory": "9" * 20}),
        'annotations[gpu-memory] is "99999999999999999999"',
    ),
    (pod(annotations={"gpu-memory": "-5"}), 'annotations[gpu-memory] is "-5"'),
    (pod(annotations={"gpu-fraction": "1.5"}), 'annotations[gpu-fraction] is "1.5"'),
    (
        pod(annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1000000000000"}),
        'annotations[gpu-fraction-num-devices] is "1000000000000": write the number of devices, '
        "from 1 to 1024",
    ),
]


@pytest.mark.parametrize(("absurd", "text"), REFUSED)
def test_a_pod_with_an_out_of_range_request_is_refused_by_field(absurd: Pod, text: str) -> None:
    """And others are scheduled in the same cycle."""
    workload = make.gang("absurd", 1, queue="q")
    record = task_record(absurd, Identity(), make.NOW_S)
    refused = make.with_fields(record, job=workload.job.key, is_ours=True)
    others = make.cluster(
        make.node("n", gpu=8), make.queue("q"), make.gang("modest", 1, gpu=1, queue="q")
    )
    world = ClusterRecords(
        nodes=others.nodes,
        queues=others.queues,
        jobs=(*others.jobs, workload.job),
        tasks=(*others.tasks, refused),
    )
    result = run_cycle(snapshot_of(world), build_policy(CONF), build_actions(CONF), make.NOW_S)
    assert [bind.task for bind in result.plan.binds] == ["modest-0"]
    assert result.explanation.refusals[workload.job.key][0].reason is Reason.BAD_REQUEST
    assert text in result.explanation.sentences(workload.job.key)[0]


def test_a_request_within_the_bounds_has_no_problem() -> None:
    modest = asking(gpu="8", memory="1Ti", cpu="96", mig="2")
    assert not requirements_of(modest, {}, keeps_containers=False).constraints.request_problem


@pytest.mark.parametrize("counts", [(INT64_MAX,), (INT64_MAX, INT64_MAX), (20, 20), (-3, 32)])
def test_a_claim_for_more_devices_than_it_can_hold_is_refused(counts: tuple[int, ...]) -> None:
    uses = [{"name": "gpus", "resourceClaimName": "c"}]
    asked = requirements_of(
        pod(resourceClaims=uses), {"gpus": claim(*counts)}, keeps_containers=False
    )
    problem = asked.constraints.request_problem
    assert "resource claim c asks for" in problem
    assert "exactly.count" in problem
    assert len(asked.gpu.claimed) <= SHARED_GPUS_MAX
    own = request_of(pod(resourceClaims=[{"name": "gpus"}]), {"gpus": claim(*counts)})
    assert own[0]["gpu"] <= LARGEST_GPU_AMOUNT


def test_gpus_of_claims_are_listed_up_to_a_bound() -> None:
    uses = [{"name": f"use-{number}", "resourceClaimName": "c"} for number in range(100)]
    found = {use["name"]: claim(INT64_MAX) for use in uses}
    assert len(shared_gpus(claim(INT64_MAX))) == SHARED_GPUS_MAX
    assert len(request_of(pod(resourceClaims=uses), found)[1].claimed) == SHARED_GPUS_MAX


def test_gpus_of_a_claim_are_counted_by_class_up_to_a_bound() -> None:
    assert claimed_by_class(claim(INT64_MAX, INT64_MAX)) == {"gpu": SHARED_GPUS_MAX}
    requests = [
        {"name": name, "exactly": {"deviceClassName": name, "count": SHARED_GPUS_MAX}}
        for name in ("gpu-a", "gpu-b")
    ]
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    assert claimed_gpus(from_builtins(ResourceClaim, body)) == SHARED_GPUS_MAX


def test_annotations_beyond_the_bounds_count_as_the_bound() -> None:
    for digits in (12, 18, 30):
        text = "9" * digits
        fraction = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": text}
        assert shared_request(fraction).devices == SHARED_GPUS_MAX
        assert shared_request({"gpu-memory": text}).memory_mib == MOST_MEMORY_MIB


def test_pending_gpu_memory_counts_by_the_smallest_gpu_and_its_bounds_by_the_largest() -> None:
    """10,100 MiB are 0.2525 of a GPU of 40,000, and 0.12625 of one of 80,000."""
    job = make.gang("waits", 1, queue="q").job
    world = make.cluster(
        make.node("small", gpu=1, gpu_memory_mib=40_000),
        make.node("large", gpu=1, gpu_memory_mib=80_000),
        make.queue("q"),
        make.Workload(job, (make.task(job, 0, make.Need(gpu_memory_mib=10_100)),)),
    )
    snapshot = snapshot_of(world)
    assert snapshot.queues.pending[0, QUEUE_GPU] == 252
    assert snapshot.demand.least_units[0, QUEUE_GPU] == 126.25


def test_unknown_mig_profiles_have_no_slices() -> None:
    assert mig_slices("nvidia.com/mig-7g.80gb") == 7
    assert mig_slices("nvidia.com/mig-99999999999999g.1gb") == 0
    assert mig_slices("nvidia.com/mig-٣g.20gb") == 0


def test_allocatable_amounts_of_a_node_are_clamped_to_the_bounds() -> None:
    allocatable = {"nvidia.com/gpu": str(INT64_MAX), "memory": "100Ei", "cpu": "-4", "pods": "10"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    record = node_record(from_builtins(Node, node))
    largest = LARGEST_AMOUNT - 1
    gpus = LARGEST_GPU_AMOUNT - 1
    assert record.allocatable == {"gpu": gpus, "memory": largest, "cpu": 0, "pods": 10}
    # Not even there fits a request that was cut.
    assert request_of(asking(memory="100Ei"))[0]["memory"] > largest
    assert request_of(asking(gpu="100Ei"))[0]["gpu"] > gpus
    assert snapshot_of(ClusterRecords(nodes=(record,))).nodes.allocatable.min() >= 0


@pytest.mark.parametrize("status", ["pending", "running"])
def test_sums_of_huge_requests_do_not_overflow(status: str) -> None:
    """40,000 requests of the largest amount are 2^63.3."""
    node = "n" if status == "running" else ""
    job = make.gang("absurd", 0, queue="q").job
    one = make.task(job, 0, make.Need(), node=node)
    many = tuple(
        TaskRecord(
            uid=str(number),
            name=str(number),
            job=job.key,
            status=one.status,
            node=node,
            request={"memory": LARGEST_AMOUNT, "pods": 1},
        )
        for number in range(40_000)
    )
    world = make.cluster(make.node("n", gpu=8), make.queue("q"))
    snapshot = snapshot_of(
        ClusterRecords(nodes=world.nodes, queues=world.queues, jobs=(job,), tasks=many)
    )
    queues = snapshot.queues
    total = queues.allocated if node else queues.pending
    assert LARGEST_SUM // 2 < total[0, QUEUE_RESOURCES.index("memory")] <= LARGEST_SUM
    if node:
        assert snapshot.nodes.idle[0].min() < -(LARGEST_SUM // 2)
        assert snapshot.nodes.idle[0].max() <= snapshot.nodes.allocatable[0].max()


@pytest.mark.parametrize("quota", [0, 1e308])
def test_huge_quotas_limits_and_weights_give_finite_fair_shares(quota: float) -> None:
    most = {"quota": quota, "limit": 1e308, "overQuotaWeight": 1e308}
    resources = dict.fromkeys(("cpu", "memory", "gpu"), most)
    queues = [
        queue_record(from_builtins(Queue, {"metadata": {"name": name}, "spec": spec}))
        for name, spec in (("q", {"resources": resources}), ("r", {"resources": resources}))
    ]
    world = make.cluster(
        make.node("n", gpu=8),
        *queues,
        make.gang("first", 1, gpu=9, queue="q"),
        make.gang("second", 1, gpu=8, queue="r"),
    )
    snapshot = snapshot_of(world)
    assert np.isfinite(snapshot.queues.limit).all()
    fair = shares_of(snapshot, 1.0).fair[:, QUEUE_GPU]
    assert fair.tolist() == ([9000, 8000] if quota else [4000, 4000])
    result = run_cycle(snapshot, build_policy(CONF), build_actions(CONF), make.NOW_S)
    assert [bind.task for bind in result.plan.binds] == ["second-0"]


def test_an_unplaced_gpu_share_is_explained_on_a_node_with_huge_capacity() -> None:
    """A node that claims 2^63 GPUs, and has no slot for the pod that would hold one."""
    allocatable = {"nvidia.com/gpu": str(INT64_MAX), "pods": "2"}
    labels = {"nvidia.com/gpu.memory": "40000"}
    body = {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}
    node = make.with_fields(node_record(from_builtins(Node, body)), is_ready=True)
    job = make.gang("runs", 0, queue="q").job
    waiting = make.gang("waits", 0, queue="q", minimum=1).job
    runs = make.task(job, 0, make.Need(gpu=0.9), node="n")
    waits = make.task(waiting, 0, make.Need(gpu=0.5, devices=2))
    world = ClusterRecords(
        nodes=(node,), queues=(make.queue("q"),), jobs=(job, waiting), tasks=(runs, waits)
    )
    result = run_cycle(snapshot_of(world), build_policy(CONF), build_actions(CONF), make.NOW_S)
    assert result.plan.binds == ()
    assert "no pod slot left" in result.explanation.sentences(waiting.key)[0]
