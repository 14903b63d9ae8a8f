"""Past usage as metrics."""

from prometheus_client import CollectorRegistry

from muster.base.clock import VirtualClock
from muster.base.log import Log
from muster.model.usage import QueueUsage
from muster.services.scheduler.usage_meters import UsageMeters
from muster.usage.fetcher import UsageFetcher

_FETCHES = "kai_usage_query_latency_milliseconds_count"


def test_a_new_configuration_is_no_fetch_and_forgets_who_used_what() -> None:
    registry = CollectorRegistry()
    fetcher = UsageFetcher(lambda _: None, VirtualClock(), Log("usage"))
    meters = UsageMeters(registry, fetcher)

    def gpus() -> float | None:
        return registry.get_sample_value("kai_queue_gpu_usage", {"queue_name": "a"})

    meters.show(QueueUsage(1.0, {"a": {"gpu": 0.5}}))
    assert (gpus(), registry.get_sample_value(_FETCHES)) == (0.5, 1)
    meters.show(None)
    assert (gpus(), registry.get_sample_value(_FETCHES)) == (None, 1)
