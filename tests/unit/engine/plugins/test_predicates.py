"""Predicates: which nodes a task may run on, and why not."""

import json
from typing import Any

import numpy as np
import pytest

from muster.api.codec import decode
from muster.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from muster.engine.config.reader import Reader
from muster.engine.config.settings import EngineSettings
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plugins.predicates.plugin import Predicates
from muster.model.cluster_objects import ClusterObjects
from muster.model.constraint_terms import (
    AffinityTerm,
    Effect,
    HostPort,
    PodAffinity,
    PreferredNodes,
    SpreadConstraint,
    Taint,
    Toleration,
)
from muster.model.constraints import Constraints
from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.reasons import Reason, Refusal
from muster.model.records import (
    ClusterRecords,
    GpuKind,
    GpuRequest,
    NodeRecord,
    TaskRecord,
)
from muster.model.selectors import LabelSelector, NodeTerm, Operator, equalities, requirement
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

ROOM = {"cpu": 8000, "memory": 2**34, "pods": 110, "gpu": 4000}
APP = LabelSelector(equalities({"app": "x"}))


class World:
    """Nodes, tasks and the plugin's answers for them."""

    def __init__(
        self,
        nodes: list[NodeRecord],
        *tasks: TaskRecord,
        objects: ClusterObjects | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self.records = ClusterRecords(
            nodes=tuple(nodes), tasks=tasks, cluster_objects=objects or ClusterObjects()
        )
        self.snapshot = snapshot_of(self.records)
        self.ledger = Ledger(self.snapshot)
        view = View(self.snapshot, self.ledger, 0.0, settings or EngineSettings())
        self.answers: SessionPlugin = Predicates(Reader(None, "test")).open(view)
        self.rows = np.arange(len(self.snapshot.nodes))

    def row(self, uid: str) -> int:
        return next(i for i, t in enumerate(self.snapshot.tasks.records) if t.uid == uid)

    def reasons(self, uid: str) -> list[Reason]:
        shape = self.snapshot.shape_of(self.row(uid))
        reasons = [Reason(code) for code in self.answers.filter_reasons(shape, self.rows).tolist()]
        fits = self.answers.fits(shape, self.rows).tolist()
        assert fits == [reason is Reason.NONE for reason in reasons]
        return reasons

    def dependence(self, uid: str) -> Dependence:
        return self.answers.dependence(self.snapshot.shape_of(self.row(uid)))

    def post(
        self, uid: str, node: int, kind: EntryKind = EntryKind.ALLOCATE, sign: int = 1
    ) -> None:
        one = np.array([self.row(uid)]), np.array([node]), np.array([kind])
        self.answers.on_ledger_change(Entries(*one, sign))


def pending(uid: str = "new", constraints: Constraints | None = None, **more: Any) -> TaskRecord:
    return TaskRecord(uid, uid, constraints=constraints or Constraints(), **more)


def running(uid: str, node: str, constraints: Constraints | None = None, **more: Any) -> TaskRecord:
    return pending(uid, constraints, status=TaskStatus.RUNNING, node=node, **more)


@pytest.mark.parametrize(
    ("node", "task", "reason"),
    [
        (NodeRecord("n", ROOM), pending(), Reason.NONE),
        (NodeRecord("n", ROOM, is_unschedulable=True), pending(), Reason.UNSCHEDULABLE_NODE),
        (NodeRecord("n", ROOM, is_ready=False), pending(), Reason.NOT_READY_NODE),
        (NodeRecord("n", ROOM, taints=(Taint("a"),)), pending(), Reason.TAINT),
        (
            NodeRecord("n", ROOM, taints=(Taint("a"),)),
            pending(constraints=Constraints(tolerations=(Toleration("a", "Exists"),))),
            Reason.NONE,
        ),
        (
            NodeRecord("n", ROOM, labels={"zone": "b"}),
            pending(constraints=Constraints(node_labels=equalities({"zone": "a"}))),
            Reason.NODE_SELECTOR,
        ),
        (
            NodeRecord("n", ROOM),
            pending(gpu=GpuRequest(GpuKind.MIG, mig_slices=1)),
            Reason.GPU_KIND,
        ),
        (
            NodeRecord("n", ROOM, is_mig=True, mig_strategy="mixed"),
            pending(gpu=GpuRequest(GpuKind.MIG, mig_slices=1)),
            Reason.NONE,
        ),
        (
            NodeRecord("n", ROOM, is_mig=True, mig_strategy="single"),
            pending(gpu=GpuRequest(GpuKind.MIG, mig_slices=1)),
            Reason.GPU_KIND,
        ),
        (
            NodeRecord("n", ROOM, is_mig=True, mig_strategy="single"),
            pending(gpu=GpuRequest(GpuKind.WHOLE, 1)),
            Reason.NONE,
        ),
        (
            NodeRecord("n", ROOM, is_mig=True, mig_strategy="mixed"),
            pending(gpu=GpuRequest(GpuKind.WHOLE, 1)),
            Reason.GPU_KIND,
        ),
        (
            NodeRecord("n", ROOM, is_mig=True, mig_strategy="single"),
            pending(gpu=GpuRequest(GpuKind.FRACTION, 1, portion=500)),
            Reason.GPU_KIND,
        ),
        (NodeRecord("n", ROOM, is_mig=True, mig_strategy="mixed"), pending(), Reason.NONE),
        (
            NodeRecord("n", ROOM, dra_gpus=4),
            pending(gpu=GpuRequest(GpuKind.FRACTION, 1, portion=500)),
            Reason.GPU_KIND,
        ),
        (NodeRecord("n", ROOM, dra_gpus=4), pending(gpu=GpuRequest(GpuKind.WHOLE, 1)), Reason.NONE),
        (
            NodeRecord("n", ROOM),
            pending(gpu=GpuRequest(GpuKind.MEMORY, 1, memory_mib=100)),
            Reason.GPU_MEMORY_UNKNOWN,
        ),
        (
            NodeRecord("n", ROOM, gpu_memory_mib=8000),
            pending(gpu=GpuRequest(GpuKind.MEMORY, 1, memory_mib=8001)),
            Reason.GPU_TOO_SMALL,
        ),
        (
            NodeRecord("n", ROOM, gpu_memory_mib=8000),
            pending(gpu=GpuRequest(GpuKind.MEMORY, 1, memory_mib=100)),
            Reason.NONE,
        ),
    ],
)
def test_each_filter_reports_its_reason(node: NodeRecord, task: TaskRecord, reason: Reason) -> None:
    assert World([node], task).reasons("new") == [reason]


def test_legacy_mig_is_never_placed_and_blocks_mig_requests_on_its_node() -> None:
    node = NodeRecord("n", ROOM, is_mig=True, mig_strategy="mixed")
    legacy = GpuRequest(GpuKind.LEGACY_MIG)
    mig = GpuRequest(GpuKind.MIG, mig_slices=1)
    world = World([node], running("old", "n", gpu=legacy), pending("new", gpu=mig))
    assert world.reasons("new") == [Reason.GPU_KIND]
    refusal = world.answers.pre_filter(world.snapshot.shape_of(world.row("old")), 0)
    assert refusal is not None
    assert refusal.reason is Reason.LEGACY_MIG


def test_an_unconstrained_task_on_plain_nodes_needs_no_predicate() -> None:
    assert World([NodeRecord("n", ROOM)], pending()).dependence("new") is Dependence.IRRELEVANT


def test_worker_labels_count_only_when_nodes_are_restricted() -> None:
    nodes = [
        NodeRecord("c", ROOM, labels={"node-role.kubernetes.io/cpu-worker": ""}),
        NodeRecord("g", ROOM, labels={"node-role.kubernetes.io/gpu-worker": ""}),
    ]
    gpu = pending("gpu", gpu=GpuRequest(GpuKind.WHOLE, 1), request={"gpu": 1000})
    tasks = (pending("cpu"), gpu)
    strict = World(nodes, *tasks, settings=EngineSettings(restrict_node_scheduling=True))
    assert strict.reasons("cpu") == [Reason.NONE, Reason.WORKER_LABEL]
    assert strict.reasons("gpu") == [Reason.WORKER_LABEL, Reason.NONE]
    assert World(nodes, *tasks).reasons("gpu") == [Reason.NONE, Reason.NONE]


@pytest.mark.parametrize(
    ("held", "wanted", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80, "UDP"), HostPort(80), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80), True),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
    ],
)
def test_host_ports_conflict_on_one_node(held: HostPort, wanted: HostPort, clash: bool) -> None:
    world = World(
        [NodeRecord("a", ROOM), NodeRecord("b", ROOM)],
        running("old", "a", Constraints(host_ports=(held,))),
        pending("new", Constraints(host_ports=(wanted,))),
    )
    assert world.reasons("new") == [Reason.HOST_PORT if clash else Reason.NONE, Reason.NONE]
    assert world.dependence("new") is Dependence.NODE


