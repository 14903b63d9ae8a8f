"""Nodes as records, with what stands about them in other objects: devices and NUMA zones."""

from collections.abc import Iterable

from muster.api.core import Node
from muster.api.devices import DeviceClass, ResourceSlice
from muster.api.meta import Key, replace
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.numatopology import Numatopology
from muster.client.informer import Index, Informer
from muster.model.build import node_record
from muster.model.records import NodeRecord

Zones = NodeResourceTopology | Numatopology


def without_images(node: Node) -> Node:
    """The list of a node's images is most of it, and few policies weigh them."""
    if not node.status.images:
        return node
    return replace(node, status=replace(node.status, images=()))


class NodeReader:
    """Reads what the informers show at the moment that it is asked."""

    def __init__(
        self,
        slices: Informer[ResourceSlice] | None,
        device_classes: Informer[DeviceClass] | None,
    ) -> None:
        self._device_classes = device_classes
        self._zones: list[Informer[Zones]] = []
        self._slices_by_node: Index[ResourceSlice, str] | None = None
        if slices is not None:
            self._slices_by_node = slices.add_index(lambda one: (one.spec.node_name or "",))

    def record(self, node: Node) -> NodeRecord:
        name = node.metadata.name
        classes = self._device_classes
        return node_record(
            node,
            tuple(self._slices_on(name)),
            {} if classes is None else {c.metadata.name: c for c in classes.objects.values()},
            self._zones_of(name),
        )

    def _zones_of(self, node: str) -> Zones | None:
        found = (zones.get(Key("", node)) for zones in self._zones)
        return next((one for one in found if one is not None), None)

    def has_slices(self, node: str) -> bool:
        return any(True for _ in self._slices_on(node))

    @property
    def needs_containers(self) -> bool:
        """Whether it matters which container of a pod asks for what."""
        read = (*self._zones, self._device_classes)
        return any(informer is not None and informer.objects for informer in read)

    def watch_zones(self, zones: Informer[Zones]) -> bool:
        """Put the NUMA zones that nodes publish into their records from now on; whether that is
        new. Of a node that has them of two kinds the first that was watched counts.
        """
        if zones in self._zones:
            return False
        self._zones.append(zones)
        return True

    def _slices_on(self, node: str) -> Iterable[ResourceSlice]:
        return self._slices_by_node.get(node) if self._slices_by_node is not None else ()
