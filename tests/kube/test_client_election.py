"""Leader election between two processes' worth of clients on a real API server."""

import asyncio

import pytest
from tests.support.client import Client, client_of, until

from muster.api.kinds import LEASE
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.client.election import Elector, LeadershipLost, Timing
from muster.lab.chaos_proxy import ChaosProxy
from muster.lab.control_plane import ControlPlane
from muster.lab.faults import FaultScript

pytestmark = pytest.mark.kube

# Three seconds between the old leader's end and the new one's beginning: a busy machine may stall.
QUICK = Timing(lease_s=6.0, renew_s=3.0, retry_s=0.5)
# One that does not expire while anybody waits for it here.
LONG = Timing(lease_s=3600.0, renew_s=1800.0, retry_s=0.5)


def candidate(client: Client, namespace: str, name: str, timing: Timing = QUICK) -> Elector:
    log = Log(name, MemorySink())
    lease = Key(namespace, "service")
    return Elector(client.reader, client.writer, lease, name, log=log, timing=timing)


async def lead(elector: Elector) -> None:
    await elector.acquire()
    await elector.renew()


async def test_another_replica_acquires_the_lease_when_the_leader_is_cut_off(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with (
        ChaosProxy(control_plane, FaultScript(())) as proxy,
        client_of(proxy.kubeconfig()) as fragile,
        client_of(control_plane.kubeconfig()) as sound,
    ):
        first, second = (
            candidate(fragile, namespace, "first"),
            candidate(sound, namespace, "second"),
        )
        leading = asyncio.create_task(lead(first))
        await until(lambda: first.is_leader, "the first leads")
        waiting = asyncio.create_task(lead(second))
        await until(lambda: second.leader == "first", "the second sees it")

        proxy.script.away = True
        with pytest.raises(LeadershipLost):
            await leading
        assert not second.is_leader, "the old one stops before the new one starts"
        await until(lambda: second.is_leader, "the second takes over")
        lease = await sound.reader.get(LEASE, Key(namespace, "service"))
        assert lease.spec.holder_identity == "second"
        assert lease.spec.lease_transitions == 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_released_lease_is_acquired_before_it_would_expire(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with client_of(control_plane.kubeconfig()) as client:
        first = candidate(client, namespace, "first", LONG)
        second = candidate(client, namespace, "second", LONG)
        await first.acquire()
        waiting = asyncio.create_task(lead(second))
        await until(lambda: second.leader == "first", "the second sees it")
        await first.release()
        await until(lambda: second.is_leader, "the second takes over")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