def test_a_host_port_allocated_in_this_cycle_is_in_use_until_the_undo() -> None:
    world = World([NodeRecord("a", ROOM)], pending("new", Constraints(host_ports=(HostPort(80),))))
    assert world.reasons("new") == [Reason.NONE]
    world.post("new", 0)
    assert world.reasons("new") == [Reason.HOST_PORT]
    world.post("new", 0, sign=-1)
    assert world.reasons("new") == [Reason.NONE]


def test_pod_affinity_follows_placements_and_its_reason_names_the_side() -> None:
    near = PodAffinity(required=(AffinityTerm("zone", APP, ("team",)),))
    apart = PodAffinity(anti_required=(AffinityTerm("zone", APP, ("team",)),))
    world = World(
        [NodeRecord("a", ROOM, labels={"zone": "1"}), NodeRecord("b", ROOM, labels={"zone": "2"})],
        pending("app", namespace="team", labels={"app": "x"}),
        pending("near", Constraints(pod_affinity=near), namespace="team"),
        pending("apart", Constraints(pod_affinity=apart), namespace="team"),
    )
    assert world.reasons("near") == [Reason.POD_AFFINITY, Reason.POD_AFFINITY]
    world.post("app", 0)
    assert world.reasons("near") == [Reason.NONE, Reason.POD_AFFINITY]
    assert world.reasons("apart") == [Reason.POD_ANTI_AFFINITY, Reason.NONE]
    world.post("apart", 1, EntryKind.PIPELINE)
    assert world.reasons("app") == [Reason.NONE, Reason.OTHERS_ANTI_AFFINITY]
    world.post("app", 0, EntryKind.EVICT)
    assert world.reasons("near") == [Reason.NONE, Reason.POD_AFFINITY]
    assert world.dependence("app") is Dependence.CLUSTER


