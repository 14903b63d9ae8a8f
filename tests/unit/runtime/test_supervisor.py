"""Services start in order, become ready when synced, and stop in the opposite order."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.history import THINGS, Fault, HistoryServer
from tests.support.small_store import SmallStore
from tests.support.virtual_time import LoopClock, virtually

from muster.api.coordination import ObjectReference
from muster.api.meta import Key
from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.election import Elector, LeadershipLost
from muster.client.errors import Deposed
from muster.client.events import Recorder
from muster.client.read import Reader
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer
from muster.runtime.parts import Loop, PartEnded, Phase
from muster.runtime.supervisor import Supervisor, run_until_signalled

LEASE = Key("system", "service")


class SupervisorHarness:
    """A server with things, leases and events, and one service on it."""

    def __init__(self, *, leads: bool = False, identity: str = "one", **settings: Any) -> None:
        self.things = HistoryServer()
        self.rest = SmallStore()
        self.clock = LoopClock()
        self.sink = MemorySink()
        self.scenario: list[str] = []
        self.settings = settings
        self.leads = leads
        self.supervisor = self.service(identity)

    async def handle(self, request: Request) -> Response:
        server = self.things if request.path.endswith("/things") else self.rest
        return await server.handle(request)

    def service(self, identity: str) -> Supervisor:
        connection = Connection(InProcessTransport(self.handle), self.clock, Rand(1))
        log = Log(identity, self.sink)
        writer = Writer(connection)
        elector = (
            Elector(Reader(connection), writer, LEASE, identity, log=log) if self.leads else None
        )
        return Supervisor(
            "service",
            connection,
            log=log,
            elector=elector,
            recorder=Recorder(writer, "service", log=log),
            **self.settings,
        )

    def tell(self, name: str, phase: Phase, supervisor: Supervisor | None = None) -> None:
        supervisor = supervisor or self.supervisor
        supervisor.add(Telling(name, self.scenario), phase)


class Telling:
    """A part that says when it begins and ends."""

    def __init__(self, name: str, scenario: list[str], linger_s: float = 0.0) -> None:
        self.name = name
        self._story = scenario
        self._stopped = asyncio.Event()
        self._linger_s = linger_s

    async def run(self) -> None:
        self._story.append(f"{self.name} begins")
        try:
            await self._stopped.wait()
            await asyncio.sleep(self._linger_s)
            self._story.append(f"{self.name} ends")
        except asyncio.CancelledError:
            self._story.append(f"{self.name} is cut off")
            raise

    def stop(self) -> None:
        self._stopped.set()


def playing(
    scene: Callable[[SupervisorHarness], Awaitable[None]], **settings: Any
) -> SupervisorHarness:
    async def run() -> SupervisorHarness:
        world = SupervisorHarness(**settings)
        await scene(world)
        return world

    return virtually(run())


async def stopped(supervisor: Supervisor, running: asyncio.Task[None]) -> None:
    supervisor.stop()
    await running


def test_parts_start_by_phase_and_stop_in_the_opposite_order() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.tell("work", Phase.LEADING)
        world.tell("cache", Phase.SYNCED)
        world.tell("httpd", Phase.SERVING)
        informer = world.supervisor.informer(THINGS)
        assert world.supervisor.informer(THINGS) is informer, "who wants the same shares it"
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(10)
        assert world.supervisor.readiness() == []
        await stopped(world.supervisor, running)
        assert world.scenario == [
            "httpd begins",
            "cache begins",
            "work begins",
            "work ends",
            "cache ends",
            "httpd ends",
        ]

    playing(scene)


@pytest.mark.row(7, 38)
def test_a_service_is_not_ready_and_does_no_work_before_its_informers_have_synced() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.things.list_faults.extend(Fault("unreachable") for _ in range(3))
        world.tell("work", Phase.LEADING)
        world.supervisor.informer(THINGS)
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(0.1)
        assert world.supervisor.readiness() == ["things.muster.test: connection refused"]
        assert world.supervisor.health() == []
        assert world.scenario == []
        await world.clock.sleep(60)
        assert world.supervisor.readiness() == []
        assert world.scenario == ["work begins"]
        await stopped(world.supervisor, running)

    playing(scene)


def test_only_the_leader_works_and_both_are_ready() -> None:
    async def scene(world: SupervisorHarness) -> None:
        one, two = world.supervisor, world.service("two")
        world.tell("work of one", Phase.LEADING, one)
        world.tell("work of two", Phase.LEADING, two)
        first = asyncio.create_task(one.run())
        await world.clock.sleep(1)
        second = asyncio.create_task(two.run())
        await world.clock.sleep(60)
        assert world.scenario == ["work of one begins"]
        assert one.readiness() == two.readiness() == []
        await stopped(one, first)
        await world.clock.sleep(6)
        assert world.scenario[1:] == ["work of one ends", "work of two begins"]
        await stopped(two, second)

    playing(scene, leads=True)


def test_a_killed_service_leaves_its_lease_to_expire() -> None:
    async def scene(world: SupervisorHarness) -> None:
        one, two = world.supervisor, world.service("two")
        one.add(Telling("stubborn", world.scenario, linger_s=500))
        world.tell("work of two", Phase.LEADING, two)
        first = asyncio.create_task(one.run())
        await world.clock.sleep(1)
        second = asyncio.create_task(two.run())
        await world.clock.sleep(60)
        one.kill()
        await first
        await world.clock.sleep(6)
        assert world.scenario == ["stubborn begins", "stubborn is cut off"]
        await world.clock.sleep(60)
        assert world.scenario[2:] == ["work of two begins"]
        await stopped(two, second)

    playing(scene, leads=True)


def test_a_lost_lease_cuts_off_the_leading_parts_at_once() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.supervisor.add(Telling("work", world.scenario, linger_s=500))
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(20)
        world.rest.away = True
        with pytest.raises(LeadershipLost):
            await running
        assert world.scenario == ["work begins", "work is cut off"]
        # Ten seconds after the last renewal (15 s) at the latest; no grace comes on top of it.
        assert world.clock.monotonic_s() <= 25

    playing(scene, leads=True)


async def _fail() -> None:
    raise RuntimeError("out of cheese")


async def _return() -> None:
    return


async def _cancel() -> None:
    raise asyncio.CancelledError


async def _write_as_nobody() -> None:
    raise ExceptionGroup("workers", [Deposed("PATCH: not sent, this process does not lead")])


async def _write_as_nobody_and_fail() -> None:
    raise ExceptionGroup("workers", [Deposed("PATCH: not sent"), RuntimeError("else")])


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (_fail, RuntimeError),
        (_return, PartEnded),
        (_cancel, PartEnded),
        (_write_as_nobody, LeadershipLost),
        (_write_as_nobody_and_fail, ExceptionGroup),
    ],
    ids=["fails", "ends", "cancels itself", "is deposed", "is deposed and fails"],
)
def test_a_part_that_ends_stops_the_service_in_order(
    work: Callable[[], Awaitable[None]], error: type[Exception]
) -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.tell("httpd", Phase.SERVING)
        world.supervisor.add(Loop("weak", work))
        with pytest.raises(error):
            await world.supervisor.run()
        assert world.supervisor.health() != []
        assert world.scenario == ["httpd begins", "httpd ends"]

    playing(scene)


class FullDisk:
    """A sink that cannot write."""

    def write(self, level: Level, logger: str, message: str, fields: object) -> None:
        raise OSError(28, "No space left on device")


class Raising(Log):
    """A log that breaks its promise never to raise."""

    def error(self, message: str, /, **fields: object) -> None:
        raise OSError(32, "Broken pipe")


@pytest.mark.parametrize("log", [Log("one", FullDisk()), Raising("one", MemorySink())])
def test_a_part_that_fails_ends_the_service_also_where_that_cannot_be_logged(log: Log) -> None:
    async def scene(world: SupervisorHarness) -> None:
        connection = Connection(InProcessTransport(world.handle), world.clock, Rand(1))
        supervisor = Supervisor("service", connection, log=log)
        supervisor.add(Loop("weak", _fail))
        async with asyncio.timeout(60):
            with pytest.raises(RuntimeError):
                await supervisor.run()
        dropped = supervisor.registry.get_sample_value("muster_log_lines_dropped")
        assert dropped == log.dropped
        assert supervisor.health() != []

    playing(scene)


def test_a_part_that_does_not_end_is_cancelled_after_the_grace_period() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.supervisor.add(Telling("stubborn", world.scenario, linger_s=500))
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(1)
        started_s = world.clock.monotonic_s()
        await stopped(world.supervisor, running)
        assert world.clock.monotonic_s() - started_s == pytest.approx(5)
        assert world.scenario == ["stubborn begins", "stubborn is cut off"]
        assert "parts did not end in time" in world.sink.messages()

    playing(scene, grace_s=5.0)


@pytest.mark.row(3)
def test_an_object_that_cannot_be_decoded_is_an_event_and_a_metric() -> None:
    async def scene(world: SupervisorHarness) -> None:
        informer = world.supervisor.informer(THINGS)
        running = asyncio.create_task(world.supervisor.run())
        world.things.write("bad", "banana")
        world.things.write("good", 1)
        await world.clock.sleep(10)
        (event,) = [obj for obj in world.rest.objects.values() if "reason" in obj]
        assert event["involvedObject"]["name"] == "bad"
        assert event["reason"] == "Unreadable"
        assert "$.size" in event["message"]
        label = {"kind": "things.muster.test"}
        value = world.supervisor.registry.get_sample_value
        assert value("muster_informer_set_aside", label) == 1
        assert value("muster_informer_objects", label) == 1
        world.things.write("bad", 2)
        await world.clock.sleep(10)
        assert value("muster_informer_set_aside", label) == 0
        assert value("muster_informer_objects", label) == 2
        assert len(informer.objects) == 2
        await stopped(world.supervisor, running)

    playing(scene)


def test_dropped_events_are_counted() -> None:
    async def scene(world: SupervisorHarness) -> None:
        recorder, value = world.supervisor.recorder, world.supervisor.registry.get_sample_value
        assert recorder is not None
        assert value("muster_events_dropped") == 0
        for number in range(10_007):
            recorder.warning(ObjectReference(kind="Thing", name=f"thing-{number}"), "Noise", "!")
        assert value("muster_events_dropped") == 7

    playing(scene)


def test_an_informer_requested_while_running_starts_at_once() -> None:
    async def scene(world: SupervisorHarness) -> None:
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(1)
        world.things.write("a", 1)
        informer = world.supervisor.informer(THINGS)
        await informer.synced()
        assert len(informer.objects) == 1
        await stopped(world.supervisor, running)

    playing(scene)


def test_sigterm_stops_a_service_gracefully() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.tell("work", Phase.LEADING)
        running = asyncio.create_task(run_until_signalled(world.supervisor))
        await world.clock.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert world.scenario == ["work begins", "work ends"]

    playing(scene)


def test_a_second_signal_cancels_before_the_grace_period_ends() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.supervisor.add(Telling("stubborn", world.scenario, linger_s=500))
        running = asyncio.create_task(run_until_signalled(world.supervisor))
        await world.clock.sleep(1)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await world.clock.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await running

    playing(scene, grace_s=100.0)


def test_a_service_without_news_for_minutes_is_not_ready_and_says_why() -> None:
    async def scene(world: SupervisorHarness) -> None:
        world.things.watch_faults.extend(Fault("unreachable") for _ in range(1000))
        world.supervisor.informer(THINGS)
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(60)
        assert world.supervisor.readiness() == [], "an API server may restart"
        await world.clock.sleep(120)
        (missing,) = world.supervisor.readiness()
        assert missing.startswith("things.muster.test: no news for ")
        assert 60 < world.supervisor.unheard(60)["things"] < 200
        assert world.supervisor.health() == [], "a new start would know less"
        world.supervisor.needs_news = False
        assert world.supervisor.readiness() == []
        world.supervisor.needs_news = True
        world.things.watch_faults.clear()
        world.things.write("one", 1)
        await world.clock.sleep(120)
        assert world.supervisor.readiness() == []
        assert world.supervisor.unheard(0) == {}
        await stopped(world.supervisor, running)

    playing(scene)


def test_a_service_that_is_asked_to_stop_takes_no_new_callers() -> None:
    async def scene(world: SupervisorHarness) -> None:
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(1)
        assert world.supervisor.readiness() == []
        world.supervisor.stop()
        assert world.supervisor.readiness() == ["stopping"]
        assert world.supervisor.health() == [], "nobody need start it anew"
        await running

    playing(scene)


def test_what_a_part_says_counts_for_readiness_and_what_is_vital_for_health() -> None:
    async def scene(world: SupervisorHarness) -> None:
        running = asyncio.create_task(world.supervisor.run())
        await world.clock.sleep(1)
        trouble = ["stuck"]
        world.supervisor.checks.append(lambda: trouble[0])
        assert world.supervisor.readiness() == ["stuck"]
        assert world.supervisor.health() == []
        world.supervisor.vital_checks.append(lambda: trouble[0])
        assert world.supervisor.health() == ["stuck"]
        trouble[0] = ""
        assert world.supervisor.readiness() == []
        await stopped(world.supervisor, running)

    playing(scene)
