"""Gauges of queues: KAI's names, so that its dashboards and fairness over time read them."""

from prometheus_client import CollectorRegistry, generate_latest

from muster.api.codec import from_builtins
from muster.api.quantity import Quantity
from muster.api.queue import Queue
from muster.services.queues.decide import Sums
from muster.services.queues.meters import LabelRule, QueueMeters


def queue(name: str, display: str = "", **labels: str) -> Queue:
    gpu = {"quota": 4, "limit": -1, "overQuotaWeight": 1}
    cpu, memory = {**gpu, "quota": 2500}, {**gpu, "quota": 8}
    resources = {"gpu": gpu, "cpu": cpu, "memory": memory}
    spec = {"displayName": display, "resources": resources}
    return from_builtins(Queue, {"metadata": {"name": name, "labels": labels}, "spec": spec})


def shown(registry: CollectorRegistry) -> set[str]:
    lines = generate_latest(registry).decode().splitlines()
    return {line for line in lines if not line.startswith("#")}


HELD = Sums(
    {"nvidia.com/gpu": Quantity("1500m"), "cpu": Quantity("2"), "memory": Quantity("1Gi")}, {}, {}
)


def test_every_queue_gauge_has_the_name_labels_and_unit_of_kai() -> None:
    registry = CollectorRegistry()
    QueueMeters(registry).show(queue("a", "Team A"), HELD)
    labels = '{queue_display_name="Team A",queue_metadata_name="a",queue_name="a"}'
    assert shown(registry) == {
        f"kai_queue_info{labels} 1.0",
        f"kai_queue_deserved_gpus{labels} 4.0",
        f"kai_queue_quota_cpu_cores{labels} 2.5",
        f"kai_queue_quota_memory_bytes{labels} 8e+06",
        f"kai_queue_allocated_gpus{labels} 1.5",
        f"kai_queue_allocated_cpu_cores{labels} 2.0",
        f"kai_queue_allocated_memory_bytes{labels} 1.073741824e+09",
    }


def test_queue_labels_become_metric_labels_and_stale_series_are_removed() -> None:
    registry = CollectorRegistry()
    meters = QueueMeters(registry, "own", [LabelRule("example.com/cost", "cost", "nobody")])
    meters.show(queue("a"), HELD)
    assert any('cost="nobody"' in line for line in shown(registry))
    meters.show(queue("a", **{"example.com/cost": "lab"}), HELD)
    assert all('cost="lab"' in line for line in shown(registry))
    meters.retain_only({})
    assert shown(registry) == set()
