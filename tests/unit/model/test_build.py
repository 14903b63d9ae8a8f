from typing import Any

import pytest

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import Node, Pod, PriorityClass
from muster.api.devices import ResourceSlice
from muster.api.names import Names
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.model.build import (
    Identity,
    Priorities,
    aliases_of,
    is_up_for_scheduling,
    job_record,
    node_record,
    queue_record,
    stuck_at_s,
    task_record,
)
from muster.model.gpu_request import gpu_memory_mib
from muster.model.records import (
    Disruption,
    GpuKind,
    SubGroupRecord,
    TaskKind,
    TopologyConstraint,
)
from muster.model.status import TaskStatus

NOW_S = 1_700_000_000.0
NOW = "2023-11-14T22:13:20Z"
US = Identity()


def pod(phase: str = "Pending", **parts: Any) -> Pod:
    metadata = {"name": "p", "namespace": "team", "uid": "u1", **parts.pop("metadata", {})}
    spec = {"schedulerName": "kai-scheduler", "containers": [], **parts.pop("spec", {})}
    return from_builtins(Pod, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def bind_request(**status: Any) -> BindRequest:
    spec = {"podName": "p", "selectedNode": "n7", "selectedGPUGroups": ["g1"]}
    plain = {"metadata": {"name": "p", "namespace": "team"}, "spec": spec, "status": status}
    return from_builtins(BindRequest, plain)


@pytest.mark.parametrize(
    ("phase", "metadata", "spec", "request_", "status"),
    [
        ("Running", {}, {"nodeName": "n1"}, None, TaskStatus.RUNNING),
        ("Running", {"deletionTimestamp": NOW}, {}, None, TaskStatus.RELEASING),
        (
            "Running",
            {"deletionTimestamp": "2023-11-14T22:11:19Z"},
            {},
            None,
            TaskStatus.STUCK_IN_RELEASING,
        ),
        ("Pending", {"deletionTimestamp": "2020-01-01T00:00:00Z"}, {}, None, TaskStatus.RELEASING),
        ("Pending", {}, {"nodeName": "n1"}, None, TaskStatus.BOUND),
        ("Pending", {}, {}, bind_request(), TaskStatus.BINDING),
        ("Pending", {}, {}, bind_request(phase="Failed"), TaskStatus.PENDING),
        ("Pending", {}, {"schedulingGates": [{"name": "x"}]}, None, TaskStatus.GATED),
        ("Pending", {}, {}, None, TaskStatus.PENDING),
        ("Succeeded", {}, {}, None, TaskStatus.SUCCEEDED),
        ("Failed", {}, {}, None, TaskStatus.FAILED),
        ("Unknown", {}, {}, None, TaskStatus.UNKNOWN),
    ],
)
def test_a_pods_status_follows_from_phase_deletion_node_and_bind_request(
    phase: str, metadata: Any, spec: Any, request_: BindRequest | None, status: TaskStatus
) -> None:
    record = task_record(pod(phase, metadata=metadata, spec=spec), US, NOW_S, request_)
    assert record.status is status


@pytest.mark.row(11)
def test_a_pending_bind_request_places_the_pod_on_its_node_and_devices() -> None:
    sharing = pod(metadata={"annotations": {"gpu-fraction": "0.5"}})
    record = task_record(sharing, US, NOW_S, bind_request())
    assert (record.node, record.gpu_shares) == ("n7", ("g1",))


def test_gpu_shares_of_a_bound_pod_are_read_from_its_labels() -> None:
    several = {"runai-gpu-group/b": "b", "runai-gpu-group/a": "a"}
    notes = {"gpu-memory": "1000", "gpu-fraction-num-devices": "2"}
    meta, placed = {"labels": several, "annotations": notes}, {"nodeName": "n1"}
    record = task_record(pod("Running", metadata=meta, spec=placed), US, NOW_S)
    assert record.gpu_shares == ("a", "b")
    assert record.gpu.kind is GpuKind.MEMORY
    assert task_record(pod(metadata=meta), US, NOW_S).gpu_shares == (), "it waits"


def test_a_pod_holds_the_gpu_share_of_its_bind_request_whatever_is_edited_since() -> None:
    given = {"receivedResourceType": "Fraction", "receivedGPU": {"count": 1, "portion": "0.80"}}
    plain = {"podName": "p", "selectedNode": "n1", "selectedGPUGroups": ["g1"], **given}
    request = from_builtins(BindRequest, {"metadata": {"name": "p"}, "spec": plain})
    for labels in ({"runai-gpu-group": "g1"}, {}, {"runai-gpu-group": "other"}):
        for notes in ({"gpu-fraction": "0.8"}, {"gpu-fraction": "0.1"}, {}):
            meta = {"labels": labels, "annotations": notes}
            edited = pod("Running", metadata=meta, spec={"nodeName": "n1"})
            record = task_record(edited, US, NOW_S, request)
            assert record.gpu_shares == ("g1",)
            assert (record.gpu.kind, record.gpu.portion) == (GpuKind.FRACTION, 800)


def test_labels_and_annotations_of_a_pod_of_another_scheduler_hold_no_gpu_share() -> None:
    labels = {f"runai-gpu-group/{number}": f"x{number}" for number in range(300)}
    notes = {"gpu-memory": "4000000", "gpu-fraction-num-devices": "1024"}
    theirs = pod(
        "Running",
        metadata={"labels": labels, "annotations": notes},
        spec={"schedulerName": "nobody", "nodeName": "n1"},
    )
    record = task_record(theirs, US, NOW_S)
    assert record.gpu_shares == ()
    assert record.gpu.kind is GpuKind.NONE


def test_pods_of_other_schedulers_belong_to_no_job() -> None:
    notes = {"annotations": {"pod-group-name": "g"}}
    ours = task_record(pod(metadata=notes), US, NOW_S)
    theirs = task_record(pod(metadata=notes, spec={"schedulerName": "other"}), US, NOW_S)
    assert (ours.job, ours.is_ours) == ("team/g", True)
    assert (theirs.job, theirs.is_ours) == ("", False)


def test_reservation_and_scaling_pods_are_known_by_their_label_in_their_namespaces_only() -> None:
    def kind(app: str, namespace: str, us: Identity = US) -> TaskKind:
        meta = {"namespace": namespace, "labels": {"app": app}}
        return task_record(pod(metadata=meta), us, NOW_S).kind

    home = "kai-resource-reservation"
    assert kind("kai-resource-reservation", home) is TaskKind.RESERVATION
    assert kind("scaling-pod", "kai-scale-adjust") is TaskKind.SCALING
    assert kind("web", home) is TaskKind.WORK
    for app in ("kai-resource-reservation", "scaling-pod"):
        assert kind(app, "team") is TaskKind.WORK, "anybody may write that label there"
    elsewhere = Identity(Names(reservation_namespace="mine"))
    assert kind("kai-resource-reservation", "mine", elsewhere) is TaskKind.RESERVATION
    assert kind("kai-resource-reservation", home, elsewhere) is TaskKind.WORK


def test_a_terminating_pod_counts_as_stuck_after_the_given_time() -> None:
    assert stuck_at_s(pod("Running", metadata={"deletionTimestamp": NOW}), 120.0) == NOW_S + 120
    assert stuck_at_s(pod("Running"), 120.0) is None


def node(**parts: Any) -> Node:
    ready = [{"type": "Ready", "status": "True"}, *parts.pop("conditions", [])]
    return from_builtins(
        Node,
        {
            "metadata": {"name": "n1", "labels": parts.pop("labels", {})},
            "spec": parts.pop("spec", {}),
            "status": {"allocatable": parts.pop("allocatable", {}), "conditions": ready},
        },
    )


@pytest.mark.row(10)
def test_a_node_is_read_with_its_resources_and_state() -> None:
    record = node_record(
        node(
            allocatable={"cpu": "3920m", "memory": "1Gi", "nvidia.com/gpu": "8"},
            labels={"nvidia.com/gpu.memory": "81559"},
            spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        )
    )
    assert record.allocatable == {"cpu": 3920, "memory": 1 << 30, "gpu": 8000}
    assert record.gpu_memory_mib == 81500
    assert record.is_ready
    assert record.is_unschedulable
    assert len(record.taints) == 1


@pytest.mark.parametrize(
    ("labels", "mib"),
    [
        ({"nvidia.com/gpu.memory": "16160"}, 16100),
        ({"nvidia.com/gpu.memory": str(80 << 30)}, 81900),
        ({"nvidia.com/gpu.memory": "lots"}, 0),
        ({}, 0),
    ],
)
def test_memory_of_a_gpu_is_read_in_mib_or_bytes(labels: dict[str, str], mib: int) -> None:
    assert gpu_memory_mib(labels) == mib


def test_a_node_under_pressure_is_not_ready() -> None:
    pressed = node(conditions=[{"type": "MemoryPressure", "status": "True"}])
    assert not node_record(pressed).is_ready


def test_devices_of_resource_slices_count_as_gpus() -> None:
    devices = [{"name": "0"}, {"name": "1"}]
    plain = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "n1",
            "pool": {"name": "n1"},
            "devices": devices,
        },
    }
    record = node_record(node(), [from_builtins(ResourceSlice, plain)])
    assert (record.allocatable["gpu"], record.dra_gpus) == (2000, 2)


