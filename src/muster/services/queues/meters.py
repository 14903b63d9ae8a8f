"""Gauges of queues under the original's names: usage-based fairness reads them back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge

from muster.api import names
from muster.api.quantity import Quantity
from muster.api.queue import UNLIMITED, Queue, QueueResources
from muster.services.queues.decide import Sums, gpus_allocated

_MEGABYTE = 10**6
_ZERO = Quantity(0)


@dataclass(frozen=True, slots=True)
class LabelRule:
    """A label of queues that becomes a label of their metrics."""

    queue_label: str
    metric_label: str
    otherwise: str = ""


@dataclass(slots=True)
class QueueMeters:
    """One series per queue and gauge; those of a queue that is gone are removed."""

    registry: CollectorRegistry
    prefix: str = names.DEFAULT.metrics_prefix
    rules: Sequence[LabelRule] = ()
    _gauges: dict[str, Gauge] = field(default_factory=dict)
    _series: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        labels = ["queue_name", "queue_metadata_name", "queue_display_name"]
        labels += [rule.metric_label for rule in self.rules]
        for name, help_ in _GAUGES.items():
            self._gauges[name] = Gauge(
                f"{self.prefix}_{name}", help_, labels, registry=self.registry
            )

    def show(self, queue: Queue, sums: Sums) -> None:
        name = queue.metadata.name
        series = self._labels(queue)
        if self._series.get(name, series) != series:
            self.forget(name)
        self._series[name] = series
        for gauge, value in _values(queue, sums).items():
            self._gauges[gauge].labels(*series).set(value)

    def forget(self, name: str) -> None:
        series = self._series.pop(name, None)
        if series is not None:
            for gauge in self._gauges.values():
                gauge.remove(*series)

    def retain_only(self, queues: Mapping[str, Queue]) -> None:
        for name in [name for name in self._series if name not in queues]:
            self.forget(name)

    def _labels(self, queue: Queue) -> tuple[str, ...]:
        name, labels = queue.metadata.name, queue.metadata.labels
        own = [labels.get(rule.queue_label, rule.otherwise) for rule in self.rules]
        return (name, name, queue.spec.display_name, *own)


_GAUGES = {
    "queue_info": "1 for every queue.",
    "queue_deserved_gpus": "Guaranteed GPUs, -1 for unlimited.",
    "queue_quota_cpu_cores": "Guaranteed CPU cores, -1 for unlimited.",
    "queue_quota_memory_bytes": "Guaranteed memory, -1 for unlimited.",
    "queue_allocated_gpus": "GPUs held now.",
    "queue_allocated_cpu_cores": "CPU cores held now.",
    "queue_allocated_memory_bytes": "Memory held now.",
}


def _values(queue: Queue, sums: Sums) -> dict[str, float]:
    resources = queue.spec.resources or QueueResources()
    held = sums.allocated
    return {
        "queue_info": 1.0,
        "queue_deserved_gpus": resources.gpu.quota,
        "queue_quota_cpu_cores": _scaled(resources.cpu.quota, 1 / 1000),
        "queue_quota_memory_bytes": _scaled(resources.memory.quota, _MEGABYTE),
        "queue_allocated_gpus": gpus_allocated(held),
        "queue_allocated_cpu_cores": round(held.get(names.RESOURCE_CPU, _ZERO).nano / 1e9, 4),
        "queue_allocated_memory_bytes": float(held.get(names.RESOURCE_MEMORY, _ZERO).value),
    }


def _scaled(quota: float, unit: float) -> float:
    return UNLIMITED if quota == UNLIMITED else quota * unit
