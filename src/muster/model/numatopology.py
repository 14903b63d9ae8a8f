"""Volcano's Numatopology -> the NUMA zones of a node.

A kubelet gives whole CPUs to containers only with the CPU manager `static`, and aligns memory only
with the memory manager `Static`: what it does not align is in no zone. What cannot be read counts
as not there.
"""

from collections.abc import Callable, Iterator, Mapping

from muster.api.bounds import NUMA_CPUS_MAX, NUMA_ZONES_MAX
from muster.api.numatopology import Numatopology, NumatopologySpec
from muster.api.quantity import BadQuantity, parse
from muster.base.parse_int import parse_int
from muster.model.records import NumaTopology, NumaZone
from muster.numerics.axis import largest_amount

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_CORE = 1000


def topology_of_volcano(found: Numatopology) -> NumaTopology | None:
    """The zones of a node; None if it reports none that its kubelet heeds."""
    spec = found.spec
    cpus = _cpus_by_zone(spec)
    zones = sorted({*cpus, *_memory_zones(spec)})[:NUMA_ZONES_MAX]
    if not zones:
        return None
    free, reserved = _members(spec), set(_reserved(spec, cpus))
    policy = spec.policies.get("TopologyManagerPolicy", "")
    return NumaTopology(
        zones=tuple(
            NumaZone(
                f"node-{zone}",
                _amounts(spec, zone, [c for c in cpus.get(zone, ()) if c not in reserved], "all"),
                _amounts(spec, zone, [c for c in cpus.get(zone, ()) if free(c)], "free"),
            )
            for zone in zones
        ),
        policy=policy if policy in POLICIES else "none",
    )


def _amounts(spec: NumatopologySpec, zone: int, cpus: list[int], which: str) -> dict[str, int]:
    amounts = {"cpu": len(cpus) * _CORE} if _has_static_cpus(spec) else {}
    table = spec.memory_detail[str(zone)].memory_map if zone in _memory_zones(spec) else {}
    for name, one in table.items():
        bytes_ = one.free if which == "free" else one.allocatable
        amounts[name] = min(max(bytes_, 0), largest_amount(name) - 1)
    return amounts


def _has_static_cpus(spec: NumatopologySpec) -> bool:
    return spec.policies.get("CPUManagerPolicy", "").lower() == "static"


def _cpus_by_zone(spec: NumatopologySpec) -> dict[int, list[int]]:
    zones: dict[int, list[int]] = {}
    if _has_static_cpus(spec):
        named = ((parse_int(name), one.numa) for name, one in spec.cpu_detail.items())
        numbered = {cpu: zone for cpu, zone in named if cpu is not None}
        for cpu in sorted(numbered)[:NUMA_CPUS_MAX]:
            zones.setdefault(numbered[cpu], []).append(cpu)
    return zones


def _memory_zones(spec: NumatopologySpec) -> set[int]:
    if spec.policies.get("MemoryManagerPolicy", "").lower() != "static":
        return set()
    return {zone for name in spec.memory_detail if (zone := parse_int(name)) is not None}


def _reserved(spec: NumatopologySpec, cpus: Mapping[int, list[int]]) -> list[int]:
    """The CPUs that the kubelet keeps for itself: the first ones."""
    try:
        amount = parse(spec.res_reserved.get("cpu", "0"))
    except BadQuantity:
        return []
    every = sorted(cpu for zone in cpus.values() for cpu in zone)
    return every[: max(0, min(-(-amount.milli // _CORE), len(every)))]


def _members(spec: NumatopologySpec) -> Callable[[int], bool]:
    """Whether a CPU is in the list of those that nobody holds."""
    cpus = spec.numares.get("cpu")
    ranges = list(_ranges("" if cpus is None else cpus.allocatable))
    return lambda cpu: any(first <= cpu <= last for first, last in ranges)


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(",", NUMA_CPUS_MAX)[:NUMA_CPUS_MAX]:
        first, dash, last = part.strip().partition("-")
        start, end = parse_int(first), parse_int(last if dash else first)
        if start is not None and end is not None:
            yield start, end
