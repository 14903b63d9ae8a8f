"""A pod group as accounts see it. Pure."""

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.api.quantity import Quantity
from muster.model.build import timestamp_s
from muster.numerics.axis import QUEUE_RESOURCES
from muster.services.queues.decide import gpus_allocated
from muster.usage.accrual import JobLevel

_ZERO = Quantity(0)


def job_level(group: PodGroup) -> JobLevel:
    status, notes = group.status.resources_status, group.metadata.annotations
    amounts = {
        "gpu": gpus_allocated(status.allocated),
        "cpu": status.allocated.get(names.RESOURCE_CPU, _ZERO).nano / 1e9,
        "memory": float(status.allocated.get(names.RESOURCE_MEMORY, _ZERO).value),
    }
    held = tuple(amounts.get(name, 0.0) for name in QUEUE_RESOURCES)
    since = (names.ANNOTATION_LAST_START, names.ANNOTATION_CHECKPOINT)
    known = [at_s for key in since if (at_s := timestamp_s(notes.get(key))) is not None]
    return JobLevel(
        queue=group.spec.queue,
        user=group.metadata.labels.get(names.LABEL_USER, ""),
        held=held,
        idle_gpus=amounts["gpu"] if notes.get(names.ANNOTATION_IDLE_GPUS_SINCE) else 0.0,
        is_waiting=any(amount.nano > 0 for amount in status.requested.values()) and not any(held),
        work_since_s=max(known, default=None),
        evicted_s=timestamp_s(notes.get(names.ANNOTATION_LAST_EVICTION)),
    )
