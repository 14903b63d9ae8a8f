"""The objects that the scheduler writes, made from a plan. Pure."""

from collections.abc import Mapping
from typing import Any

from muster.api import names
from muster.api.codec import builtins
from muster.api.conditions import condition
from muster.api.core import Pod
from muster.api.devices import AllocationResult
from muster.api.meta import Struct
from muster.api.quantity import Quantity
from muster.engine.plan import POD_ANNOTATIONS, Bind
from muster.model.charges import Charge, charge_notes
from muster.model.gpu_request import portion_text
from muster.model.records import GpuKind, GpuRequest
from muster.services.scheduler.options import Options

_REGULAR, _FRACTION, _MIG = "Regular", "Fraction", "MigInstance"


def bind_request(
    pod: Pod, bind: Bind, gpu: GpuRequest, options: Options, charge: Charge | None = None
) -> dict[str, Any]:
    """The message to the binder: this pod on that node, with these devices.

    `gpu` is what the pod asks for, as accepted on the node. `charge` is who pays: we read it here
    again for as long as the pod lives.
    """
    labels = {names.LABEL_SELECTED_NODE: bind.node}
    if options.shard and options.names.node_pool_label:
        labels[options.names.node_pool_label] = options.shard
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
    spec: dict[str, Any] = {
        "podName": pod.metadata.name,
        "selectedNode": bind.node,
        "receivedResourceType": resource_type(gpu),
        "receivedGPU": {"count": gpu.devices, "portion": portion_text(gpu)},
        "backoffLimit": options.bind_attempts,
        **_details(bind.details),
    }
    if bind.gpu_shares:
        spec["selectedGPUGroups"] = list(bind.gpu_shares)
    return {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "labels": labels,
            "annotations": {
                **(charge_notes(charge, options.names) if charge is not None else {}),
                **bind.pod_annotations,
            },
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def decided_devices(bind: Bind) -> Mapping[str, AllocationResult]:
    """Devices of a decision, by the pod's entry for the claim ("": requested by name)."""
    found: dict[str, AllocationResult] = {}
    claims: Any = bind.details.get("resourceClaimAllocations", ())
    for one in claims:
        if one.allocation is not None:
            found[one.name] = one.allocation
    by_name: Any = bind.details.get("extendedResourceClaimAllocation")
    if by_name is not None and by_name.allocation is not None:
        found[""] = by_name.allocation
    return found


def needs_no_preparation(pod: Pod, bind: Bind, gpu: GpuRequest) -> bool:
    """Whether binding is all there is to do: no shared GPU, no claim, no volume to wait for, and
    nothing that a plugin has to say to the binder.
    """
    volumes = any(
        one.persistent_volume_claim is not None or one.ephemeral is not None
        for one in pod.spec.volumes
    )
    needs_binder = bind.details.keys() - {POD_ANNOTATIONS}
    return not (gpu.is_shared or pod.spec.resource_claims or volumes or needs_binder)


def resource_type(gpu: GpuRequest) -> str:
    if gpu.is_shared:
        return _FRACTION
    return _MIG if gpu.kind is GpuKind.MIG else _REGULAR


def unschedulable_condition(message: str, now: str) -> dict[str, str]:
    kind, reason = names.CONDITION_POD_SCHEDULED, names.REASON_UNSCHEDULABLE
    return condition(kind, False, reason, message, now)


def binding_error_condition(message: str, now: str) -> dict[str, str]:
    """A node was found, and the pod could not be bound to it."""
    kind, reason = names.CONDITION_POD_SCHEDULED, names.REASON_BINDING_ERROR
    return condition(kind, False, reason, message, now)


def disruption_condition(message: str, now: str) -> dict[str, str]:
    """Said on a pod before it is removed, so that its owner can tell this from a failure."""
    kind, reason = names.CONDITION_DISRUPTION_TARGET, names.REASON_PREEMPTION
    return condition(kind, True, reason, message, now)


def refused_disruption_condition(message: str, now: str) -> dict[str, str]:
    """The pod was to be removed, and that was refused: it stays."""
    kind, reason = names.CONDITION_DISRUPTION_TARGET, names.REASON_EVICTION_REFUSED
    return condition(kind, False, reason, message, now)


def _details(details: Mapping[str, object]) -> dict[str, Any]:
    """What plugins add, in JSON's terms."""
    return {key: _plain(value) for key, value in details.items() if key != POD_ANNOTATIONS}


def _plain(value: object) -> Any:
    if isinstance(value, Struct):
        return builtins(value)
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
