"""Keeps the sum of what the nodes have, node by node, and shows it as metrics."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from muster.api.core import Node
from muster.api.devices import ResourceSlice
from muster.api.meta import Key
from muster.client.informer import Informer
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_RESOURCES
from muster.services.queues import capacity
from muster.usage.promql import CAPACITY


def capacity_gauges(registry: CollectorRegistry, prefix: str) -> dict[int, Gauge]:
    """By the index of the resource."""
    return {
        QUEUE_RESOURCES.index(name): Gauge(
            f"{prefix}_{metric}", f"What the nodes have of {name}.", registry=registry
        )
        for name, metric in CAPACITY.items()
    }


class CapacityWatch:
    """Node by node: a change costs one node."""

    def __init__(
        self,
        nodes: Informer[Node],
        slices: Informer[ResourceSlice],
        registry: CollectorRegistry,
        prefix: str,
    ) -> None:
        self._nodes = nodes
        self._slices = slices.add_index(lambda one: (one.spec.node_name or "",))
        self._by_node: dict[str, Floats] = {}
        self.total = capacity.total(())
        self.on_change: Callable[[], None] = lambda: None
        self._gauges = capacity_gauges(registry, prefix)
        nodes.add_handler(self._node_changed)
        slices.add_handler(self._slice_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None:
            self._count(node.metadata.name, new)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for one in (old, new):
            name = one.spec.node_name if one is not None else None
            if name:
                self._count(name, self._nodes.get(Key("", name)))

    def _count(self, name: str, node: Node | None) -> None:
        before = self._by_node.pop(name, None)
        if node is not None:
            self._by_node[name] = capacity.node_capacity(node, tuple(self._slices.get(name)))
        now = self._by_node.get(name)
        if before is not None and now is not None and (before == now).all():
            return
        # Summed anew, not by differences: those would drift.
        self.total = capacity.total(self._by_node.values())
        for resource, gauge in self._gauges.items():
            gauge.set(float(self.total[resource]))
        self.on_change()
