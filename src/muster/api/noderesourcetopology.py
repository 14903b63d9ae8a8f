"""NUMA zones of a node as the topology exporters publish them (topology.node.k8s.io/v1alpha2)."""

from typing import Annotated

import msgspec

from muster.api.bounds import NUMA_ZONES_MAX
from muster.api.meta import ApiObject, Struct
from muster.api.quantity import Quantity


class ZoneResource(Struct):
    name: str = ""
    capacity: Quantity = Quantity()
    allocatable: Quantity = Quantity()
    available: Quantity = Quantity()


class ZoneCost(Struct):
    name: str = ""
    value: int = 0


class NamedValue(Struct):
    name: str = ""
    value: str = ""


class Zone(Struct):
    name: str = ""
    type: str = ""
    parent: str = ""
    costs: tuple[ZoneCost, ...] = ()
    attributes: tuple[NamedValue, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(ApiObject):
    topology_policies: tuple[str, ...] = ()
    zones: Annotated[tuple[Zone, ...], msgspec.Meta(max_length=NUMA_ZONES_MAX)] = ()
    attributes: tuple[NamedValue, ...] = ()
