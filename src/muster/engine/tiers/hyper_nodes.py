"""HyperNodes: which nodes are near each other. Tier 1 is nearest; "" is the whole cluster."""

from collections.abc import Iterable

import numpy as np

from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools

CLUSTER = ""


class HyperNodes:
    """The hyper nodes of a snapshot as masks over its nodes."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        records = snapshot.cluster_objects.hyper_nodes
        rows = snapshot.nodes.row
        self.tier = {name: record.tier for name, record in records.items()}
        self.top_tier = max(self.tier.values(), default=0) + 1
        self.tier[CLUSTER] = self.top_tier
        self.tier_by_name = {r.tier_name: r.tier for r in records.values() if r.tier_name}
        self._parent = {
            name: record.parent if record.parent in records else CLUSTER
            for name, record in records.items()
        }
        self.nodes: dict[str, Bools] = {CLUSTER: np.ones(len(rows), dtype=np.bool_)}
        for name, record in records.items():
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[[rows[node] for node in record.nodes if node in rows]] = True
            self.nodes[name] = mask
        self.children: dict[str, list[str]] = {name: [] for name in self.tier}
        for name in sorted(self._parent):
            self.children[self._parent[name]].append(name)
        self._nearest = {}
        for name in sorted(records, key=lambda one: (-self.tier[one], one)):
            self._nearest.update(dict.fromkeys(np.flatnonzero(self.nodes[name]).tolist(), name))

    @property
    def there_are_some(self) -> bool:
        return len(self.tier) > 1

    def chain(self, name: str) -> list[str]:
        """The hyper node and all above it, the cluster last."""
        found = [name]
        while found[-1] != CLUSTER:
            found.append(self._parent.get(found[-1], CLUSTER))
        return found

    def common(self, left: str, right: str) -> str:
        """The nearest that holds both."""
        above = set(self.chain(right))
        return next(name for name in self.chain(left) if name in above)

    def nearest(self, node: int) -> str:
        """The hyper node of the lowest tier that has this node."""
        return self._nearest.get(node, CLUSTER)

    def common_of(self, nodes: Iterable[int]) -> str | None:
        """The nearest that holds all these nodes; None for no nodes."""
        found: str | None = None
        for node in nodes:
            here = self.nearest(node)
            found = here if found is None else self.common(found, here)
        return found

    def below(self, name: str) -> list[str]:
        """The hyper node and all that hang from it, in the order of a walk by breadth."""
        found = [name]
        for each in found:
            found.extend(self.children[each])
        return found
