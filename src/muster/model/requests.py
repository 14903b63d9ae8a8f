"""What a pod asks for: amounts of every resource, and its GPUs in one of the ways to ask for them.

Amounts are integers in the axis's units: cpu in milli, memory and storage in bytes, everything else
in whole units; GPUs are hundredths, because a fraction of a GPU is accounted in steps of 0.01. Pure
arithmetic: parsing of API objects is elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

Amounts = Mapping[str, int]
"""Resource name to integer amount."""

GPU_UNITS = 100
"""Units of the GPU dimension in one device."""

_MILLION = 1_000_000
_MIG_PROFILE = re.compile(r"nvidia\.com/mig-(\d+)g\.(\d+)gb")
_POD_LEVEL = ("cpu", "memory")


class ContainerKind(Enum):
    """When a container runs: with the others, beside all that follow, or alone before them."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The requests of one container, sorted by name. Init containers and sidecars come first, in
    order.
    """

    amounts: tuple[tuple[str, int], ...]
    kind: ContainerKind = ContainerKind.APP


class GpuKind(Enum):
    """The way in which a pod asks for GPUs."""

    NONE = "none"
    WHOLE = "whole"
    FRACTION = "fraction"
    MEMORY = "memory"
    MIG = "mig"
    LEGACY_MIG = "legacy mig"


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """The GPUs of a pod.

    `devices` GPUs, of each `portion_millionths` (a fraction) or `memory_mib` (a memory request).
    Whole GPUs have portion one. `mig` counts profiles, `claimed` the GPUs of its resource claims
    per device class.
    """

    kind: GpuKind = GpuKind.NONE
    devices: int = 0
    portion_millionths: int = 0
    memory_mib: int = 0
    mig: tuple[tuple[str, int], ...] = ()
    claimed: tuple[tuple[str, int], ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether it asks for a part of each device, to be shared with others."""
        return self.kind in (GpuKind.FRACTION, GpuKind.MEMORY)

    @property
    def gpu_units(self) -> int:
        """Requested GPUs in hundredths; nothing for memory, MIG and claims."""
        return (self.portion_millionths * GPU_UNITS * 2 + _MILLION) // (2 * _MILLION) * self.devices

    @property
    def claimed_gpus(self) -> int:
        """GPUs of resource claims, in devices."""
        return sum(count for _, count in self.claimed)

    @property
    def quota_units(self) -> int:
        """What a queue is charged, in hundredths: GPUs, claimed GPUs, and MIG profiles by their
        g-number.

        A memory request counts nothing here: its size in GPUs is known only on a node.
        """
        slices = sum(mig_slices(name) * count for name, count in self.mig)
        return (slices + self.claimed_gpus) * GPU_UNITS + self.gpu_units

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for GPUs in any way."""
        return self.kind is not GpuKind.NONE or self.claimed_gpus > 0

    def device_memory_mib(self, gpu_memory_mib: int) -> int:
        """Memory of one device taken on a node whose GPUs have this much."""
        if self.kind is GpuKind.MEMORY:
            return self.memory_mib
        return self.portion_millionths * gpu_memory_mib // _MILLION

    def accepted_units(self, gpu_memory_mib: int) -> int:
        """GPUs in hundredths that the pod counts once it is on such a node (memory is rounded
        up).
        """
        if self.kind is not GpuKind.MEMORY:
            return self.gpu_units
        return -(-self.memory_mib * GPU_UNITS // gpu_memory_mib) * self.devices


NO_GPU = GpuRequest()


def pod_amounts(
    containers: Iterable[ContainerRequest],
    overhead: Amounts | None = None,
    pod_level: Amounts | None = None,
) -> dict[str, int]:
    """What a pod occupies: its long-lived containers, or a greater moment of its start; overhead;
    one slot.

    Requests at the level of the pod, where given, replace what the containers add up to.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in containers:
        amounts = dict(container.amounts)
        if container.kind is ContainerKind.INIT:
            _raise_to(peak, _sum(amounts, sidecars))
            continue
        if container.kind is ContainerKind.SIDECAR:
            _add(sidecars, amounts)
            _raise_to(peak, sidecars)
        _add(running, amounts)
    _raise_to(running, peak)
    for name, amount in (pod_level or {}).items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            running[name] = amount
    _add(running, overhead or {})
    running["pods"] = 1
    return running


def gpu_request(
    amounts: Amounts,
    annotations: Mapping[str, str],
    whole_gpus: int,
    claimed: Mapping[str, int] | None = None,
) -> GpuRequest:
    """The GPU request of a pod, from its amounts and annotations.

    A malformed annotation is as good as none: admission has refused it, or nobody meant it.
    """
    claims = tuple(sorted((claimed or {}).items()))
    if any(is_mig(name) for name in annotations):
        return GpuRequest(GpuKind.LEGACY_MIG, claimed=claims)
    devices = _positive(annotations.get("gpu-fraction-num-devices")) or 1
    if memory := _positive(annotations.get("gpu-memory")):
        return GpuRequest(GpuKind.MEMORY, devices, 0, memory, claimed=claims)
    if portion := portion_millionths(annotations.get("gpu-fraction", "")):
        return GpuRequest(GpuKind.FRACTION, devices, portion, claimed=claims)
    mig = tuple(sorted((n, amount) for n, amount in amounts.items() if is_mig(n) and amount > 0))
    if mig:
        return GpuRequest(GpuKind.MIG, mig=mig, claimed=claims)
    if whole_gpus > 0:
        return GpuRequest(GpuKind.WHOLE, whole_gpus, _MILLION, claimed=claims)
    return GpuRequest(claimed=claims)


def is_mig(resource: str) -> bool:
    """Whether the name is that of a MIG profile."""
    return resource.startswith("nvidia.com/mig-")


def mig_slices(resource: str) -> int:
    """The g-number of a MIG profile (`mig-3g.20gb` is 3); 0 for names of another form."""
    found = _MIG_PROFILE.fullmatch(resource)
    return int(found.group(1)) if found else 0


def portion_millionths(text: str) -> int:
    """A decimal in (0, 1] as millionths; 0 for anything else. Digits after the sixth are
    dropped.
    """
    whole, _, digits = text.partition(".")
    digits = digits[:6]
    if not (whole + digits).isascii() or not (whole + digits).isdigit():
        return 0
    value = int(whole or "0") * _MILLION + int((digits or "0").ljust(6, "0"))
    return value if 0 < value <= _MILLION else 0


def _positive(text: str | None) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 18:
        return 0
    return int(text)


def _sum(first: Amounts, second: Amounts) -> dict[str, int]:
    total = dict(first)
    _add(total, second)
    return total


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0), amount)