def test_topology_spread_ignores_pods_being_evicted() -> None:
    spread = Constraints(
        spread=(SpreadConstraint("zone", 1, APP),), namespace="team", labels=(("app", "x"),)
    )
    world = World(
        [NodeRecord("a", ROOM, labels={"zone": "1"}), NodeRecord("b", ROOM, labels={"zone": "2"})],
        running("old", "a", spread),
        pending("new", spread),
    )
    assert world.reasons("new") == [Reason.SPREAD, Reason.NONE]
    world.post("old", 0, EntryKind.EVICT)
    assert world.reasons("new") == [Reason.NONE, Reason.NONE]


def test_preferred_affinity_taints_and_soft_spread_score_a_hundred() -> None:
    wish = PreferredNodes(10, NodeTerm((requirement("zone", Operator.IN, "a"),)))
    soft = SpreadConstraint("zone", 1, APP, is_hard=False)
    kind = Constraints(spread=(soft,), namespace="team", labels=(("app", "x"),))
    world = World(
        [
            NodeRecord("a", ROOM, labels={"zone": "a"}),
            NodeRecord("b", ROOM, labels={"zone": "b"}),
            NodeRecord("c", ROOM, taints=(Taint("t", "", Effect.PREFER_NO_SCHEDULE),)),
        ],
        pending("wishes", Constraints(preferred_nodes=(wish,))),
        running("old", "a", kind),
        pending("spreads", kind),
    )
    wishes = world.snapshot.shape_of(world.row("wishes"))
    assert world.answers.score(wishes, world.rows).tolist() == [100.0, 0.0, -100.0]
    spreads = world.snapshot.shape_of(world.row("spreads"))
    assert world.answers.score(spreads, world.rows).tolist() == [0.0, 100.0, 0.0]


def test_a_request_above_every_node_is_refused_with_its_numbers() -> None:
    nodes = [NodeRecord("a", ROOM), NodeRecord("b", {**ROOM, "gpu": 8000})]
    world = World(nodes, pending("big", request={"gpu": 9000, "cpu": 1000}))
    refusal = world.answers.pre_filter(world.snapshot.shape_of(0), 0)
    assert refusal is not None
    assert (refusal.reason, refusal.subject) == (Reason.TOO_LARGE, "gpu")
    assert (refusal.evidence[0].need, refusal.evidence[0].free) == (9000, 8000)


