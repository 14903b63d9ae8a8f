"""Which nodes, queues and pod groups are ours: those of one node pool. Pure."""

from dataclasses import dataclass

from muster.api import names
from muster.api.core import Node
from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.model.build import is_up_for_scheduling
from muster.services.scheduler.options import Options


@dataclass(frozen=True, slots=True)
class Shard:
    """What is labelled with the pool that this scheduler serves; without a pool, what has none."""

    options: Options

    def has(self, metadata: ObjectMeta) -> bool:
        label = self.options.names.node_pool_label
        if not label:
            return True
        return metadata.labels.get(label, "") == self.options.shard

    def has_work(self, metadata: ObjectMeta) -> bool:
        """Of a group or a queue. Other systems know no node pools: theirs carry no label."""
        has_none = not metadata.labels.get(self.options.names.node_pool_label)
        return self.has(metadata) or (self.options.takes_unlabelled and has_none)

    def has_node(self, node: Node) -> bool:
        if not self.has(node.metadata):
            return False
        labels = node.metadata.labels
        is_worker = names.LABEL_CPU_WORKER in labels or names.LABEL_GPU_WORKER in labels
        return is_worker or not self.options.restrict_node_scheduling

    def schedules(self, group: PodGroup) -> bool:
        """Whether it is ours and not parked."""
        label = self.options.names.node_pool_label
        return self.has_work(group.metadata) and is_up_for_scheduling(group, label)
