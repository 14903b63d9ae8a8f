"""build(supervisor, config): the whole object graph of the queue controller."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.api.kinds import POD_GROUP, QUEUE
from muster.api.names import Names
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.client.write import Writer
from muster.runtime.supervisor import Supervisor
from muster.services.queues.meters import LabelRule, QueueMeters
from muster.services.queues.reconciler import QueueReconciler, tree_of


@dataclass(frozen=True, slots=True)
class QueueServiceConfig:
    names: Names = field(default_factory=Names)
    label_rules: Sequence[LabelRule] = ()


def build(supervisor: Supervisor, config: QueueServiceConfig) -> None:
    queues, groups = supervisor.informer(QUEUE), supervisor.informer(POD_GROUP)
    reconciler = QueueReconciler(
        queues,
        groups,
        Writer(supervisor.connection, "muster-queues"),
        supervisor.clock,
        QueueMeters(supervisor.registry, config.names.metrics_prefix, config.label_rules),
    )
    controller = supervisor.controller("queues", reconciler)
    controller.watch(queues, tree_of, _queue_matters)
    controller.watch(groups, tree_of, _group_matters)


def _queue_matters(old: Queue | None, new: Queue | None) -> bool:
    """Our own status writes come back as events; they change nothing that we read."""
    if old is None or new is None:
        return True
    same_labels = old.metadata.labels == new.metadata.labels
    return old.spec != new.spec or old.status != new.status or not same_labels


def _group_matters(old: PodGroup | None, new: PodGroup | None) -> bool:
    if old is None or new is None:
        return True
    return (
        old.spec.queue != new.spec.queue
        or old.status.resources_status != new.status.resources_status
    )
