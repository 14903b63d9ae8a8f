"""How long binding took, and how long a pod waited for it, in milliseconds."""

from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry
from tests.support.virtual_time import LoopClock, virtually

from muster.api.core import Pod
from muster.api.meta import Key, ObjectMeta
from muster.engine.plan import Bind
from muster.model.charges import Charge
from muster.model.records import GpuRequest
from muster.services.scheduler.bind_requests import TimedBinder
from muster.services.scheduler.meters import SchedulerMeters


class _Slow:
    """A binder that takes two seconds."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock

    async def bind(
        self, pod: Pod, bind: Bind, gpu: GpuRequest, charge: Charge | None = None
    ) -> None:
        await self._clock.sleep(2.0)

    async def delete(self, request: Key, uid: str) -> bool:
        return True

    async def withdraw(self, pod: Key, pod_uid: str, node: str) -> bool:
        return True


def test_the_latencies_of_binding_are_in_milliseconds() -> None:
    async def scenario() -> None:
        clock, registry = LoopClock(), CollectorRegistry()
        created = datetime.fromtimestamp(clock.now_s() - 3.0, UTC)
        pod = Pod(metadata=ObjectMeta(name="p", creation_timestamp=created))
        binder: Any = TimedBinder(_Slow(clock), SchedulerMeters(registry), clock)
        await binder.bind(pod, Bind("p", "team/g", "n1"), GpuRequest())
        sums = [
            registry.get_sample_value(f"kai_task_{what}_latency_milliseconds_sum")
            for what in ("bind", "scheduling")
        ]
        assert [round(each or 0) for each in sums] == [2000, 5000]

    virtually(scenario())
