"""NUMA zones of a node as Volcano's resource exporter publishes them
(nodeinfo.volcano.sh/v1alpha1).
"""

from collections.abc import Mapping

import msgspec

from muster.api.meta import ApiObject, Struct


class ResourceInfo(Struct):
    allocatable: str = ""
    """CPUs that nobody holds, as a list of numbers and ranges."""


class CpuInfo(Struct):
    numa: int = 0


class MemoryTable(Struct):
    allocatable: int = 0
    free: int = 0


class MemoryNode(Struct):
    memory_map: Mapping[str, MemoryTable] = {}


class NumatopologySpec(Struct):
    policies: Mapping[str, str] = {}
    res_reserved: Mapping[str, str] = {}
    numares: Mapping[str, ResourceInfo] = {}
    cpu_detail: Mapping[str, CpuInfo] = {}
    memory_detail: Mapping[str, MemoryNode] = msgspec.field(name="MemoryDetail", default={})


class Numatopology(ApiObject):
    spec: NumatopologySpec = NumatopologySpec()
