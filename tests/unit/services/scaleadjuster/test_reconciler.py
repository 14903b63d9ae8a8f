"""What the scale adjuster asks the API server for, and what a look at the cluster costs it."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.scheduler_world import FakeServer
from tests.support.virtual_time import LoopClock, virtually
from tests.unit.services.scaleadjuster.test_decide import SETTINGS, made, pod

from muster.api.codec import Changed, Status
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.derived import Derived
from muster.client.errors import NotFound
from muster.client.read import Reader
from muster.client.transport import InProcessTransport
from muster.client.write import Deletion
from muster.runtime.parts import ended
from muster.runtime.supervisor import Supervisor
from muster.services.scaleadjuster import reconciler
from muster.services.scaleadjuster.decide import ScalingDecision
from muster.services.scaleadjuster.reconciler import CLUSTER, ScaleAdjuster
from muster.services.scaleadjuster.wiring import ScaleAdjusterServiceConfig, build


class Deletions:
    """A writer that notes what is deleted, and that all of it has gone already."""

    def __init__(self) -> None:
        self.made: list[tuple[Key, Deletion]] = []

    async def delete(self, kind: Any, key: Key, deletion: Deletion) -> None:
        self.made.append((key, deletion))
        raise NotFound(Status(code=404, reason="NotFound"))


def connection() -> Connection:
    return Connection(InProcessTransport(FakeServer().handle), LoopClock(), Rand(1))


def copies(pods: Iterable[Pod]) -> Derived[Pod]:
    found = Derived(Reader(connection()), POD, Log("t", MemorySink()))
    for one in pods:
        found.put(one.key, one)
    return found


def adjuster(pods: Iterable[Pod], neighbours: Iterable[Pod], writer: Any) -> ScaleAdjuster:
    log = Log("t", MemorySink())
    return ScaleAdjuster(copies(pods), copies(neighbours), writer, LoopClock(), SETTINGS, log)


def test_a_scaling_pod_is_deleted_as_the_one_that_was_seen() -> None:
    """Another may have been made under its name since, and may be needed."""

    async def scenario() -> None:
        leftover = made(pod("p", gpu_fraction="0.5"))
        writer = Deletions()
        await adjuster([], [leftover], writer).reconcile(CLUSTER)
        assert writer.made == [(leftover.key, Deletion(uid="uid-of-p"))]

    virtually(scenario())


def test_only_pods_that_wait_for_shares_or_have_scaling_pods_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[set[str]] = []

    def noted(pods: Iterable[Pod], *_: Any) -> ScalingDecision:
        looked_at.append({one.metadata.name for one in pods})
        return ScalingDecision()

    monkeypatch.setattr(reconciler, "decide", noted)

    async def scenario() -> None:
        served = pod("served", schedulable="True", gpu_fraction="0.5")
        plain = [pod(f"plain-{number}") for number in range(1000)]
        pods = [*plain, served, pod("waits", gpu_fraction="0.5")]
        await adjuster(pods, [made(served)], Deletions()).reconcile(CLUSTER)

    virtually(scenario())
    assert looked_at == [{"served", "waits"}]


def test_pods_that_come_at_once_are_one_look() -> None:
    async def scenario() -> float | None:
        supervisor = Supervisor("scaling", connection(), log=Log("t", MemorySink()))
        build(supervisor, ScaleAdjusterServiceConfig())
        parts = [asyncio.create_task(part.run()) for _, part in supervisor._parts]
        await asyncio.sleep(1.0)
        (pods, _) = supervisor._informers._shared.values()
        for number in range(100):
            pods._apply(Changed("ADDED", pod(f"p{number}")))
            await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        await ended(parts)
        labels = {"controller": "scaleadjuster", "result": "success"}
        return supervisor.registry.get_sample_value("controller_runtime_reconcile_total", labels)

    assert virtually(scenario()) == 1
