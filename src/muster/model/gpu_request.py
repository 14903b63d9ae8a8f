"""GPU requests: the one place that reads them, and every rounding that is made of them.

Pods ask for whole GPUs by a resource, for parts of GPUs by annotations, for MIG profiles by their
resources, for devices by claims. Scheduler, binder, pod-group controller, scale adjuster all read
here, so that they speak of the same request; where they round differently, `ROUNDINGS` says why.

No number in an object becomes a loop or an array of its size: what is larger than any cluster needs
is counted as the most that is read, which no node has; `gpu_problem` names the field and the fix.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from muster.api.bindrequest import FRACTION, BindRequest
from muster.api.bounds import SHARED_GPUS_MAX
from muster.api.core import Pod
from muster.api.devices import ResourceClaim
from muster.api.names import (
    ANNOTATION_EXTENDED_RESOURCE_CLAIM,
    ANNOTATION_GPU_FRACTION,
    ANNOTATION_GPU_FRACTION_DEVICES,
    ANNOTATION_GPU_MEMORY,
    LABEL_GPU_GROUP,
    LABEL_GPU_GROUP_PREFIX,
    LABEL_GPU_MEMORY,
    RESOURCE_AMD_GPU,
    RESOURCE_MIG_PREFIX,
    RESOURCE_NVIDIA_GPU,
)
from muster.api.quantity import BadQuantity, Quantity
from muster.base.parse_int import parse_int
from muster.model.records import NO_GPU, GpuKind, GpuRequest
from muster.numerics.axis import GPU_UNIT, LARGEST_GPU_AMOUNT

GPU_RESOURCES: Final = (RESOURCE_NVIDIA_GPU, RESOURCE_AMD_GPU)
"""GPUs of all makers are one resource to queues, and different ones to nodes."""
OTHER_GPU_RESOURCES: Final = GPU_RESOURCES[1:]
"""Those that are not NVIDIA's."""
GPU_ANNOTATIONS: Final = frozenset(
    {ANNOTATION_GPU_FRACTION, ANNOTATION_GPU_FRACTION_DEVICES, ANNOTATION_GPU_MEMORY}
)
MOST_CLAIMED_DEVICES: Final = 32
"""Kubernetes stores no allocation of a claim with more devices."""
MOST_MEMORY_MIB: Final = 1 << 22
"""Of one GPU: 4 TiB."""

_MIG_PROFILE: Final = re.compile(re.escape(RESOURCE_MIG_PREFIX) + r"(\d{1,3})g\.(\d+)gb", re.ASCII)
_DECIMAL: Final = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_LONGEST_DECIMAL: Final = 64
_LEAST_FRACTION: Final = Decimal("1e-9")
"""What a quantity can hold."""
_MEMORY_STEP_MIB: Final = 100
_LARGEST_LABEL_MIB: Final = 1 << 20
"""A larger figure than this many MiB for one GPU is taken for bytes."""


# -- roundings -----------------------------------------------------------------------------------


