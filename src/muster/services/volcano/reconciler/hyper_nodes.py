"""How many nodes are below each HyperNode: read, decide, write."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from muster.api.core import Node
from muster.api.kinds import HYPER_NODE
from muster.api.meta import Key
from muster.api.volcano import HyperNode
from muster.client.errors import NotFound
from muster.client.informer import Informer
from muster.client.write import Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.volcano.decide.hyper_nodes import outdated_counts

ALL: Final = Key("", "hyper nodes")
"""They are counted together: one may be a member of another."""


@dataclass(slots=True)
class HyperNodeReconciler:
    """Writes counts that changed."""

    _hyper_nodes: Informer[HyperNode]
    _nodes: Informer[Node]
    _writer: Writer

    async def reconcile(self, key: Key) -> Result:
        hyper_nodes = list(self._hyper_nodes.objects.values())
        if not hyper_nodes:
            return DONE
        nodes = self._nodes.objects.values()
        for name, count in outdated_counts(hyper_nodes, nodes).items():
            patch = {"status": {"nodeCount": count}}
            with suppress(NotFound):
                await self._writer.patch(HYPER_NODE, Key("", name), patch, subresource="status")
        return DONE


def all_of_them(_: object) -> Iterable[Key]:
    return (ALL,)


def is_another_node(old: Node | None, new: Node | None) -> bool:
    """Whether a change can move a node from one HyperNode to another."""
    return old is None or new is None or old.metadata.labels != new.metadata.labels
