"""Nobody writes who does not lead: asked before each write, whatever happened before it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from tests.support.scripted import refused, said
from tests.support.small_store import SmallStore
from tests.support.virtual_time import LoopClock, virtually

from muster.api.coordination import ObjectReference
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.errors import ApiError, Deposed, Unreachable
from muster.client.events import Recorder
from muster.client.kinds import plain_kind
from muster.client.limits import UNLIMITED, Lane, Limits
from muster.client.read import Reader
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer
from muster.runtime.parts import Loop
from muster.runtime.supervisor import Supervisor

MAPS = plain_kind("", "v1", "ConfigMap", "configmaps")
REVIEWS = plain_kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
LEASE = Key("system", "service")


class OwnClock(LoopClock):
    """A clock that can be ahead of what a process has noticed: it was frozen meanwhile."""

    frozen_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.frozen_s


class Replica:
    """One of several processes of a service, whose leader writes a config map every second."""

    def __init__(self, store: SmallStore, name: str, limits: Limits = UNLIMITED) -> None:
        self.store = store
        self.name = name
        self.clock = OwnClock()
        self.hold: Callable[[Request], Awaitable[None]] | None = None
        self.sent: list[tuple[float, Request]] = []
        connection = Connection(
            InProcessTransport(self._handle), self.clock, Rand(len(name)), limits=limits
        )
        log = Log(name, MemorySink())
        self.writer = Writer(connection)
        self.elector = Elector(Reader(connection), self.writer, LEASE, name, log=log)
        self.recorder = Recorder(self.writer, "service", log=log)
        self.supervisor = Supervisor(
            "service", connection, log=log, elector=self.elector, recorder=self.recorder
        )
        self.supervisor.add(Loop("work", self._work))
        self.written = 0

    def changes_after(self, moment_s: float) -> list[Request]:
        """What it sent since then that changes the cluster, leases aside."""
        return [
            request
            for sent_s, request in self.sent
            if sent_s > moment_s and request.method != "GET" and "/leases" not in request.path
        ]

    async def _handle(self, request: Request) -> Response:
        if self.hold is not None:
            await self.hold(request)
        request.check()
        self.sent.append((asyncio.get_running_loop().time(), request))
        return await self.store.handle(request)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(1)
            # Contained, as services do: one write that fails must not end the part.
            with contextlib.suppress(ApiError, Unreachable):
                await self.write()

    async def write(self) -> None:
        self.written += 1
        body = {"metadata": {"name": f"{self.name}-{self.written}"}}
        await self.writer.create(MAPS, body, "here")


async def both_run(one: Replica, two: Replica) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
    """The first one leads."""
    first = asyncio.create_task(one.supervisor.run())
    await asyncio.sleep(1)
    second = asyncio.create_task(two.supervisor.run())
    await asyncio.sleep(20)
    assert (one.elector.is_leader, two.elector.is_leader) == (True, False)
    return first, second


async def stop(replica: Replica, running: asyncio.Task[None]) -> None:
    replica.supervisor.stop()
    await running


def test_a_process_that_was_frozen_sends_no_write_after_it_is_thawed() -> None:
    async def run() -> None:
        store = SmallStore()
        one, two = Replica(store, "one"), Replica(store, "two")
        first, second = await both_run(one, two)
        frozen_s = asyncio.get_running_loop().time()
        one.clock.frozen_s = 60.0
        with pytest.raises(Deposed):
            await first
        assert one.changes_after(frozen_s) == []
        await asyncio.sleep(30)
        assert two.elector.is_leader
        assert two.changes_after(frozen_s) != []
        await stop(two, second)

    virtually(run())


def test_nobody_writes_after_another_leads_however_slow_the_network_is() -> None:
    async def run() -> None:
        store = SmallStore()
        one, two = Replica(store, "one"), Replica(store, "two")
        first, second = await both_run(one, two)

        async def cut_off(request: Request) -> None:
            """Its writes reach the server a minute late, its lease not at all."""
            if "/leases" in request.path:
                raise Unreachable("cut off")
            await asyncio.sleep(60)

        one.hold = cut_off
        cut_s = asyncio.get_running_loop().time()
        with pytest.raises(Deposed):
            await first
        assert asyncio.get_running_loop().time() - cut_s <= 10
        while not two.elector.is_leader:
            await two.clock.sleep(0.1)
        led_s = asyncio.get_running_loop().time()
        await asyncio.sleep(120)
        assert one.changes_after(led_s) == []
        await stop(two, second)

    virtually(run())


def test_a_write_that_waits_for_its_turn_is_not_sent_when_leadership_has_ended() -> None:
    async def run() -> None:
        replica = Replica(SmallStore(), "one", Limits(per_s=1.0, burst=1))
        await replica.elector.acquire()
        writes = [asyncio.create_task(replica.write()) for _ in range(30)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert sum(result is None for result in results) == 10
        assert {type(result) for result in results[10:]} == {Deposed}
        assert len(replica.changes_after(-1)) == 10

    virtually(run())


def test_a_throttled_write_is_not_repeated_when_leadership_has_ended() -> None:
    async def run() -> None:
        replica = Replica(SmallStore(), "one")
        await replica.elector.acquire()
        asked: list[Request] = []

        async def throttle(request: Request) -> Response:
            asked.append(request)
            return refused(429, "TooManyRequests", retryAfterSeconds=1)

        await replica.clock.sleep(9.5)
        replica.store.handle = throttle  # type: ignore[method-assign]
        with pytest.raises(Deposed, match="not sent, this process does not lead"):
            await replica.write()
        assert len(asked) == 1

    virtually(run())


def test_a_write_on_its_way_is_given_up_when_leadership_ends() -> None:
    async def run() -> None:
        replica = Replica(SmallStore(), "one")
        await replica.elector.acquire()

        async def slow(_: Request) -> None:
            await replica.clock.sleep(25)

        replica.hold = slow
        with pytest.raises(Deposed, match="no answer while this process led"):
            await replica.write()
        assert replica.clock.monotonic_s() == pytest.approx(10)
        assert replica.changes_after(-1) == []

    virtually(run())


def test_a_replica_that_does_not_lead_may_read_and_ask_who_its_visitor_is() -> None:
    async def run() -> None:
        replica = Replica(SmallStore(), "one")
        with pytest.raises(Deposed):
            await replica.write()
        body = {"metadata": {"name": "who"}, "spec": {"token": "abc"}}
        await replica.writer.create(REVIEWS, body)
        await replica.supervisor.reader.get(REVIEWS, Key("", "who"))
        lease = {"metadata": {"name": "other"}}
        await replica.writer.create(MAPS, lease, "here", lane=Lane.LEASE)

    virtually(run())


def test_a_lease_that_is_lost_while_parts_finish_cuts_them_off() -> None:
    async def run() -> None:
        store = SmallStore()
        replica = Replica(store, "one")
        running = asyncio.create_task(replica.supervisor.run())
        stubborn = asyncio.Event()

        class Stubborn:
            name = "stubborn"

            async def run(self) -> None:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    stubborn.set()
                    raise

            def stop(self) -> None:
                """It goes on."""

        replica.supervisor.add(Stubborn())
        await asyncio.sleep(20)
        replica.supervisor.stop()
        await asyncio.sleep(1)
        assert replica.elector.is_leader, "what was begun is finished as the leader"
        store.objects["/apis/coordination.k8s.io/v1/namespaces/system/leases/service"]["spec"][
            "holderIdentity"
        ] = "thief"
        stopped_s = asyncio.get_running_loop().time()
        await asyncio.wait_for(stubborn.wait(), 6)
        assert asyncio.get_running_loop().time() - stopped_s < 6
        await running

    virtually(run())


def test_the_lease_is_let_go_after_the_last_write() -> None:
    async def run() -> None:
        store = SmallStore()
        replica = Replica(store, "one")
        running = asyncio.create_task(replica.supervisor.run())
        await asyncio.sleep(20)
        about = ObjectReference(kind="Pod", namespace="here", name="p")
        replica.recorder.warning(about, "Late", "said in the last moment")
        await stop(replica, running)
        paths = [request.path for _, request in replica.sent if request.method != "GET"]
        assert "/events" in paths[-2]
        assert "/leases/" in paths[-1]
        assert replica.store.objects[paths[-1]]["spec"].get("holderIdentity") is None

    virtually(run())


def test_events_of_a_replica_wait_until_it_leads_and_old_ones_are_dropped() -> None:
    async def run() -> None:
        store = SmallStore()
        one, two = Replica(store, "one"), Replica(store, "two")
        first, second = await both_run(one, two)
        about = ObjectReference(kind="Pod", namespace="here", name="p")
        two.recorder.warning(about, "Old", "no news")
        await asyncio.sleep(700)
        two.recorder.warning(about, "New", "news")
        await asyncio.sleep(5)
        assert two.changes_after(-1) == []
        await stop(one, first)
        await asyncio.sleep(10)
        said_now = [obj["reason"] for obj in store.objects.values() if "reason" in obj]
        assert said_now == ["New"]
        assert two.recorder.dropped == 1
        await stop(two, second)

    virtually(run())


def test_the_leader_is_lost_at_once_when_another_holds_the_lease() -> None:
    async def run() -> None:
        store = SmallStore()
        replica = Replica(store, "one")
        running = asyncio.create_task(replica.supervisor.run())
        await asyncio.sleep(20)
        (lease,) = [obj for path, obj in store.objects.items() if "/leases/" in path]
        lease["spec"]["holderIdentity"] = "thief"
        with pytest.raises(LeadershipLost, match="thief leads"):
            await running
        assert lease["spec"]["holderIdentity"] == "thief", "it is not ours to release"

    virtually(run())


class Careless:
    """A transport that asks nobody before it sends."""

    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        self.sent.append(request)
        return said({"metadata": {"name": "made"}})

    async def close(self) -> None:
        """Nothing is open."""


def test_a_connection_hands_no_write_to_a_transport_when_it_does_not_lead() -> None:
    async def run() -> None:
        transport = Careless()
        connection = Connection(transport, LoopClock(), Rand(1))
        connection.leads_for_s = lambda: 0.0
        with pytest.raises(Deposed, match="not sent, this process does not lead"):
            await Writer(connection).create(MAPS, {"metadata": {"name": "made"}}, "here")
        assert transport.sent == []

    virtually(run())


def test_a_transport_may_ask_right_before_it_sends_and_is_told_of_a_lease_lost_since() -> None:
    async def run() -> None:
        transport = Careless()
        connection = Connection(transport, LoopClock(), Rand(1))
        connection.leads_for_s = lambda: 5.0
        await Writer(connection).create(MAPS, {"metadata": {"name": "made"}}, "here")
        (request,) = transport.sent
        request.check()
        connection.leads_for_s = lambda: 0.0
        with pytest.raises(Deposed, match="not sent, this process does not lead"):
            request.check()

    virtually(run())
