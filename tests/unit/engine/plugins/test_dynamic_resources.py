"""Resource claims through a cycle: refusals, placements, allocations for the binder."""

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from muster.api.bindrequest import ExtendedResourceClaimAllocation, ResourceClaimAllocation
from muster.api.codec import decode
from muster.api.core import Pod
from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import Bind
from muster.engine.plugins.dynamic_resources.plugin import DynamicResources
from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import ClaimReference, ContainerKind, ContainerRequest
from muster.model.constraints import Constraints
from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.pod_requirements import requirements_of
from muster.model.reasons import Reason, Refusal
from muster.model.records import ClusterRecords, JobRecord, NodeRecord, QueueRecord, TaskRecord
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

ROOM = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": 2000, "example.com/nic": 2}


def claim(name: str, queue: str = "q", users: int = 0, **status: Any) -> ResourceClaim:
    consumers = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(users)]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return decode(
        ResourceClaim,
        json.dumps(
            {
                "metadata": {
                    "name": name,
                    "namespace": "x",
                    "labels": {"kai.scheduler/queue": queue},
                },
                "spec": {"devices": {"requests": [request]}},
                "status": {"reservedFor": consumers, **status},
            }
        ),
    )


def of_group(name: str, **status: Any) -> ResourceClaim:
    """A claim that was made for a PodGroup: nobody labels it, and the group is its consumer."""
    made = msgspec.to_builtins(claim(name))
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "controller": True}
    made["metadata"] = {
        "name": name,
        "namespace": "x",
        "ownerReferences": [{**owner, "name": "g", "uid": "g"}],
    }
    return decode(ResourceClaim, json.dumps({**made, "status": status}))


def objects(*claims: ResourceClaim, **more: Any) -> ClusterObjects:
    def slice_of(node: str) -> ResourceSlice:
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node},
                "devices": [{"name": "0"}, {"name": "1"}]}  # fmt: skip
        return decode(ResourceSlice, json.dumps({"metadata": {"name": node}, "spec": spec}))

    gpu_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/nic"}}
    return ClusterObjects(
        device_classes={"gpu": decode(DeviceClass, json.dumps(gpu_class))},
        device_slices={node: slice_of(node) for node in ("a", "b")},
        device_claims={f"x/{c.metadata.name}": c for c in claims},
        **more,
    )


class World:
    def __init__(
        self,
        objects: ClusterObjects,
        *tasks: TaskRecord,
        claimable: str = "example.com/nic",
        plugin: DynamicResources | None = None,
        now_s: float = 0.0,
    ) -> None:
        names = frozenset({claimable})
        self.snapshot = snapshot_of(
            ClusterRecords(
                nodes=(
                    NodeRecord("a", ROOM, claimable=names),
                    NodeRecord("b", ROOM, claimable=names),
                ),
                queues=(QueueRecord("q"),),
                jobs=(JobRecord("x/j", "q"),),
                tasks=tasks,
                cluster_objects=objects,
            )
        )
        view = View(self.snapshot, Ledger(self.snapshot), now_s)
        plugin = plugin or DynamicResources(Reader(None, "test"))
        self.answers: SessionPlugin = plugin.open(view)

    def fits(self, task: int = 0) -> list[bool]:
        shape, rows = self.snapshot.shape_of(task), np.arange(2)
        found = [bool(node) for node in self.answers.fits(shape, rows)]
        reasons = self.answers.filter_reasons(shape, rows).tolist()
        assert [reason == 0 for reason in reasons] == found
        return found

    def refusal(self) -> Reason | None:
        found = self.answers.pre_filter(self.snapshot.shape_of(0), 0)
        return None if found is None else found.reason

    def post(
        self, task: int, node: int, kind: EntryKind = EntryKind.ALLOCATE, sign: int = 1
    ) -> None:
        self.answers.on_ledger_change(
            Entries(np.array([task]), np.array([node]), np.array([kind]), sign)
        )


def task(uid: str, *names: str, **more: Any) -> TaskRecord:
    references = tuple(ClaimReference(name, name) for name in names)
    constraints = Constraints(claims=references, namespace="x")
    return TaskRecord(uid, uid, "x/j", namespace="x", constraints=constraints, **more)


