"""`numa-aware`: the same as KAI's `numa`, with Volcano's argument and the wish of its pods.

Zones are those of Volcano's Numatopology and of NodeResourceTopology, which the topology updater of
Node Feature Discovery writes.
"""

import numpy as np

from muster.api.kinds import NODE_RESOURCE_TOPOLOGY, NUMATOPOLOGY
from muster.api.volcano import NUMA_POLICY
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.plugins.numa.plugin import Numa, Zones
from muster.engine.plugins.numa.zones import ZoneKind
from muster.engine.tiers.rules import Rules, TieredPlugin
from muster.model.records import NodeRecord
from muster.numerics.arrays import Bools

_NO_WISH = ("", "none")


class NumaAware(Numa):
    """Volcano's `numa-aware`. A pod that names a policy goes only to nodes that have it."""

    name = "numa-aware"
    watches = (NODE_RESOURCE_TOPOLOGY, NUMATOPOLOGY)

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("weight",))
        weight = arguments.key("weight").integer(1)
        super().__init__(Reader(None, arguments.file), weight=max(weight, 0))

    def open(self, view: View) -> SessionPlugin:
        kinds = self.kinds(view)
        if not kinds:
            return _Wishes(view)
        return _WishesAndZones(view, kinds, self._ignored, self._reconstructs, self._weight)


class _Wishes(TieredPlugin):
    """What pods say of the policy that they want."""

    def __init__(self, view: View) -> None:
        self._nodes = view.snapshot.nodes.records
        self._by_policy: dict[str, Bools] = {}

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def looks_at_tasks(self, job: int) -> bool:
        wishes = (self._wish(task) for task in self._groups.tasks(job).tolist())
        return any(wish not in _NO_WISH for wish in wishes)

    def task_nodes(self, task: int) -> Bools:
        wish = self._wish(task)
        if wish not in self._by_policy:
            has = [wish in _NO_WISH or _policy(node) == wish for node in self._nodes]
            self._by_policy[wish] = np.array(has, dtype=np.bool_)
        return self._by_policy[wish]

    def _wish(self, task: int) -> str:
        return self._groups.pod(task).notes.get(NUMA_POLICY, "")


class _WishesAndZones(Zones, _Wishes):
    """The same, where nodes have zones."""

    def __init__(
        self,
        view: View,
        kinds: list[ZoneKind],
        ignored: frozenset[str],
        reconstructs: bool,
        weight: float,
    ) -> None:
        Zones.__init__(self, view, kinds, ignored, reconstructs, weight)
        _Wishes.__init__(self, view)


def _policy(node: NodeRecord) -> str:
    return "none" if node.numa is None else node.numa.policy
