"""Bind requests: a pod, a node, and devices that fit together."""

from collections import Counter
from decimal import Decimal, InvalidOperation

from muster.api.bindrequest import FRACTION, MIG_INSTANCE, REGULAR, BindRequest, BindRequestSpec
from muster.api.validation.problems import Problem, Problems, unlike


def bind_request_problems(request: BindRequest, older: BindRequest | None = None) -> Problems:
    """What the binder could not carry out; with its older self, also what may not change."""
    spec = request.spec
    if not spec.pod_name:
        yield Problem("spec.podName", "there is no pod", "name the pod to bind")
    if not spec.selected_node:
        yield Problem("spec.selectedNode", "there is no node", "name the node that was chosen")
    if spec.received_resource_type:
        kinds = (REGULAR, FRACTION, MIG_INSTANCE)
        yield from unlike("spec.receivedResourceType", spec.received_resource_type, kinds)
    yield from _gpu_problems(spec)
    if spec.backoff_limit is not None and spec.backoff_limit < 0:
        fix = "write 0 or more, or leave it out for one attempt"
        yield Problem("spec.backoffLimit", f"{spec.backoff_limit} is negative", fix)
    names = Counter(each.name for each in spec.resource_claim_allocations)
    for index, each in enumerate(spec.resource_claim_allocations):
        if names[each.name] > 1:
            path = f"spec.resourceClaimAllocations[{index}].name"
            yield Problem(path, f"claim {each.name!r} is allocated twice", "allocate it once")
    if older is not None:
        yield from _change_problems(spec, older.spec)


def _gpu_problems(spec: BindRequestSpec) -> Problems:
    gpu = spec.received_gpu
    if gpu is not None and gpu.count < 0:
        yield Problem("spec.receivedGPU.count", f"{gpu.count} is negative", "write 0 or more")
    if gpu is not None and gpu.portion and not _is_portion(gpu.portion):
        message = f"{gpu.portion!r} is no part of a device"
        yield Problem("spec.receivedGPU.portion", message, "write a decimal between 0 and 1")
    if spec.received_resource_type != FRACTION:
        return
    groups = spec.selected_gpu_groups
    if not groups:
        message = "a Fraction without a device"
        yield Problem("spec.selectedGPUGroups", message, "name the devices to share")
    elif gpu is not None and gpu.count != len(groups):
        message = f"{len(groups)} devices for a count of {gpu.count}"
        yield Problem("spec.selectedGPUGroups", message, "name as many devices as the count says")


def _is_portion(text: str) -> bool:
    try:
        portion = Decimal(text)
    except InvalidOperation:
        return False
    return portion.is_finite() and 0 <= portion <= 1


def _change_problems(spec: BindRequestSpec, older: BindRequestSpec) -> Problems:
    fixed = (
        ("podName", spec.pod_name, older.pod_name),
        ("selectedNode", spec.selected_node, older.selected_node),
    )
    for field, now, before in fixed:
        if now != before:
            message = f"it was {before!r} and is {now!r}: a decision is not changed"
            yield Problem(f"spec.{field}", message, "delete the request and create another")