def test_a_claim_of_a_device_class_that_is_not_there_is_refused_for_the_class() -> None:
    gpu_class = {"metadata": {"name": "gpus"}, "spec": {}}
    around = objects(claim("c"))
    around = msgspec.structs.replace(
        around, device_classes={"gpus": decode(DeviceClass, json.dumps(gpu_class))}
    )
    world = World(around, task("t", "c"))
    refusal = world.answers.pre_filter(world.snapshot.shape_of(0), 0)
    assert refusal == Refusal(Reason.DEVICE_CLASS_MISSING, subject="gpu", names=("gpus",))


def test_a_claim_is_refused_when_missing_of_another_queue_or_full() -> None:
    assert World(objects(), task("t", "c")).refusal() is Reason.CLAIM_MISSING
    assert World(objects(claim("c")), task("t", "c")).refusal() is None
    of_template = ClaimReference("gpu", template="one-gpu")
    wanted = Constraints(claims=(of_template,), namespace="x")
    unmade = TaskRecord("t", "t", "x/j", namespace="x", constraints=wanted)
    assert World(objects(), unmade).refusal() is Reason.CLAIM_NOT_MADE
    foreign = World(objects(claim("c", queue="other")), task("t", "c"))
    assert foreign.refusal() is Reason.CLAIM_OF_OTHER_QUEUE
    assert World(objects(claim("c", users=255)), task("t", "c")).refusal() is None
    assert World(objects(claim("c", users=256)), task("t", "c")).refusal() is Reason.CLAIM_FULL
    off = objects(claim("c"), serves_devices=False)
    assert World(off, task("t", "c")).refusal() is Reason.BAD_REQUEST


