"""build(supervisor, config): the whole object graph of the queue controller."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muster.api.kinds import NODE, POD_GROUP, QUEUE, RESOURCE_SLICE
from muster.api.names import Names
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.base.log import Log
from muster.base.offload import Offload, in_thread
from muster.client.write import Writer
from muster.runtime.parts import Loop
from muster.runtime.supervisor import Supervisor
from muster.services.queues.accounting import Accounting
from muster.services.queues.capacity_watch import CapacityWatch
from muster.services.queues.meters import LabelRule, QueueMeters
from muster.services.queues.reconciler import QueueReconciler, tree_of
from muster.services.queues.usage_copy import UsageCopy
from muster.usage.store import RETENTION_S, SIZE_MAX_BYTES, StoreBounds


@dataclass(frozen=True, slots=True)
class QueueServiceConfig:
    names: Names = field(default_factory=Names)
    label_rules: Sequence[LabelRule] = ()
    usage_store: Path | None = None
    """The file that past usage and accounts are kept in; None: they are not."""
    usage_retention_s: float = RETENTION_S
    usage_size_max_bytes: int = SIZE_MAX_BYTES
    usage_in_cluster: bool = False
    """Whether each day of it is kept in a ConfigMap, too."""
    offload: Offload = in_thread
    """Where the file is written."""


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
    capacity = CapacityWatch(
        supervisor.informer(NODE),
        supervisor.informer(RESOURCE_SLICE, is_optional=True),
        supervisor.registry,
        config.names.metrics_prefix,
    )
    if config.usage_store is not None:
        log = supervisor.log.child("accounting")
        accounting = Accounting(
            config.usage_store,
            StoreBounds(config.usage_retention_s, config.usage_size_max_bytes),
            queues,
            groups,
            capacity,
            supervisor.clock,
            log,
            config.offload,
            _copy(supervisor, config, log) if config.usage_in_cluster else None,
        )
        supervisor.add(Loop(accounting.name, accounting.run))


def _copy(supervisor: Supervisor, config: QueueServiceConfig, log: Log) -> UsageCopy:
    writer = Writer(supervisor.connection, "muster-queues")
    return UsageCopy(supervisor.reader, writer, config.names.namespace, log, config.offload)


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
