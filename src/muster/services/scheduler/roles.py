"""What the scheduler may do."""

from collections.abc import Iterable

from muster.api import kinds
from muster.api.names import PAST_EVICTIONS_CONFIG_MAP, Names
from muster.api.roles import (
    Rights,
    Rule,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
)

_OTHERS_OBJECTS = (
    kinds.VOLCANO_POD_GROUP,
    kinds.VOLCANO_QUEUE,
    kinds.HYPER_NODE,
    kinds.KUBE_BATCH_POD_GROUP,
    kinds.KUBE_BATCH_QUEUE,
    kinds.RESOURCE_QUOTA,
    kinds.NUMATOPOLOGY,
)
"""What schedulers with another profile than KAI's read."""


def rights(known: Names, leases: Iterable[str] | None = None) -> Rights:
    """Of the schedulers that hold these leases, together; without them, of the one of the default
    shard."""
    held = (known.scheduler_lease(),) if leases is None else leases
    everywhere = [
        *_reads(),
        *may(("create", "delete"), kinds.BIND_REQUEST),
        *may(("patch",), kinds.POD_GROUP),
        *may(("patch",), kinds.POD_GROUP, subresource="status"),
        *may(("patch",), kinds.VOLCANO_POD_GROUP, subresource="status"),
        *may(("patch",), kinds.KUBE_BATCH_POD_GROUP, subresource="status"),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("patch",), kinds.QUEUE, subresource="status"),
        *may(("create",), kinds.POD, subresource="eviction"),
        *may(("create",), kinds.POD, subresource="binding"),
        *may(("delete", "patch"), kinds.POD),
        # How much CPU and memory is spare there.
        *may(("patch",), kinds.NODE, subresource="status"),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    own = [
        *may_lead(*held),
        *may(("create",), kinds.CONFIG_MAP),
        *may(("patch",), kinds.CONFIG_MAP, only=(PAST_EVICTIONS_CONFIG_MAP,)),
    ]
    return Rights(everywhere, {known.namespace: own})


def observer_rights() -> Rights:
    """Of one that decides and does nothing: it reads what a scheduler reads, and for plans what
    pods are described in."""
    described = may(("get",), kinds.CLUSTER_TRAINING_RUNTIME, kinds.TRAINING_RUNTIME)
    return Rights([*_reads(), *described, *may_ask_who_asks()], {})


def _reads() -> Iterable[Rule]:
    return may_read(
        kinds.POD,
        kinds.NODE,
        kinds.NAMESPACE,
        kinds.CONFIG_MAP,
        kinds.QUEUE,
        kinds.POD_GROUP,
        *_OTHERS_OBJECTS,
        kinds.BIND_REQUEST,
        kinds.PRIORITY_CLASS,
        kinds.TOPOLOGY,
        kinds.POD_DISRUPTION_BUDGET,
        kinds.PERSISTENT_VOLUME,
        kinds.PERSISTENT_VOLUME_CLAIM,
        kinds.STORAGE_CLASS,
        kinds.CSI_NODE,
        kinds.CSI_DRIVER,
        kinds.CSI_STORAGE_CAPACITY,
        kinds.RESOURCE_CLAIM,
        kinds.RESOURCE_SLICE,
        kinds.DEVICE_CLASS,
        kinds.NODE_RESOURCE_TOPOLOGY,
    )