@pytest.mark.parametrize(
    ("labels", "allocatable", "is_mig"),
    [
        ({"node-role.kubernetes.io/mig-enabled": "true"}, {}, True),
        ({}, {"nvidia.com/mig-1g.5gb": "7"}, True),
        ({"node-role.kubernetes.io/mig-enabled": "false"}, {"nvidia.com/mig-1g.5gb": "7"}, False),
        ({}, {}, False),
    ],
)
def test_a_mig_node_is_known_by_label_or_resources(
    labels: dict[str, str], allocatable: dict[str, str], is_mig: bool
) -> None:
    assert node_record(node(labels=labels, allocatable=allocatable)).is_mig is is_mig


def test_a_queue_is_read_in_milli_cpu_bytes_and_gpu_units() -> None:
    resources = {
        "cpu": {"quota": 4000, "limit": -1, "overQuotaWeight": 2},
        "memory": {"quota": 8000, "limit": 16000, "overQuotaWeight": 1},
        "gpu": {"quota": 1.5, "limit": 4, "overQuotaWeight": 3},
    }
    plain = {
        "metadata": {"name": "q"},
        "spec": {"parentQueue": "top", "resources": resources, "reclaimMinRuntime": "1m30s"},
    }
    record = queue_record(from_builtins(Queue, plain))
    assert record.quota == {"cpu": 4000, "memory": 8e9, "gpu": 1500}
    assert record.limit == {"cpu": -1, "memory": 16e9, "gpu": 4000}
    assert record.weight == {"cpu": 2, "memory": 1, "gpu": 3}
    assert (record.priority, record.parent, record.reclaim_min_runtime_s) == (100, "top", 90.0)