def _hundredths_up(devices: int, part: int, whole: int) -> int:
    return devices * -(-100 * part // whole) * (GPU_UNIT // 100)


def _nearest_hundredth(devices: int, part: int, whole: int) -> int:
    return devices * ((200 * part + whole) // (2 * whole)) * (GPU_UNIT // 100)


def _nearest_unit(devices: int, part: int, whole: int) -> int:
    return devices * ((2 * GPU_UNIT * part + whole) // (2 * whole))


def _units_down(devices: int, part: int, whole: int) -> int:
    return devices * part * GPU_UNIT // whole


def _unrounded(devices: int, part: int, whole: int) -> float:
    return devices * part * GPU_UNIT / whole


def _two_decimals(devices: int, part: int, whole: int) -> int:
    """As C and Go print them: an eighth is 0.12."""
    return devices * round(float(f"{part / whole:.2f}") * GPU_UNIT)


class Use(Enum):
    """What a part of a GPU is counted for."""

    PENDING = "what the queue of a pending pod asks for"
    BOUNDS = "limits and quotas before a node is known"
    PLACED = "what the queue of a placed pod holds"
    PORTION = "the portion in the bind request, and GPU_PORTION in the container"
    STATUS = "what the status of the pod group says is held"
    SCALING = "the GPUs that scaling pods ask an autoscaler for"


_Rounding = Callable[[int, int, int], float]
"""(devices, part, whole) -> GPU units of so many devices, of each of which part/whole is taken."""


class Rounding(NamedTuple):
    """How a part is rounded that annotations ask for, and why so."""

    units: _Rounding
    why: str


ROUNDINGS: Final[Mapping[tuple[Use, GpuKind], Rounding]] = {
    (Use.PENDING, GpuKind.FRACTION): Rounding(_nearest_hundredth, "as KAI counts GPUs"),
    (Use.PENDING, GpuKind.MEMORY): Rounding(
        _units_down, "by the cluster's smallest GPU, as KAI does, to the unit of the column"
    ),
    (Use.BOUNDS, GpuKind.MEMORY): Rounding(
        _unrounded, "by the cluster's largest GPU: the least that it can come to on any node"
    ),
    (Use.PLACED, GpuKind.FRACTION): Rounding(_nearest_hundredth, "what it counted for pending"),
    (Use.PLACED, GpuKind.MEMORY): Rounding(
        _hundredths_up, "by the GPUs of its node, never for less than it takes"
    ),
    (Use.PORTION, GpuKind.FRACTION): Rounding(_two_decimals, "two decimals are the API"),
    (Use.PORTION, GpuKind.MEMORY): Rounding(
        _hundredths_up, "what its queue is charged for it on the node"
    ),
    (Use.STATUS, GpuKind.MEMORY): Rounding(
        _nearest_unit, "people compare it with what they wrote; fractions are copied as written"
    ),
    (Use.SCALING, GpuKind.FRACTION): Rounding(
        _nearest_hundredth, "as pending; of memory the administrator gives the ratio of a GPU"
    ),
}
"""KAI's own roundings, each where KAI has it: what is not here is nowhere counted in GPU units.
`device_mib` is the way back, from parts to MiB."""


def shared_units(gpu: GpuRequest, use: Use, gpu_memory_mib: int) -> float:
    """GPU units of a FRACTION or MEMORY request, all its devices together; other kinds have none.

    Of memory the size of a GPU must be known; where it is not, it counts nothing.
    """
    if not gpu.is_shared:
        return 0
    units = ROUNDINGS[use, gpu.kind].units
    if gpu.kind is GpuKind.FRACTION:
        return units(gpu.devices, gpu.portion, GPU_UNIT)
    return units(gpu.devices, gpu.memory_mib, gpu_memory_mib) if gpu_memory_mib > 0 else 0


def least_units(gpu: GpuRequest, sizes_mib: Iterable[int]) -> int:
    """What a shared request takes at least on GPUs of any of these sizes, against free parts that
    are rounded down one by one: who finds less than this free can be sure that it does not fit.
    """
    return gpu.devices * min((_units_down(1, device_mib(gpu, s), s) for s in sizes_mib), default=0)


def most_units(gpu: GpuRequest, gpu_memory_mib: int) -> int:
    """What leaves one device free at most when the request goes: the other side of `least_units`,
    with which no free part is missed that was rounded down before.
    """
    return -(-device_mib(gpu, gpu_memory_mib) * GPU_UNIT // gpu_memory_mib)


def accepted(gpu: GpuRequest, gpu_memory_mib: int) -> GpuRequest:
    """The request on a node whose GPUs have so much memory: memory is a portion there too."""
    if gpu.kind is not GpuKind.MEMORY:
        return gpu
    one = GpuRequest(GpuKind.MEMORY, 1, memory_mib=gpu.memory_mib)
    portion = int(shared_units(one, Use.PORTION, gpu_memory_mib))
    return msgspec.structs.replace(gpu, portion=portion)


def granted(gpu: GpuRequest, request: BindRequest | None) -> GpuRequest:
    """What a pod holds: what its bind request gives it, where its annotations, which may have been
    edited since, no longer say the same. Of GPU memory only the number of devices is compared.
    """
    received = request.spec.received_gpu if request is not None else None
    if request is None or received is None or request.spec.received_resource_type != FRACTION:
        return gpu
    is_same = gpu.is_shared and gpu.devices == received.count
    if gpu.kind is GpuKind.FRACTION:
        is_same = is_same and portion_text(gpu) == received.portion
    part = written_fraction(received.portion)
    if is_same or received.count < 1 or not part:
        return gpu
    devices = min(received.count, SHARED_GPUS_MAX)
    return GpuRequest(GpuKind.FRACTION, devices, portion=int(part * GPU_UNIT))


def unshared(gpu: GpuRequest) -> GpuRequest:
    """The request of a pod of another scheduler: whoever places it reads no annotations of ours, so
    that it holds no part of a GPU, whatever they say.
    """
    return NO_GPU if gpu.is_shared else gpu


def gpu_groups_of(pod: Pod) -> tuple[str, ...]:
    """The shared GPUs that a pod is on by its labels, however many devices it shares."""
    labels = pod.metadata.labels
    one = [labels[LABEL_GPU_GROUP]] if LABEL_GPU_GROUP in labels else []
    several = [
        value for key, value in sorted(labels.items()) if key.startswith(LABEL_GPU_GROUP_PREFIX)
    ]
    return tuple(dict.fromkeys([*one, *several]))


def portion_text(gpu: GpuRequest) -> str:
    """The part of each device of an accepted request, with two decimals; a whole one is 1.00."""
    if not gpu.is_shared:
        return "1.00" if gpu.kind is GpuKind.WHOLE else "0.00"
    two_decimals = ROUNDINGS[Use.PORTION, GpuKind.FRACTION].units
    return f"{two_decimals(1, gpu.portion, GPU_UNIT) / GPU_UNIT:.2f}"


def device_mib(gpu: GpuRequest, gpu_memory_mib: int) -> int:
    """Memory taken of each shared device on a node whose GPUs have `gpu_memory_mib`."""
    if gpu.kind is GpuKind.MEMORY:
        return gpu.memory_mib
    if gpu.claimed:
        return gpu_memory_mib
    return max(1, gpu.portion * gpu_memory_mib // GPU_UNIT)


# -- reading -------------------------------------------------------------------------------------


def gpu_request(
    amounts: Mapping[str, int], annotations: Mapping[str, str], claimed: int = 0
) -> GpuRequest:
    """The GPU request of a pod, from its amounts, annotations, and how many GPUs it claims."""
    shared = shared_request(annotations)
    if shared is not NO_GPU:
        return shared
    mig = {n: amount for n, amount in amounts.items() if n.startswith(RESOURCE_MIG_PREFIX)}
    if any(mig.values()):
        slices = sum(mig_slices(name) * amount for name, amount in mig.items())
        return GpuRequest(GpuKind.MIG, mig_slices=min(slices, LARGEST_GPU_AMOUNT // GPU_UNIT))
    whole = amounts.get("gpu", 0) // GPU_UNIT
    if whole > 0:
        return GpuRequest(GpuKind.WHOLE, whole + claimed)
    return GpuRequest(GpuKind.CLAIM, claimed) if claimed else NO_GPU


def shared_request(annotations: Mapping[str, str]) -> GpuRequest:
    """What annotations ask for; `NO_GPU` where they ask for nothing that can be read."""
    if any(name.startswith(RESOURCE_MIG_PREFIX) for name in annotations):
        return GpuRequest(GpuKind.LEGACY_MIG)
    devices = _count(annotations, ANNOTATION_GPU_FRACTION_DEVICES, SHARED_GPUS_MAX) or 1
    if memory := _count(annotations, ANNOTATION_GPU_MEMORY, MOST_MEMORY_MIB):
        return GpuRequest(GpuKind.MEMORY, devices, memory_mib=memory)
    if fraction := written_fraction(annotations.get(ANNOTATION_GPU_FRACTION, "")):
        return GpuRequest(GpuKind.FRACTION, devices, portion=max(1, int(fraction * GPU_UNIT)))
    return NO_GPU


def written_fraction(text: str) -> Decimal:
    """A decimal in (0, 1] as it is written; 0 for anything else."""
    if len(text) > _LONGEST_DECIMAL or not _DECIMAL.fullmatch(text):
        return Decimal(0)
    value = Decimal(text)
    return value if _LEAST_FRACTION <= value <= 1 else Decimal(0)


def is_count(text: str, most: int) -> bool:
    """Whether it is a whole number from 1 to `most`, without a sign."""
    return 0 < (parse_int(text) or 0) <= most


def claimed_by_class(claim: ResourceClaim) -> dict[str, int]:
    """GPUs that a claim asks for, by device class: those whose names say that they are GPUs.

    A claim that stands for an extended resource counts nothing: the pod's containers ask for the
    same.
    """
    found: dict[str, int] = {}
    if claim.metadata.annotations.get(ANNOTATION_EXTENDED_RESOURCE_CLAIM) == "true":
        return found
    for request in claim.spec.devices.requests:
        exact = request.exactly
        if exact is not None and is_gpu_class(exact.device_class_name):
            total = found.get(exact.device_class_name, 0) + exact.least_devices
            found[exact.device_class_name] = min(total, SHARED_GPUS_MAX)
    return found


def claimed_gpus(claim: ResourceClaim) -> int:
    """GPUs that a claim asks for."""
    return min(sum(claimed_by_class(claim).values()), SHARED_GPUS_MAX)


def shared_gpus(claim: ResourceClaim) -> tuple[str, ...]:
    """A name for each GPU of a claim that several pods may use."""
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return tuple(f"claim {key} {number}" for number in range(claimed_gpus(claim)))


def is_gpu_class(name: str) -> bool:
    """Whether devices of a class, or of a driver, are counted as GPUs: its name says so."""
    return "gpu" in name.lower()


def mig_slices(resource: str) -> int:
    """The g-number of a MIG profile (`mig-3g.20gb` is 3); 0 for names of another form."""
    found = _MIG_PROFILE.fullmatch(resource)
    return int(found.group(1)) if found else 0


def gpu_memory_mib(labels: Mapping[str, str]) -> int:
    """Memory of each GPU of a node, floored to a multiple of 100; 0 where it does not say."""
    amount = parse_int(labels.get(LABEL_GPU_MEMORY, "")) or 0
    if amount >= _LARGEST_LABEL_MIB:
        amount >>= 20
    return amount - amount % _MEMORY_STEP_MIB


# -- what cannot be counted with -----------------------------------------------------------------


def gpu_problem(annotations: Mapping[str, str], claims: Mapping[str, ResourceClaim]) -> str:
    """What is wrong with the annotations or claims of a pod, and how to write it; "" if nothing."""
    return _annotation_problem(annotations) or next(
        (problem for _, claim in sorted(claims.items()) if (problem := _claim_problem(claim))), ""
    )


def _annotation_problem(annotations: Mapping[str, str]) -> str:
    text, key = annotations.get(ANNOTATION_GPU_MEMORY), ANNOTATION_GPU_MEMORY
    if text and not is_count(text, MOST_MEMORY_MIB):
        return f"metadata.annotations[{key}] is {_shown(text)}: {memory_fix(text)}"
    text, key = annotations.get(ANNOTATION_GPU_FRACTION_DEVICES), ANNOTATION_GPU_FRACTION_DEVICES
    if text and not is_count(text, SHARED_GPUS_MAX):
        fix = f"write the number of devices, from 1 to {SHARED_GPUS_MAX}"
        return f"metadata.annotations[{key}] is {_shown(text)}: {fix}"
    text = annotations.get(ANNOTATION_GPU_FRACTION)
    if text and not written_fraction(text):
        where = f"metadata.annotations[{ANNOTATION_GPU_FRACTION}]"
        return f'{where} is {_shown(text)}: write the part of one device, such as "0.5"'
    return ""


def memory_fix(text: str) -> str:
    """What to write for the memory of a GPU, which is in MiB: `8Gi` is worked out."""
    fix = f"write the MiB of one device as a number, from 1 to {MOST_MEMORY_MIB}"
    try:
        mib = Quantity(text).value >> 20 if text[-1:].isalpha() else 0
    except BadQuantity:
        mib = 0
    return f"{fix}; {text} is {mib}" if 0 < mib <= MOST_MEMORY_MIB else fix


def _claim_problem(claim: ResourceClaim) -> str:
    exact = [each.exactly for each in claim.spec.devices.requests if each.exactly is not None]
    wanted = sum(each.least_devices for each in exact)
    if wanted <= MOST_CLAIMED_DEVICES:
        return ""
    return (
        f"resource claim {claim.metadata.name} asks for {wanted} devices in "
        f"spec.devices.requests[].exactly.count: a claim holds at most {MOST_CLAIMED_DEVICES}"
    )


def _count(annotations: Mapping[str, str], key: str, most: int) -> int:
    """A positive number, at most `most`; 0 for what is none."""
    text = annotations.get(key, "")
    if not (text.isascii() and text.isdigit()):
        return 0
    found = parse_int(text)
    return most if found is None else min(found, most)


def _shown(text: str) -> str:
    return f'"{text}"' if len(text) <= _LONGEST_DECIMAL else f'"{text[:20]}..."'
