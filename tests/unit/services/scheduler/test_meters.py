"""What is counted for each pod group does not grow with every group that ever was."""

from prometheus_client import CollectorRegistry

from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.services.scheduler.meters import SchedulerMeters


def test_evictions_are_counted_for_the_latest_pod_groups() -> None:
    registry = CollectorRegistry()
    meters = SchedulerMeters(registry)
    for number in range(6000):
        meta = ObjectMeta(name=f"g-{number}", namespace="team", uid=f"u-{number}")
        meters.evicted(PodGroup(metadata=meta), "default", "reclaim")
    (family,) = [one for one in registry.collect() if "evicted_pods" in one.name]
    counted = [one for one in family.samples if one.name.endswith("_total")]
    assert len(counted) == 5000
    assert counted[-1].labels["podgroup"] == "g-5999"