def test_a_selector_that_does_not_compile_is_named_with_its_claim_and_request() -> None:
    made = msgspec.to_builtins(claim("c"))
    selectors = [{"cel": {"expression": "device.driver =="}}]
    made["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors
    world = World(objects(decode(ResourceClaim, json.dumps(made))), task("t", "c"))
    refusal = world.answers.pre_filter(world.snapshot.shape_of(0), 0)
    assert refusal is not None
    assert refusal.reason is Reason.BAD_REQUEST
    assert refusal.subject.startswith("resource claim c, request r (or device class gpu)")
    assert "'device.driver =='" in refusal.subject


def test_a_selector_that_costs_too_much_is_named_with_its_claim_and_request() -> None:
    made = msgspec.to_builtins(claim("c"))
    costly = "'a'" + ".replace('', 'aaaaaaaaaa')" * 20 + " == device.driver"
    selectors = [{"cel": {"expression": costly}}]
    made["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors
    odd = decode(ResourceClaim, json.dumps(made))
    world = World(objects(odd, claim("d")), task("t", "c"), task("u", "d"))
    refusal = world.answers.pre_filter(world.snapshot.shape_of(0), 0)
    assert refusal is not None
    assert refusal.subject.startswith("resource claim c, request r (or device class gpu): selector")
    assert "at most 1000000 are allowed" in refusal.subject
    assert world.fits() == [False, False]
    assert world.answers.pre_filter(world.snapshot.shape_of(1), 0) is None


def test_a_claim_with_very_many_selectors_waits_for_later_cycles_and_the_next_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.model.device_pool.SELECTING_MAX", 1_000)
    made = msgspec.to_builtins(claim("c"))
    texts = [f"{at} == {at}" for at in range(30)]
    request = made["spec"]["devices"]["requests"][0]
    request["exactly"]["selectors"] = [{"cel": {"expression": text}} for text in texts]
    around = objects(decode(ResourceClaim, json.dumps(made)))
    plugin = DynamicResources(Reader(None, "test"))
    cycles = 0
    while True:
        world = World(around, task("t", "c"), plugin=plugin, now_s=7.0)
        refusal = world.refusal()
        cycles += 1
        if refusal is None:
            break
        assert refusal is Reason.BUDGET_SPENT
        assert world.answers.next_change_s() == 7.0
    assert 3 < cycles < 12
    assert world.answers.next_change_s() == math.inf
    assert world.fits() == [True, True]


def test_an_allocated_claim_restricts_its_pods_to_the_node_of_its_devices() -> None:
    device = {"request": "r", "driver": "gpu.example.com", "pool": "b", "device": "0"}
    held = claim("c", users=1, allocation={"devices": {"results": [device]}})
    world = World(objects(held), task("t", "c"))
    assert world.fits() == [False, True]


def test_pods_that_share_a_claim_follow_the_first_and_an_undo_frees_them() -> None:
    world = World(objects(claim("c")), task("t", "c"), task("u", "c"))
    assert world.answers.dependence(world.snapshot.shape_of(0)) is Dependence.CLUSTER
    assert world.fits() == [True, True]
    world.post(0, 1)
    assert world.fits(1) == [False, True]
    world.post(0, 1, sign=-1)
    assert world.fits(1) == [True, True]


GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}


def test_a_claim_of_a_native_pod_group_needs_no_queue_and_has_no_limit_of_pods() -> None:
    tasks = [task(f"t{number}", "c") for number in range(300)]
    world = World(objects(of_group("c")), *tasks)
    assert world.refusal() is None
    for number in range(299):
        world.post(number, 1)
    assert world.refusal() is None
    assert world.fits(299) == [False, True]


def test_devices_of_a_native_pod_group_are_not_freed_by_evicting_its_pods() -> None:
    devices = [
        {"request": "r", "driver": "gpu.example.com", "pool": "b", "device": name} for name in "01"
    ]
    held = of_group("c", reservedFor=[GROUP], allocation={"devices": {"results": devices}})
    sits = task("t", "c", node="b", status=TaskStatus.RUNNING)
    world = World(objects(held, claim("other")), sits, task("u", "other"))
    assert world.fits(1) == [True, False]
    world.post(0, 1, EntryKind.EVICT)
    assert world.fits(1) == [True, False]


def test_separate_claims_use_up_the_devices_of_a_node() -> None:
    claims = [claim(f"c{i}") for i in range(4)]
    tasks = [task(f"t{i}", f"c{i}") for i in range(4)]
    world = World(objects(*claims), *tasks)
    for i in range(2):
        world.post(i, 0)
    assert world.fits(2) == [False, True]
    world.post(0, 0, EntryKind.EVICT)
    assert world.fits(2) == [True, True]
    world.post(0, 0, EntryKind.EVICT, sign=-1)
    assert world.fits(2) == [False, True]


def test_pods_with_claims_of_one_template_are_one_equivalence_class() -> None:
    wanted = Constraints(claims=(ClaimReference("gpus", template="two"),), namespace="x")
    tasks = [
        TaskRecord(f"t{i}", f"t{i}", "x/j", constraints=wanted, claims={"gpus": f"c{i}"})
        for i in range(3)
    ]
    world = World(objects(*(claim(f"c{i}", queue="other") for i in range(3))), *tasks)
    assert len(set(world.snapshot.tasks.shape.tolist())) == 1
    assert world.refusal() is None
    assert world.answers.dependence(world.snapshot.shape_of(0)) is Dependence.NODE
    world.post(0, 0)
    world.post(1, 0)
    assert world.fits(2) == [False, True]


def test_a_bind_names_the_devices_of_a_claim() -> None:
    world = World(objects(claim("c")), task("t", "c"))
    world.post(0, 1)
    details = world.answers.annotate([Bind("t", "x/j", "b")])[0] or {}
    allocations = details["resourceClaimAllocations"]
    assert isinstance(allocations, tuple)
    first = allocations[0]
    assert isinstance(first, ResourceClaimAllocation)
    assert first.name == "c"
    assert first.allocation is not None
    result = first.allocation.devices.results[0]
    assert (result.request, result.pool, result.device) == ("r", "b", "0")
    assert first.allocation.node_selector is not None
    assert first.allocation.node_selector.matches("b", {})


def test_an_extended_resource_of_a_device_class_is_allocated_as_a_claim() -> None:
    nic = (("example.com/nic", 1),)
    containers = (
        ContainerRequest((("example.com/nic", 2),), ContainerKind.INIT, "prepare"),
        ContainerRequest(nic, ContainerKind.APP, "main"),
    )
    wanted = Constraints(containers=containers)
    tasks = [
        TaskRecord(f"t{i}", f"t{i}", "x/j", request={"example.com/nic": 2}, constraints=wanted)
        for i in range(2)
    ]
    world = World(objects(), *tasks)
    assert world.fits() == [True, True]
    world.post(0, 0)
    assert world.fits(1) == [False, True]
    details = world.answers.annotate([Bind("t0", "x/j", "a")])[0] or {}
    told = details["extendedResourceClaimAllocation"]
    assert isinstance(told, ExtendedResourceClaimAllocation)
    assert [m.container_name for m in told.container_mappings] == ["main"]
    names = [request.name for request in told.device_requests]
    assert names == ["container-1-request-0", "container-0-request-0"]
    assert told.allocation is not None
    assert len(told.allocation.devices.results) == 2
    world.post(0, 0, sign=-1)
    assert world.fits(1) == [True, True]


def test_an_extended_resource_is_mapped_by_the_name_that_the_pod_asked_for() -> None:
    """GPUs are one column of ours, whose name no API server knows."""
    gpu_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    around = msgspec.structs.replace(
        objects(), device_classes={"gpu": decode(DeviceClass, json.dumps(gpu_class))}
    )
    asked = decode(
        Pod,
        json.dumps(
            {
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "resources": {"requests": {"memory": "1Gi", "nvidia.com/gpu": "1"}},
                        }
                    ]
                }
            }
        ),
    )
    needs = requirements_of(asked, {}, keeps_containers=True)
    wants = TaskRecord(
        "t", "t", "x/j", request=needs.amounts, gpu=needs.gpu, constraints=needs.constraints
    )
    world = World(around, wants, claimable="gpu")
    world.post(0, 0)
    details = world.answers.annotate([Bind("t", "x/j", "a")])[0] or {}
    told = details["extendedResourceClaimAllocation"]
    assert isinstance(told, ExtendedResourceClaimAllocation)
    (mapping,) = told.container_mappings
    assert (mapping.resource_name, mapping.request_name) == (
        "nvidia.com/gpu",
        "container-0-request-1",  # memory is its first
    )