def test_a_queue_without_resources_has_zero_quota_and_limit() -> None:
    record = queue_record(from_builtins(Queue, {"metadata": {"name": "q"}}))
    assert record.quota == record.limit == {"cpu": 0, "memory": 0, "gpu": 0}


def group(spec: Any = None, **parts: Any) -> PodGroup:
    metadata = {"name": "g", "namespace": "team", **parts.pop("metadata", {})}
    return from_builtins(PodGroup, {"metadata": metadata, "spec": spec or {}, **parts})


CLASSES = Priorities.of(
    from_builtins(PriorityClass, {"metadata": {"name": name}, "value": value, **more})
    for name, value, more in (
        ("train", 50, {}),
        ("inference", 125, {"preemptionPolicy": "Never"}),
        ("usual", 77, {"globalDefault": True}),
    )
)


@pytest.mark.row(16)
@pytest.mark.parametrize(
    ("classes", "name", "priority"),
    [
        (CLASSES, "train", 50),
        (CLASSES, "no-such-class", 77),
        (CLASSES, "", 77),
        (Priorities(), "train", 50),
    ],
)
def test_priority_is_that_of_the_class_else_the_default_class_else_50(
    classes: Priorities, name: str, priority: int
) -> None:
    assert job_record(group({"priorityClassName": name}), classes, {}).priority == priority


