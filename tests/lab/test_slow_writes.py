"""A webhook over one namespace that takes its time: writes there are slow, others are not."""

from dataclasses import dataclass

import pytest
from tests.support.lab import POD, Lab, Setting, in_lab, pod_body

from muster.base.clock import Clock
from muster.client.kinds import plain_kind
from muster.client.transport import Request, Response, Transport
from muster.services.scheduler.options import BindRequests, Options

_NAMESPACE = plain_kind("", "v1", "Namespace", "namespaces", namespaced=False)
_TAKES_S = 29.0


@dataclass
class _Slow:
    """Between a service and the API server."""

    server: Transport
    clock: Clock

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if request.method != "GET" and "/namespaces/slow/" in request.path:
            await self.clock.sleep(_TAKES_S)
        return await self.server.send(request, timeout_s)

    async def close(self) -> None:
        await self.server.close()


@pytest.mark.parametrize("service", ["podgrouper", "binder", "scheduler"])
def test_slow_writes_of_one_namespace_hold_up_no_other(service: str) -> None:
    async def story(lab: Lab) -> None:
        await lab.queue("team", gpus=-1)
        await lab.create(_NAMESPACE, {"metadata": {"name": "slow"}})
        for number in range(80):
            body = pod_body(f"slow-{number}", 0, queue="team")
            await lab.cluster.writer.create(POD, body, "slow")
        await lab.clock.sleep(10)
        began_s = lab.clock.monotonic_s()
        await lab.pod("quick", 1, queue="team")
        await lab.until_running("quick", 1, within_s=600)
        took_s = lab.clock.monotonic_s() - began_s
        assert took_s < 15.0

    def wrap(name: str, server: Transport, clock: Clock) -> Transport:
        return _Slow(server, clock) if name == service else server

    in_lab(story, Setting(wrap=wrap, options=Options(bind_requests=BindRequests.ALWAYS)))
