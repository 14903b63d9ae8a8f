"""Writes of the scheduler that raise what nobody foresaw: a credential plugin that times out, a
token that cannot be read, an object that cannot be encoded. When it is over everything runs.
"""

import pytest
from tests.support.lab import Lab, Setting, in_lab

from muster.base.clock import Clock
from muster.client.transport import Request, Response, Transport
from muster.lab.faults import CallMatcher, observed_call
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

_PODS = 100
_NODES = (NodeGroup("gpu", count=2, gpus=Gpus(count=_PODS // 2)),)
_BINDS = CallMatcher(frozenset({"create"}), frozenset({"bindrequests"}))
_WITHDRAWALS = CallMatcher(frozenset({"create", "delete"}), frozenset({"bindrequests"}))
_READS = CallMatcher(frozenset({"create", "get"}), frozenset({"bindrequests", "pods"}))
_EVICTIONS = CallMatcher(frozenset({"create"}), frozenset({"pods/eviction"}))


class _Raising:
    """Stands before the API server and raises, as long as it is on."""

    def __init__(self, error: Exception, which: CallMatcher) -> None:
        self.is_on = False
        self.raised = 0
        self._error = error
        self._which = which

    def wrap(self, who: str, transport: Transport, _: Clock) -> Transport:
        return _RaisingTransport(self, transport) if who == "scheduler" else transport

    def strike(self, request: Request) -> None:
        is_watch = ("watch", "true") in request.query
        if self.is_on and self._which.fits(observed_call(request.method, request.path, is_watch)):
            self.raised += 1
            raise self._error


class _RaisingTransport:
    def __init__(self, raising: _Raising, inner: Transport) -> None:
        self._raising = raising
        self._inner = inner

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        self._raising.strike(request)
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    ("error", "which"),
    [
        (TimeoutError("plugin"), _BINDS),
        (ValueError("encode"), _WITHDRAWALS),
        (OSError("token"), _READS),
    ],
    ids=["binds", "withdrawals", "reads"],
)
def test_a_hundred_pods_run_when_unforeseen_errors_are_over(
    error: Exception, which: CallMatcher
) -> None:
    raising = _Raising(error, which)

    async def scenario(lab: Lab) -> None:
        raising.is_on = True
        await lab.job("work", pods=_PODS, gpus=1, minimum=1)
        await lab.clock.sleep(10.0)
        assert raising.raised > 0
        assert not await lab.running("work")
        raising.is_on = False
        await lab.until_running("work", _PODS, within_s=120.0)
        loop = lab.product.loop
        assert loop is not None
        assert loop._cache.assumptions.overdue(0.0) == []

    in_lab(scenario, Setting(nodes=_NODES, wrap=raising.wrap))


def test_victims_leave_when_unforeseen_errors_of_evictions_are_over() -> None:
    raising = _Raising(OSError("token"), _EVICTIONS)

    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=100)
        for number in range(10):
            await lab.job(f"low-{number}", pods=1, gpus=10, queue="team", priority="train")
        await lab.until_running("low", 10)
        raising.is_on = True
        await lab.job("high", pods=2, gpus=10, queue="team", priority="build")
        await lab.clock.sleep(30.0)
        assert raising.raised > 0
        assert len(await lab.running("low")) == 10
        raising.is_on = False
        await lab.until_running("high", 2, within_s=120.0)

    habits = Habits(run=Chance(mean_s=1e6))
    in_lab(scenario, Setting(nodes=_NODES, wrap=raising.wrap, habits=habits))