def test_a_missing_config_map_or_volume_claim_is_refused_by_name() -> None:
    objects = ClusterObjects(config_maps=frozenset({"team/there"}))
    world = World(
        [NodeRecord("a", ROOM)],
        pending("map", Constraints(config_maps=("there", "gone"), namespace="team")),
        pending("disk", Constraints(volume_claims=("data",), namespace="team")),
        objects=objects,
    )
    for uid, reason, subject in [
        ("map", Reason.CONFIG_MAP_MISSING, "gone"),
        ("disk", Reason.VOLUME_MISSING, "data"),
    ]:
        refusal = world.answers.pre_filter(world.snapshot.shape_of(world.row(uid)), 0)
        assert refusal is not None
        assert (refusal.reason, refusal.subject) == (reason, subject)


@pytest.mark.parametrize(
    ("spec", "metadata", "problem"),
    [
        ({"storageClassName": "fast-disks"}, {}, "it is not bound to a volume yet"),
        (
            {"storageClassName": "fsat-disks"},
            {},
            "it has no volume, and storage class fsat-disks does not exist (did you mean "
            "fast-disks?)",
        ),
        ({"volumeName": "pv"}, {}, "its volume pv is gone"),
        (
            {"storageClassName": "fast-disks"},
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "it is being deleted",
        ),
    ],
)
def test_a_volume_claim_that_is_there_and_cannot_be_used_is_refused_with_what_is_wrong(
    spec: dict[str, str], metadata: dict[str, str], problem: str
) -> None:
    found = {"metadata": {"name": "data", "namespace": "team", **metadata}, "spec": spec}
    objects = ClusterObjects(
        volume_claims={"team/data": decode(PersistentVolumeClaim, json.dumps(found))},
        storage_classes={"fast-disks": StorageClass(provisioner="disks")},
    )
    wanted = Constraints(volume_claims=("data",), namespace="team")
    world = World([NodeRecord("a", ROOM)], pending("disk", wanted), objects=objects)
    refusal = world.answers.pre_filter(world.snapshot.shape_of(0), 0)
    assert refusal == Refusal(Reason.VOLUME_CLAIM_UNUSABLE, subject="data", names=(problem,))


CLAIM = b"""{"metadata": {"name": "data", "namespace": "team"}, "spec": {
    "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "10Gi"}} %s}}"""
VOLUME = b"""{"metadata": {"name": "pv"}, "status": {"phase": "%s"}, "spec": {
    "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"},
    "csi": {"driver": "disks", "volumeHandle": "pv"},
    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "zone", "operator": "In", "values": ["1"]}]}]}}}}"""
CLASS = b"""{"metadata": {"name": "fast"}, "provisioner": "%s",
    "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies":
    [{"matchLabelExpressions": [{"key": "zone", "values": ["2"]}]}]}"""


@pytest.mark.parametrize(
    ("bound", "phase", "provisioner", "reachable"),
    [
        (True, b"Bound", b"disks", [True, False, False]),
        (False, b"Available", b"kubernetes.io/no-provisioner", [True, False, False]),
        (False, b"Bound", b"kubernetes.io/no-provisioner", [False, False, False]),
        (False, b"Bound", b"disks", [False, True, False]),
        (False, b"Available", b"disks", [True, True, False]),
    ],
)
def test_a_node_is_feasible_by_a_bound_an_available_or_a_provisionable_volume(
    bound: bool, phase: bytes, provisioner: bytes, reachable: list[bool]
) -> None:
    claim = decode(PersistentVolumeClaim, CLAIM % (b', "volumeName": "pv"' if bound else b""))
    objects = ClusterObjects(
        volume_claims={"team/data": claim},
        volumes={"pv": decode(PersistentVolume, VOLUME % phase)},
        storage_classes={"fast": decode(StorageClass, CLASS % provisioner)},
    )
    nodes = [NodeRecord(n, ROOM, labels={"zone": z}) for n, z in zip("abc", "123", strict=True)]
    world = World(
        nodes,
        pending("new", Constraints(volume_claims=("data",), namespace="team")),
        objects=objects,
    )
    assert [reason is Reason.NONE for reason in world.reasons("new")] == reachable
    assert world.answers.pre_filter(world.snapshot.shape_of(0), 0) is None


