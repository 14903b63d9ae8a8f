"""The binder in a cluster of dictionaries: every way to the node, and back from every stop."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.binder_world import RESERVATIONS, BinderWorld

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.devices import ResourceClaim
from muster.api.meta import Key
from muster.services.binder.cluster_view import BindAttempt, Delete, Patch, Times
from muster.services.binder.decide import BindPod, Decider, GiveUp, Nothing, Wait
from muster.services.binder.group_claims import given_up
from muster.services.binder.settings import BinderSettings
from muster.services.binder.steps.gpu_sharing import ShareGpu
from muster.services.binder.steps.reserve_gpu import reservation_name

NODE = {"kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}}}
POD_KEY = Key("team", "p")


def pod(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "uid": "pod-uid", **parts.pop("metadata", {})}
    spec = {"containers": [{"name": "main"}], **parts.pop("spec", {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def request(limit: int | None = 3, **spec: Any) -> dict[str, Any]:
    body = {"podName": "p", "selectedNode": "n1", "receivedResourceType": "Regular", **spec}
    if limit is not None:
        body["backoffLimit"] = limit
    created = "1970-01-01T00:00:00Z"
    metadata = {"name": "p", "namespace": "team", "creationTimestamp": created}
    return {"kind": "BindRequest", "metadata": metadata, "spec": body}


def of_an_earlier_pod(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "earlier"}]
    return made


def plain() -> BinderWorld:
    return BinderWorld(NODE, pod(), request())


def sharing(devices: int = 1) -> BinderWorld:
    notes = {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p-abc-shared-gpu"}
    if devices > 1:
        notes["gpu-fraction-num-devices"] = str(devices)
    variable = {
        "name": "NVIDIA_VISIBLE_DEVICES",
        "valueFrom": {"configMapKeyRef": {"name": "p-abc-shared-gpu-0", "key": "x"}},
    }
    sharer = pod(
        metadata={"annotations": notes},
        spec={"containers": [{"name": "main", "env": [variable]}], "tolerations": [{"key": "gpu"}]},
    )
    return BinderWorld(
        NODE,
        sharer,
        request(
            receivedResourceType="Fraction",
            receivedGPU={"count": devices, "portion": "0.50"},
            selectedGPUGroups=[f"group-{number}" for number in range(devices)],
        ),
    )


def claiming() -> BinderWorld:
    result = {"device": "gpu-0", "driver": "gpu.example.com", "pool": "n1", "request": "gpu"}
    return BinderWorld(
        NODE,
        pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}),
        {
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "team"},
            "spec": {"devices": {}},
        },
        request(
            resourceClaimAllocations=[
                {"name": "gpu", "allocation": {"devices": {"results": [result]}}}
            ]
        ),
    )


def with_volume(*volumes: dict[str, Any]) -> BinderWorld:
    return BinderWorld(
        NODE,
        pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}),
        {
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "made.up",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "team"},
            "spec": {
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
            },
        },
        *volumes,
        request(),
    )


def volume(name: str, size: str, zone: str = "a") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    }


FLOWS: dict[str, Callable[[], BinderWorld]] = {
    "a plain pod": plain,
    "a share of one device": sharing,
    "shares of three devices": lambda: sharing(3),
    "a claim for devices": claiming,
    "a volume to be made": with_volume,
    "a volume that exists": lambda: with_volume(volume("v1", "20Gi")),
}


@pytest.mark.row(85, 95, 103)
@pytest.mark.parametrize("flow", FLOWS)
def test_the_pod_is_bound_when_everything_is_prepared(flow: str) -> None:
    world = FLOWS[flow]()
    world.run()
    found = world.pod(POD_KEY)
    assert found is not None
    assert found.spec.node_name == "n1"
    assert world.request().status.phase == "Succeeded"
    assert found.metadata.annotations["received-resource-type"] in ("Regular", "Fraction")


@pytest.mark.parametrize("flow", FLOWS)
def test_a_binder_that_is_killed_after_any_write_ends_in_the_same_state(flow: str) -> None:
    whole = FLOWS[flow]()
    whole.run()
    for killed_after in range(1, len(whole.writes) + 1):
        again = FLOWS[flow]()
        again.run(stop_after=killed_after)
        assert _without_versions(again) == _without_versions(whole), f"killed after {killed_after}"


def test_a_plain_pod_costs_one_binding_and_one_status_patch() -> None:
    world = plain()
    world.run()
    assert world.writes == ["bind Pod", "patch BindRequest"]


@pytest.mark.row(103, 108)
def test_a_gpu_share_gets_reservation_pods_labels_and_devices() -> None:
    world = sharing(2)
    world.run()
    names = {name for kind, (_, name) in world.objects if kind == "Pod"}
    assert names == {"p", reservation_name("n1", "group-0"), reservation_name("n1", "group-1")}
    found = world.pod(POD_KEY)
    assert found is not None
    assert found.metadata.labels == {
        "runai-gpu-group/group-0": "group-0",
        "runai-gpu-group/group-1": "group-1",
    }
    capabilities = world.config_map(Key("team", "p-abc-shared-gpu-0"))
    assert capabilities is not None
    devices = capabilities.data["NVIDIA_VISIBLE_DEVICES"].split(",")
    assert sorted(devices) == ["GPU-1", "GPU-2"]
    assert capabilities.data["GPU_PORTION"] == "0.50"


@pytest.mark.parametrize(
    ("notes", "label", "limit"),
    [
        ({"gpu-fraction": "0.125"}, "81559", "10187m"),
        ({"gpu-fraction": "0.5"}, str(80_000 << 20), "40000m"),
        ({"gpu-memory": "12345"}, "81559", "12345m"),
        ({"gpu-memory": "12345"}, "", "12345m"),
        ({"gpu-fraction": "0.5"}, "", None),
    ],
)
def test_hami_is_told_the_memory_that_the_scheduler_counts(
    notes: dict[str, str], label: str, limit: str | None
) -> None:
    world = sharing()
    found = world.objects[("Pod", POD_KEY)]["metadata"]["annotations"]
    del found["gpu-fraction"]
    found.update(notes)
    world.objects[("Node", Key("", "n1"))]["metadata"]["labels"]["nvidia.com/gpu.memory"] = label
    world.run()
    pod, node = world.pod(POD_KEY), world.node("n1")
    assert pod is not None
    assert node is not None
    asked = from_builtins(BindRequest, world.objects[("BindRequest", POD_KEY)])
    step = ShareGpu(BinderSettings(hami_core=True))
    state = step.state(BindAttempt(asked, pod, node, Times(0.0)), world)
    patches = [write.patch for write in getattr(state, "writes", ()) if isinstance(write, Patch)]
    assert patches == ([{"data": {"CUDA_DEVICE_MEMORY_LIMIT": limit}}] if limit else [])


def test_reservation_names_are_those_of_kai() -> None:
    assert reservation_name("node-1", "g1") == "gpu-reservation-09e54cf062fba56e"


def test_a_device_that_another_reservation_of_the_node_holds_is_not_given_twice() -> None:
    world = sharing()
    for _ in world.step():
        pass
    world.others_act(0.0)
    mine = world.objects[("Pod", Key(RESERVATIONS, reservation_name("n1", "group-0")))]
    other = copy.deepcopy(mine)
    other["metadata"] = {
        **other["metadata"],
        "name": "another",
        "labels": {"runai-gpu-group": "group-9"},
        "uid": "another",
    }
    other["spec"]["nodeName"] = "n2"
    world.add(other)
    metadata = {"name": "q", "uid": "q", "labels": {"runai-gpu-group": "group-9"}}
    world.add(pod(metadata=metadata, spec={"nodeName": "n1"}))
    assert not isinstance(world.move(), GiveUp), "devices of other nodes may have the same name"
    world.objects[("Pod", Key(RESERVATIONS, "another"))]["spec"]["nodeName"] = "n1"
    move = world.move()
    assert isinstance(move, GiveUp)
    assert "another" in move.why
    assert "both hold device GPU-1" in move.why
    for _ in world.step():
        pass
    assert not world.reservations("group-0")
    assert len(world.reservations("group-9")) == 1


def doubled(mine_is_older: bool, users: Sequence[str]) -> BinderWorld:
    """Two reservation pods of a node hold one device; `users` share the GPU of one or of both."""
    world = sharing()
    for _ in world.step():
        pass
    world.others_act(0.0)
    mine = world.objects[("Pod", Key(RESERVATIONS, reservation_name("n1", "group-0")))]
    other = copy.deepcopy(mine)
    other["metadata"] |= {"name": "another", "uid": "another"}
    other["metadata"]["labels"] = {"runai-gpu-group": "group-9"}
    for one, is_older in ((mine, mine_is_older), (other, not mine_is_older)):
        one["metadata"]["creationTimestamp"] = f"2023-01-0{1 if is_older else 2}T00:00:00Z"
    world.add(other)
    for group in users:
        labels = {"runai-gpu-group": group}
        metadata = {"name": f"of-{group}", "uid": group, "labels": labels}
        world.add(pod(metadata=metadata, spec={"nodeName": "n1"}))
    return world


@pytest.mark.parametrize(
    ("mine_is_older", "users", "fails", "goes"),
    [
        (True, [], False, False),
        (False, [], True, True),
        (True, ["group-9"], True, True),
        (False, ["group-0"], False, False),
        (True, ["group-0", "group-9"], True, False),
    ],
    ids=[
        "mine came first",
        "the other came first",
        "the other is used",
        "mine is used",
        "both are",
    ],
)
def test_of_two_reservations_that_hold_one_device_the_used_one_keeps_it_or_the_first(
    mine_is_older: bool, users: list[str], fails: bool, goes: bool
) -> None:
    """A reservation that somebody uses is never deleted: its users would lose their device."""
    move = doubled(mine_is_older, users).move()
    assert isinstance(move, GiveUp) is fails
    writes = move.writes if isinstance(move, GiveUp) else ()
    assert any(isinstance(write, Delete) for write in writes) is goes


def test_waiting_for_the_device_of_a_reservation_has_a_deadline() -> None:
    world = sharing()
    for _ in world.step():
        pass
    reservation = next(
        one for one in world.all("Pod") if one["metadata"]["namespace"] == RESERVATIONS
    )
    world.seen[reservation["metadata"]["name"]] = 10.0
    move = world.move(now_s=20.0)
    assert isinstance(move, Wait)
    assert move.until_s == 50.0


def test_a_reservation_without_a_device_fails_after_its_deadline_and_is_deleted() -> None:
    world = sharing()
    for _ in world.step():
        pass
    reservation = next(
        one for one in world.all("Pod") if one["metadata"]["namespace"] == RESERVATIONS
    )
    world.seen[reservation["metadata"]["name"]] = 10.0
    move = world.move(now_s=51.0)
    assert isinstance(move, GiveUp)
    assert "got no device in time" in move.why
    for _ in world.step(now_s=51.0):
        pass
    assert not world.reservations("group-0")
    assert world.request().status.failed_attempts == 1
    assert world.request().status.phase == "Pending"


@pytest.mark.row(85)
def test_failures_are_counted_and_retried_with_backoff_until_the_limit() -> None:
    world = plain()
    del world.objects[("Node", Key("", "n1"))]
    delays = []
    for _ in range(3):
        move = world.move()
        assert isinstance(move, GiveUp)
        delays.append(move.retry_after_s)
        for _ in world.step():
            pass
    assert delays == [1.0, 2.0, 0.0]
    assert world.request().status.phase == "Failed"
    assert world.request().status.failed_attempts == 3
    assert isinstance(world.move(), Nothing)
    found = world.pod(POD_KEY)
    assert found is not None
    condition = found.status.condition("PodBound")
    assert condition is not None
    assert condition.reason == "BindingError"
    assert "node n1 does not exist" in condition.message


@pytest.mark.parametrize(
    ("counted", "after_s"), [(0, 1.0), (3, 8.0), (2_000_000_000, 60.0), (-2_000_000_000, 1.0)]
)
def test_a_failure_of_any_count_is_followed_by_a_pause_within_bounds(
    counted: int, after_s: float
) -> None:
    """Also where somebody else wrote the count: two to the power of it would fill the memory."""
    world = plain()
    del world.objects[("Node", Key("", "n1"))]
    (stored,) = world.all("BindRequest")
    stored["spec"]["backoffLimit"] = 2_147_483_647
    stored["status"] = {"failedAttempts": counted}
    move = world.move()
    assert isinstance(move, GiveUp)
    assert (move.is_final, move.retry_after_s) == (False, after_s)


@pytest.mark.row(103)
@pytest.mark.parametrize("flow", FLOWS)
def test_the_last_failure_rolls_back_reservations_labels_and_claims(flow: str) -> None:
    prepared = FLOWS[flow]()
    bound = len(prepared.writes)
    while not isinstance(prepared.move(), Nothing) and bound < 12:
        if isinstance(prepared.move(), BindPod):
            break
        for _ in prepared.step():
            pass
        bound += 1
    prepared.objects[("BindRequest", POD_KEY)]["spec"].pop("backoffLimit")
    del prepared.objects[("Node", Key("", "n1"))]
    for _ in prepared.step():
        pass
    assert prepared.request().status.phase == "Failed"
    assert {key for kind, key in prepared.objects if kind in ("Pod", "ConfigMap")} == {POD_KEY}
    found = prepared.pod(POD_KEY)
    assert found is not None
    assert not [label for label in found.metadata.labels if "gpu-group" in label]
    for claim in prepared.all("ResourceClaim"):
        assert "allocation" not in claim["status"]
        assert "reservedFor" not in claim["status"]


def test_a_bind_request_of_a_missing_pod_waits_and_then_fails() -> None:
    world = BinderWorld(NODE, request(limit=None))
    move = world.move(now_s=1.0)
    assert isinstance(move, Wait)
    late = world.move(now_s=move.until_s)
    assert isinstance(late, GiveUp)
    assert "pod team/p does not exist" in late.why


def test_without_a_backoff_limit_the_first_failure_is_final() -> None:
    world = BinderWorld(pod(), request(limit=None))
    move = world.move()
    assert isinstance(move, GiveUp)
    assert move.is_final


@pytest.mark.row(103)
def test_the_smallest_volume_that_reaches_the_node_is_bound() -> None:
    world = with_volume(
        volume("big", "50Gi"),
        volume("near", "20Gi"),
        volume("far", "10Gi", zone="b"),
        volume("small", "5Gi"),
    )
    world.run()
    claim = world.volume_claim(Key("team", "data"))
    assert claim is not None
    assert claim.spec.volume_name == "near"


@pytest.mark.row(103)
def test_a_claim_that_got_other_devices_meanwhile_fails_the_bind() -> None:
    world = claiming()
    other = {"device": "gpu-9", "driver": "gpu.example.com", "pool": "n1", "request": "gpu"}
    status = {"allocation": {"devices": {"results": [other]}}}
    world.objects[("ResourceClaim", Key("team", "c"))]["status"] = status
    move = world.move()
    assert isinstance(move, GiveUp)
    assert "holds other devices" in move.why


def test_a_shared_gpu_pod_that_was_not_mutated_fails_with_what_is_missing() -> None:
    world = sharing()
    del world.objects[("Pod", POD_KEY)]["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    move = world.move()
    assert isinstance(move, GiveUp)
    assert "admission" in move.why


def test_unused_reservations_and_running_shares_without_a_reservation_are_deleted() -> None:
    used = sharing()
    used.run()
    used.objects[("Pod", POD_KEY)]["status"]["phase"] = "Succeeded"
    used.sweep()
    assert not used.reservations("group-0")

    bereft = sharing()
    bereft.run()
    bereft.objects[("Pod", POD_KEY)]["status"]["phase"] = "Running"
    del bereft.objects[("Pod", Key(RESERVATIONS, reservation_name("n1", "group-0")))]
    bereft.sweep()
    assert bereft.pod(POD_KEY) is None


def _without_versions(world: BinderWorld) -> dict[Any, Any]:
    plain = copy.deepcopy(world.objects)
    for thing in plain.values():
        thing["metadata"].pop("resourceVersion")
        thing["metadata"].pop("uid")
        for owner in thing["metadata"].get("ownerReferences") or []:
            owner.pop("uid")
        if "claimRef" in thing.get("spec", {}):
            thing["spec"]["claimRef"].pop("uid")
    return plain


def test_a_bind_request_of_an_earlier_pod_of_the_same_name_binds_nothing() -> None:
    world = BinderWorld(NODE, pod(), of_an_earlier_pod(request()))
    assert isinstance(world.move(), Nothing)


# -- claims of a PodGroup of Kubernetes' own -------------------------------------------------------

GROUP_KEY = Key("team", "g")
GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-uid"}
CLAIM_KEY = Key("team", "c")


def claiming_together(by_name: bool) -> BinderWorld:
    """A pod that uses a claim of its group: one that the group names, or one made for it."""
    world = claiming()
    entry = {"name": "gpu", "resourceClaimName": "c"}
    claim = world.objects[("ResourceClaim", CLAIM_KEY)]
    member = world.objects[("Pod", POD_KEY)]
    member["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    if not by_name:
        member["status"]["resourceClaimStatuses"] = [entry]
        entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
        owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g"}
        claim["metadata"]["ownerReferences"] = [{**owner, "uid": "g-uid", "controller": True}]
    member["spec"]["resourceClaims"] = [entry]
    metadata = {"name": "g", "namespace": "team", "uid": "g-uid"}
    world.add({"kind": "PodGroup", "metadata": metadata, "spec": {"resourceClaims": [entry]}})
    return world


@pytest.mark.parametrize("by_name", [True, False], ids=["named", "made"])
def test_a_claim_of_a_native_pod_group_is_reserved_for_the_group_once(by_name: bool) -> None:
    world = claiming_together(by_name)
    world.run()
    claim = world.objects[("ResourceClaim", CLAIM_KEY)]
    assert claim["status"]["reservedFor"] == [GROUP]
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    found = world.pod(POD_KEY)
    assert found is not None
    assert found.spec.node_name == "n1"


def test_a_claim_entry_that_the_native_pod_group_lacks_is_reserved_for_the_pod() -> None:
    world = claiming_together(by_name=True)
    world.objects[("PodGroup", GROUP_KEY)]["spec"]["resourceClaims"][0] = {
        "name": "other",
        "resourceClaimName": "c",
    }
    world.run()
    (user,) = world.objects[("ResourceClaim", CLAIM_KEY)]["status"]["reservedFor"]
    assert (user["resource"], user["uid"]) == ("pods", "pod-uid")


def test_a_failed_bind_leaves_the_claim_reserved_for_the_native_pod_group() -> None:
    world = claiming_together(by_name=True)
    while not isinstance(world.move(), BindPod):
        for _ in world.step():
            pass
    world.objects[("BindRequest", POD_KEY)]["spec"].pop("backoffLimit")
    del world.objects[("Node", Key("", "n1"))]
    for _ in world.step():
        pass
    assert world.request().status.phase == "Failed"
    assert world.objects[("ResourceClaim", CLAIM_KEY)]["status"]["reservedFor"] == [GROUP]


REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("conditions", "others", "is_given_up"),
    [
        ([REFUSED], [], True),
        ([], [], False),
        ([{**REFUSED, "reason": "SchedulingGated"}], [], False),
        ([REFUSED], ["on a node"], False),
        ([REFUSED], ["being bound"], False),
        ([REFUSED], ["ended"], True),
    ],
)
def test_the_claim_of_a_native_pod_group_is_deallocated_when_its_pods_are_unschedulable(
    conditions: list[dict[str, str]], others: list[str], is_given_up: bool
) -> None:
    world = claiming_together(by_name=True)
    del world.objects[("BindRequest", POD_KEY)]
    world.objects[("Pod", POD_KEY)]["status"]["conditions"] = conditions
    for name in others:
        other = pod(metadata={"name": "q", "uid": "q-uid"})
        other["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        if name == "being bound":
            made = request()
            made["metadata"]["name"] = made["spec"]["podName"] = "q"
            world.add(made)
        else:
            other["spec"]["nodeName"] = "n1"
            other["status"]["phase"] = "Succeeded" if name == "ended" else "Running"
        world.add(other)
    claim = world.objects[("ResourceClaim", CLAIM_KEY)]
    user = {"resource": "pods", "name": "x", "uid": "x"}
    claim["status"] = {"allocation": {"devices": {}}, "reservedFor": [GROUP, user]}
    write = given_up(_claim(world), world)
    assert (write is not None) is is_given_up
    claim["status"]["reservedFor"] = [GROUP]
    write = given_up(_claim(world), world)
    if write is not None:
        assert write.patch == {"status": {"reservedFor": None, "allocation": None}}
        assert write.resource_version


def _claim(world: BinderWorld) -> ResourceClaim:
    found = world.claim(CLAIM_KEY)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("others", "is_bound"), [(frozenset({"volcano"}), True), (frozenset[str](), False)]
)
def test_pods_of_another_system_are_bound_where_one_of_us_schedules_them(
    others: frozenset[str], is_bound: bool
) -> None:
    world = BinderWorld(NODE, pod(spec={"schedulerName": "volcano"}), request())
    settings = BinderSettings(other_schedulers=others)
    move = Decider((), settings).next_move(world.request(), world, Times(0.0))
    assert isinstance(move, BindPod) is is_bound