def test_devices_of_extended_resources_are_freed_by_evicting_their_pods() -> None:
    """Of such a pod that runs, only a claim that was made for it says which devices it has."""
    world = one_runs_by_name_and_one_waits()
    assert world.fits(1) == [False, True]
    world.post(0, 0, EntryKind.EVICT)
    assert world.fits(1) == [True, True]
    world.post(0, 0, EntryKind.EVICT, sign=-1)
    assert world.fits(1) == [False, True]


def test_a_pod_comes_back_only_to_devices_of_extended_resources_that_nobody_took() -> None:
    world, evicted = one_runs_by_name_and_one_waits(), np.array([0])
    world.post(0, 0, EntryKind.EVICT)
    assert world.answers.can_return(evicted).tolist() == [True]
    world.post(1, 0)
    assert world.answers.can_return(evicted).tolist() == [False]
    world.post(1, 0, sign=-1)
    assert world.answers.can_return(evicted).tolist() == [True]


def one_runs_by_name_and_one_waits() -> World:
    """The first pod has both devices of node a; the second wants as many."""
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": name} for name in "01"
    ]
    made = msgspec.to_builtins(claim("t0-extended", allocation={"devices": {"results": results}}))
    made["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "t0", "uid": "t0", "controller": True}
    ]
    made["status"]["reservedFor"] = [{"resource": "pods", "name": "t0", "uid": "t0"}]
    nics = {"example.com/nic": 2}
    runs = TaskRecord("t0", "t0", "x/j", request=nics, node="a", status=TaskStatus.RUNNING)
    waits = TaskRecord("t1", "t1", "x/j", request=nics)
    return World(objects(decode(ResourceClaim, json.dumps(made))), runs, waits)