def test_a_node_attaches_no_more_volumes_than_its_csi_limit() -> None:
    objects = ClusterObjects(
        volume_claims={
            f"team/d{i}": decode(
                PersistentVolumeClaim,
                b"""{"metadata": {"name": "d%d"}, "spec": {"storageClassName": "fast"}}""" % i,
            )
            for i in range(3)
        },
        storage_classes={
            "fast": StorageClass(provisioner="disks", volume_binding_mode="WaitForFirstConsumer")
        },
        storage_nodes={
            "a": decode(
                CSINode,
                b"""{"spec": {"drivers": [{"name": "disks", "allocatable": {"count": 2}}]}}""",
            )
        },
    )
    pods = [Constraints(volume_claims=(f"d{i}",), namespace="team") for i in range(3)]
    world = World(
        [NodeRecord("a", ROOM), NodeRecord("b", ROOM)],
        running("old", "a", pods[0]),
        pending("one", pods[1]),
        pending("two", pods[2]),
        pending("same", pods[0]),
        objects=objects,
    )
    assert world.reasons("one") == [Reason.NONE, Reason.NONE]
    world.post("one", 0)
    assert world.reasons("two") == [Reason.VOLUME_LIMIT, Reason.NONE]
    assert world.reasons("same")[0] is Reason.NONE
    world.post("one", 0, sign=-1)
    assert world.reasons("two") == [Reason.NONE, Reason.NONE]


def sharing(
    modes: str = "ReadWriteOnce",
    *tasks: TaskRecord,
    notes: str = "",
    more: dict[str, Any] | None = None,
) -> World:
    """Pods `one` and `two` of an unbound claim, on nodes a and b in zone 1 and c in zone 2."""
    claim = b"""{"metadata": {"name": "data", "namespace": "team", "annotations": {%s}},
        "spec": {"storageClassName": "fast", "accessModes": ["%s"]}}""" % (
        notes.encode(),
        modes.encode(),
    )
    objects = ClusterObjects(
        volume_claims={"team/data": decode(PersistentVolumeClaim, claim)},
        storage_classes={
            "fast": StorageClass(provisioner="disks", volume_binding_mode="WaitForFirstConsumer")
        },
        **(more or {}),
    )
    nodes = [NodeRecord(n, ROOM, labels={"zone": z}) for n, z in zip("abc", "112", strict=True)]
    return World(nodes, *tasks, pending("one", SHARED), pending("two", SHARED), objects=objects)


SHARED = Constraints(volume_claims=("data",), namespace="team")
ONLY_A = [Reason.NONE, Reason.SHARED_VOLUME, Reason.SHARED_VOLUME]
ZONE_1 = [Reason.NONE, Reason.NONE, Reason.SHARED_VOLUME]
ANYWHERE = [Reason.NONE] * 3
DRIVER = b"""{"spec": {"drivers": [{"name": "disks", "topologyKeys": [%s]}]}}"""


def running_driver(keys: bytes) -> dict[str, Any]:
    return {"storage_nodes": {name: decode(CSINode, DRIVER % keys) for name in "abc"}}


@pytest.mark.parametrize(
    ("modes", "objects", "expected"),
    [
        ("ReadWriteOnce", {}, ONLY_A),
        ("ReadWriteOnce", running_driver(b'"zone"'), ONLY_A),
        ("ReadWriteMany", {}, ONLY_A),
        ("ReadWriteMany", running_driver(b'"zone"'), ZONE_1),
        ("ReadWriteMany", running_driver(b""), ANYWHERE),
    ],
    ids=["one node", "one node of a zone", "unknown driver", "many nodes of a zone", "many nodes"],
)
def test_pods_of_an_unbound_claim_go_where_the_volume_of_the_first_can_be_used(
    modes: str, objects: dict[str, Any], expected: list[Reason]
) -> None:
    world = sharing(modes, more=objects)
    assert world.dependence("two") is Dependence.CLUSTER
    assert world.reasons("two") == ANYWHERE
    world.post("one", 0)
    assert world.reasons("two") == expected
    world.post("one", 0, sign=-1)
    assert world.reasons("two") == ANYWHERE


def test_a_pod_that_is_being_bound_has_chosen_for_all_of_its_claim() -> None:
    binding = pending("before", SHARED, status=TaskStatus.BINDING, node="a")
    world = sharing("ReadWriteOnce", binding)
    assert world.reasons("one") == ONLY_A
    world.post("before", 0, EntryKind.EVICT)
    assert world.reasons("one") == ANYWHERE