@pytest.mark.row(17)
@pytest.mark.parametrize(
    ("spec", "preemptible"),
    [
        ({"priorityClassName": "train"}, True),
        ({"priorityClassName": "inference"}, False),
        ({"priorityClassName": "inference", "preemptibility": "preemptible"}, True),
        ({"priorityClassName": "train", "preemptibility": "non-preemptible"}, False),
    ],
)
def test_a_pod_group_is_preemptible_by_its_spec_or_else_below_priority_100(
    spec: dict[str, str], preemptible: bool
) -> None:
    assert job_record(group(spec), CLASSES, {}).is_preemptible is preemptible


def test_timestamps_of_a_pod_group_come_from_its_annotations_and_bad_ones_are_ignored() -> None:
    notes = {
        "kai.scheduler/last-start-timestamp": NOW,
        "kai.scheduler/last-eviction-timestamp": "yesterday",
    }
    record = job_record(group(metadata={"annotations": notes}), CLASSES, {})
    assert (record.last_start_s, record.last_eviction_s) == (NOW_S, None)


@pytest.mark.parametrize(
    ("mode", "disruption", "grace_s"),
    [
        ("", Disruption.GANG, None),
        ("PodGroup", Disruption.JOB, None),
        ("Pod", Disruption.TASK, -1.0),
        ("pods", Disruption.GANG, None),
    ],
)
def test_the_disruption_mode_of_a_pod_group_sets_disruption_and_staleness_grace(
    mode: str, disruption: Disruption, grace_s: float | None
) -> None:
    noted = {"annotations": {"kai.scheduler/disruption-mode": mode}}
    record = job_record(group(metadata=noted), CLASSES, {})
    assert (record.disruption, record.staleness_grace_s) == (disruption, grace_s)
    own = job_record(group({"stalenessGracePeriod": "5m"}, metadata=noted), CLASSES, {})
    assert own.staleness_grace_s == 300.0


TREE = [
    {"name": "top", "minSubGroup": 1},
    {"name": "a", "minMember": 2, "parent": "top"},
    {
        "name": "b",
        "parent": "top",
        "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "r"},
    },
]


def test_sub_groups_become_a_tree_with_topology_aliases_resolved_to_labels() -> None:
    topology = {
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "rack", "alias": "r"}]},
    }
    aliases = aliases_of([from_builtins(Topology, topology)])
    tree = job_record(group({"minSubGroup": 1, "subGroups": TREE}), CLASSES, aliases).sub_groups
    assert tree.minimum == 1
    (top,) = tree.children
    assert (top.name, top.minimum) == ("top", 1)
    assert [(leaf.name, leaf.minimum) for leaf in top.children] == [("a", 2), ("b", 0)]
    assert top.children[1].topology == TopologyConstraint("t", "rack")


@pytest.mark.parametrize(
    "parts",
    [
        [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
        [{"name": "a", "parent": "gone"}],
        [{"name": "a"}, {"name": "a"}],
    ],
    ids=["a circle", "a missing parent", "a name twice"],
)
def test_sub_groups_that_are_no_tree_count_as_one_gang(parts: list[dict[str, str]]) -> None:
    tree = job_record(group({"minMember": 3, "subGroups": parts}), CLASSES, {}).sub_groups
    assert tree.children == (SubGroupRecord(minimum=3),)


@pytest.mark.row(15)
@pytest.mark.parametrize(
    ("backoff", "pool", "refused_in", "is_up"),
    [
        (None, "", ["default"], True),
        (-1, "", ["default"], True),
        (1, "", [], True),
        (1, "", ["default"], False),
        (1, "pool-b", ["pool-b", "default"], True),
        (1, "pool-b", ["default", "pool-b"], False),
    ],
)
def test_a_pod_group_with_scheduling_backoff_is_not_scheduled_until_its_node_pool_changes(
    backoff: int | None, pool: str, refused_in: list[str], is_up: bool
) -> None:
    spec = {} if backoff is None else {"schedulingBackoff": backoff}
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    conditions = [
        {"nodePool": found, "transitionID": str(number)}
        for number, found in enumerate(refused_in, 1)
    ]
    parked = group(spec, metadata={"labels": labels}, status={"schedulingConditions": conditions})
    assert is_up_for_scheduling(parked, "kai.scheduler/node-pool") is is_up
