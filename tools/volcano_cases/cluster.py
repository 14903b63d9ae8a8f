"""A case as records: objects read as the scheduler reads them, with what its fakes leave out."""

from typing import Any

from msgspec.structs import replace
from tools.volcano_cases.cases import Case

from muster.api import core, devices, storage, volcano
from muster.api.codec import from_builtins
from muster.model.batch_build import (
    batch_job_record,
    batch_queue_record,
    group_key,
    pod_terms,
)
from muster.model.batch_terms import HyperNodeRecord
from muster.model.build import Identity, Priorities, node_record, task_record
from muster.model.cluster_objects import ClusterObjects
from muster.model.records import ClusterRecords, TaskRecord

NOW_S = 1_700_000_000.0
_READY = {"type": "Ready", "status": "True"}
SCHEDULER = "volcano"


def records_of(case: Case) -> ClusterRecords:
    """The cluster of a case."""
    objects = case.objects
    classes = [
        from_builtins(core.PriorityClass, each) for each in objects.get("priorityClasses", [])
    ]
    groups = [from_builtins(volcano.PodGroup, each) for each in objects.get("podGroups", [])]
    queues = [from_builtins(volcano.Queue, each) for each in objects.get("queues", [])]
    priorities = Priorities.of(classes)
    claims = _by_key(objects, "resourceClaims", devices.ResourceClaim)
    slices = _by_key(objects, "resourceSlices", devices.ResourceSlice)
    return ClusterRecords(
        nodes=tuple(_node(each, slices) for each in objects.get("nodes", [])),
        tasks=tuple(_task(each, claims) for each in objects.get("pods", [])),
        jobs=tuple(batch_job_record(each, priorities) for each in groups),
        queues=tuple(batch_queue_record(each) for each in queues),
        cluster_objects=ClusterObjects(
            hyper_nodes=_hyper_nodes(objects),
            device_claims=claims,
            device_slices=slices,
            device_classes=_by_key(objects, "deviceClasses", devices.DeviceClass),
            volume_claims=_by_key(objects, "pvcs", storage.PersistentVolumeClaim),
            volumes=_by_key(objects, "pvs", storage.PersistentVolume),
            storage_classes=_by_key(objects, "storageClasses", storage.StorageClass),
            others={
                "resourcequotas": {
                    f"{each['metadata']['namespace']}/{each['metadata']['name']}": each
                    for each in objects.get("resourceQuotas", [])
                }
            },
        ),
    )


def _by_key(objects: Any, what: str, struct: Any) -> dict[str, Any]:
    found = [from_builtins(struct, each) for each in objects.get(what, [])]
    return {str(each.key): each for each in found}


def _node(raw: Any, slices: dict[str, devices.ResourceSlice]) -> Any:
    status = {**raw.get("status", {}), "conditions": [_READY]}
    node = from_builtins(core.Node, {**raw, "status": status})
    mine = [each for each in slices.values() if each.spec.node_name == node.metadata.name]
    return node_record(node, mine)


def _task(raw: Any, claims: dict[str, devices.ResourceClaim]) -> TaskRecord:
    spec = {**raw["spec"], "schedulerName": SCHEDULER}
    pod = from_builtins(core.Pod, {**raw, "spec": spec})
    named = {
        entry: claims[f"{pod.metadata.namespace}/{name}"]
        for entry, name in pod.claim_names.items()
        if f"{pod.metadata.namespace}/{name}" in claims
    }
    identity = Identity(names=_names())
    record = task_record(pod, identity, NOW_S, claims=named)
    return replace(record, job=group_key(pod), terms=pod_terms(pod))


def _names() -> Any:
    from muster.api.names import Names

    return Names(scheduler=SCHEDULER)


def _hyper_nodes(objects: Any) -> dict[str, HyperNodeRecord]:
    members = objects.get("hyperNodeMembers") or {}
    tiers = {
        name: int(tier)
        for tier, names in (objects.get("hyperNodesByTier") or {}).items()
        for name in names
    }
    specs = objects.get("hyperNodes") or {}
    parent = {
        member["selector"]["exactMatch"]["name"]: name
        for name, each in sorted(specs.items())
        for member in each["spec"].get("members", [])
        if member["type"] == "HyperNode"
    }
    return {
        name: HyperNodeRecord(
            name,
            tier,
            frozenset(members.get(name, ())),
            parent.get(name) or _around(name, members, tiers),
            specs.get(name, {}).get("spec", {}).get("tierName", ""),
        )
        for name, tier in tiers.items()
    }


def _around(name: str, members: Any, tiers: dict[str, int]) -> str:
    """The hyper node of the next tier that holds all its nodes."""
    mine = set(members.get(name, ()))
    wider = [
        other
        for other, tier in tiers.items()
        if tier > tiers[name] and mine and mine <= set(members.get(other, ()))
    ]
    return min(wider, key=lambda other: tiers[other], default="")