@pytest.mark.parametrize(
    ("node", "allowed"), [("b", [False, True, False]), ("gone", [True, True, True])]
)
def test_a_selected_node_keeps_all_pods_of_its_claim_while_it_is_there(
    node: str, allowed: list[bool]
) -> None:
    world = sharing(notes=f'"volume.kubernetes.io/selected-node": "{node}"')
    assert [reason is Reason.NONE for reason in world.reasons("one")] == allowed


def test_a_volume_kept_for_an_unbound_claim_decides_where_its_pods_go() -> None:
    kept = b"""{"metadata": {"name": "pv"}, "spec": {"storageClassName": "fast", %s
        "accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]}]}}}}"""
    reference = b'"claimRef": {"namespace": "team", "name": "data"},'
    world = sharing(more={"volumes": {"pv": decode(PersistentVolume, kept % reference)}})
    assert [reason is Reason.NONE for reason in world.reasons("one")] == [True, True, False]
    free = sharing(more={"volumes": {"pv": decode(PersistentVolume, kept % b"")}})
    assert free.reasons("one") == ANYWHERE
    free.post("two", 0)
    assert free.reasons("one") == ZONE_1


def test_a_claim_of_one_pod_leaves_its_answers_static() -> None:
    world = sharing()
    objects = world.records.cluster_objects
    alone = World(list(world.records.nodes), pending("one", SHARED), objects=objects)
    assert alone.dependence("one") <= Dependence.STATIC


def test_a_read_write_once_pod_volume_is_used_by_one_pod() -> None:
    claim = decode(
        PersistentVolumeClaim,
        b"""{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast",
        "accessModes": ["ReadWriteOncePod"]}}""",
    )
    objects = ClusterObjects(
        volume_claims={"team/data": claim},
        storage_classes={
            "fast": StorageClass(provisioner="disks", volume_binding_mode="WaitForFirstConsumer")
        },
    )
    wanted = Constraints(volume_claims=("data",), namespace="team")
    world = World(
        [NodeRecord("a", ROOM), NodeRecord("b", ROOM)], pending("t", wanted), objects=objects
    )
    assert world.reasons("t") == [Reason.NONE, Reason.NONE]
    world.post("t", 0)
    assert world.reasons("t") == [Reason.VOLUME_IN_USE, Reason.VOLUME_IN_USE]
    world.post("t", 0, sign=-1)
    assert world.reasons("t") == [Reason.NONE, Reason.NONE]


def test_storage_capacity_used_in_this_cycle_is_not_given_twice() -> None:
    def claim(name: str, size: str) -> PersistentVolumeClaim:
        return decode(
            PersistentVolumeClaim,
            f"""{{"metadata": {{"name": "{name}"}}, "spec": {{"storageClassName": "fast",
            "resources": {{"requests": {{"storage": "{size}"}}}}}}}}""",
        )

    def capacity(zone: str, size: str) -> CSIStorageCapacity:
        return decode(
            CSIStorageCapacity,
            f"""{{"storageClassName": "fast", "capacity": "{size}",
            "nodeTopology": {{"matchLabels": {{"zone": "{zone}"}}}}}}""",
        )

    objects = ClusterObjects(
        volume_claims={f"team/d{i}": claim(f"d{i}", "6Gi") for i in range(3)},
        storage_classes={
            "fast": StorageClass(provisioner="disks", volume_binding_mode="WaitForFirstConsumer")
        },
        storage_drivers={"disks": CSIDriver(spec=CSIDriverSpec(storage_capacity=True))},
        storage_capacities={"1": capacity("1", "10Gi"), "2": capacity("2", "20Gi")},
    )
    pods = [Constraints(volume_claims=(f"d{i}",), namespace="team") for i in range(3)]
    nodes = [NodeRecord(n, ROOM, labels={"zone": z}) for n, z in zip("abc", "123", strict=True)]
    world = World(
        nodes, running("old", "a", pods[0]), pending("one", pods[1]), pending("two", pods[2]),
        pending("same", pods[0]), objects=objects,
    )  # fmt: skip
    full, none = Reason.STORAGE_CAPACITY, Reason.NONE
    assert world.reasons("one") == [full, none, full]
    assert world.reasons("same") == [none, Reason.SHARED_VOLUME, Reason.SHARED_VOLUME]
    world.post("one", 1)
    world.post("two", 1)
    world.post("two", 1)
    assert world.reasons("two") == [full, none, full]
    world.post("old", 0, EntryKind.EVICT)
    assert world.reasons("two") == [none, none, full]
    world.post("old", 0, EntryKind.EVICT, sign=-1)
    assert world.reasons("two") == [full, none, full]
