"""Events: repeats are counted, bursts are rate limited, and the caller never waits."""

import asyncio
from typing import Any

import pytest
from tests.support.small_store import SmallStore
from tests.support.virtual_time import SetClock, virtually

from muster.api.coordination import ObjectReference
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.events import EventLimits, Recorder, reference_to
from muster.client.kinds import plain_kind
from muster.client.transport import InProcessTransport, Request, Response
from muster.client.write import Writer

POD = ObjectReference(api_version="v1", kind="Pod", namespace="here", name="p", uid="u1")


class Recorded:
    def __init__(self, **discretion: Any) -> None:
        self.store = SmallStore()
        self.clock = SetClock()
        connection = Connection(InProcessTransport(self.store.handle), self.clock, Rand(1))
        self.recorder = Recorder(
            Writer(connection),
            "binder",
            log=Log("t", MemorySink()),
            discretion=EventLimits(**discretion),
        )

    def events(self) -> list[dict[str, Any]]:
        return list(self.store.objects.values())

    def told(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.events()]


def test_an_event_names_its_source_reason_and_involved_object() -> None:
    async def run() -> None:
        recorded = Recorded()
        recorded.recorder.warning(POD, "NoRoom", "no node has enough idle GPUs")
        await recorded.recorder.flush()
        (event,) = recorded.events()
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "here",
            "name": "p",
            "uid": "u1",
        }
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "NoRoom", 1)
        assert event["source"] == {"component": "binder"}
        assert event["metadata"]["name"].startswith("p.")

    virtually(run())


def test_slow_writes_of_one_namespace_hold_up_no_events_of_others() -> None:
    """A webhook there takes half a minute for each, and there are as many as its tenant likes."""

    async def run() -> None:
        recorded = Recorded()
        at_once = recorded.store.handle
        writing = most = 0

        async def handle(request: Request) -> Response:
            nonlocal writing, most
            if "/namespaces/slow/" in request.path:
                writing += 1
                most = max(most, writing)
                await recorded.clock.sleep(29)
                writing -= 1
            return await at_once(request)

        recorder = recorded.recorder
        recorder._writer = Writer(Connection(InProcessTransport(handle), recorded.clock, Rand(1)))
        telling = asyncio.create_task(recorder.run())
        for number in range(5):
            slow = ObjectReference(kind="Pod", namespace="slow", name=f"s{number}")
            recorder.normal(slow, "Waiting", "for the webhook")
        recorder.normal(POD, "Waiting", "for nobody")
        await recorded.clock.sleep(3)
        assert recorded.told() == [("for nobody", 1)]
        recorder.normal(POD, "Bound", "to a node")
        await recorded.clock.sleep(1)
        assert recorded.told()[1:] == [("to a node", 1)]
        await recorded.clock.sleep(5 * 29)
        assert len(recorded.told()) == 7
        assert most == 1
        recorder.normal(slow, "Waiting", "still")
        await recorded.clock.sleep(5)
        telling.cancel()
        await recorded.clock.sleep(60)
        assert len(recorded.told()) == 7, "nothing is written by who was ended"

    virtually(run())


def test_events_are_written_side_by_side_and_in_order_about_each_object() -> None:
    """A server that takes a while for each would tell of the last of many pods long after it."""

    async def run() -> None:
        recorded = Recorded()
        at_once = recorded.store.handle
        writing = most = 0

        async def handle(request: Request) -> Response:
            nonlocal writing, most
            writing += 1
            most = max(most, writing)
            await recorded.clock.sleep(1.5 if b'"message":"Bound"' in request.body else 0.5)
            writing -= 1
            return await at_once(request)

        recorder = recorded.recorder
        recorder._writer = Writer(Connection(InProcessTransport(handle), recorded.clock, Rand(1)))
        for what in ("Waiting", "Bound", "Left"):
            recorder.normal(POD, what, what)
        for number in range(33):
            one = ObjectReference(kind="Pod", namespace="here", name=f"p{number}")
            recorder.normal(one, "Bound", "to a node")
        started_s = recorded.clock.monotonic_s()
        await recorder.flush()
        assert most == 8
        assert recorded.clock.monotonic_s() - started_s < 36 * 0.5 / 4
        about_one = [message for message, _ in recorded.told() if message != "to a node"]
        assert about_one == ["Waiting", "Bound", "Left"]
        assert len(recorded.told()) == 36

    virtually(run())


@pytest.mark.row(169)
def test_a_repeated_event_increments_its_count() -> None:
    async def run() -> None:
        recorded = Recorded()
        for _ in range(3):
            recorded.recorder.normal(POD, "Waiting", "in the queue")
        await recorded.recorder.flush()
        assert recorded.told() == [("in the queue", 3)]
        await recorded.clock.sleep(60)
        recorded.recorder.normal(POD, "Waiting", "in the queue")
        await recorded.recorder.flush()
        (event,) = recorded.events()
        assert event["count"] == 4
        assert event["firstTimestamp"] < event["lastTimestamp"]

    virtually(run())


def test_an_event_that_expired_on_the_server_is_created_again() -> None:
    async def run() -> None:
        recorded = Recorded()
        recorded.recorder.normal(POD, "Waiting", "in the queue")
        await recorded.recorder.flush()
        recorded.store.objects.clear()
        recorded.recorder.normal(POD, "Waiting", "in the queue")
        await recorded.recorder.flush()
        assert recorded.told() == [("in the queue", 1)]

    virtually(run())


def test_what_tenants_wrote_into_a_message_moves_nobodys_cursor() -> None:
    async def run() -> None:
        recorded = Recorded()
        recorded.recorder.warning(POD, "Held", "on hold: \x1b[2J\u202erotartsinimda")
        await recorded.recorder.flush()
        assert recorded.told() == [("on hold: \\x1b[2J\\u202erotartsinimda", 1)]

    virtually(run())


@pytest.mark.row(169)
def test_many_messages_of_one_reason_are_combined() -> None:
    async def run() -> None:
        recorded = Recorded(distinct_messages=2)
        for number in range(5):
            recorded.recorder.normal(POD, "Waiting", f"place {number}")
        await recorded.recorder.flush()
        assert recorded.told() == [
            ("place 0", 1),
            ("place 1", 1),
            ("(combined from similar events): place 4", 3),
        ]

    virtually(run())


@pytest.mark.row(169)
def test_events_of_one_object_are_rate_limited() -> None:
    async def run() -> None:
        recorded = Recorded(burst=3, one_more_every_s=300.0)
        for _ in range(10):
            recorded.recorder.normal(POD, "Waiting", "in the queue")
            await recorded.recorder.flush()
        assert recorded.told() == [("in the queue", 3)]
        assert recorded.recorder.dropped == 7
        await recorded.clock.sleep(301)
        recorded.recorder.normal(POD, "Waiting", "in the queue")
        await recorded.recorder.flush()
        assert recorded.told() == [("in the queue", 4)]

    virtually(run())


@pytest.mark.row(169)
@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_drops_no_event_and_silences_nobody(by_s: float) -> None:
    async def run() -> None:
        recorded = Recorded(burst=1, one_more_every_s=300.0)
        recorded.recorder.normal(POD, "R", "before")
        recorded.clock.set_by_s = by_s
        await recorded.recorder.flush()
        await recorded.clock.sleep(290.0)
        recorded.recorder.normal(POD, "R", "too soon")
        await recorded.clock.sleep(11.0)
        recorded.recorder.normal(POD, "R", "after")
        await recorded.recorder.flush()
        assert recorded.told() == [("before", 1), ("after", 1)]

    virtually(run())


def test_the_event_buffer_is_bounded_while_the_server_is_unavailable() -> None:
    async def run() -> None:
        recorded = Recorded(buffered=4)
        for number in range(10):
            about = ObjectReference(
                kind="Pod", namespace="here", name=f"p{number}", uid=str(number)
            )
            recorded.recorder.normal(about, "Waiting", "in the queue")
        assert recorded.recorder.dropped == 6
        recorded.store.away = True
        await recorded.recorder.flush()
        assert recorded.recorder.dropped == 10

    virtually(run())


def test_an_event_that_cannot_be_written_for_whatever_reason_is_dropped_alone() -> None:
    async def run() -> None:
        recorded = Recorded()
        store, broken = recorded.store, [TypeError("codec")]

        async def handle(request: Request) -> Response:
            if broken:
                raise broken.pop()
            return await store.handle(request)

        writer = Writer(Connection(InProcessTransport(handle), recorded.clock, Rand(1)))
        recorder = Recorder(writer, "binder", log=Log("t", MemorySink()))
        for name in ("a", "b"):
            about = ObjectReference(kind="Pod", namespace="here", name=name, uid=name)
            recorder.normal(about, "Waiting", f"{name} waits")
        await recorder.flush()
        assert recorder.dropped == 1
        assert recorded.told() == [("b waits", 1)]

    virtually(run())


def test_an_event_about_a_node_is_truncated_and_stored_in_the_default_namespace() -> None:
    async def run() -> None:
        recorded = Recorded()
        nodes = plain_kind("", "v1", "Node", "nodes", namespaced=False)
        node = {"metadata": {"name": "n1", "uid": "u"}}
        recorded.recorder.normal(reference_to(nodes, node), "Full", "x" * 3000)
        await recorded.recorder.flush()
        (path,) = recorded.store.objects
        assert path.startswith("/api/v1/namespaces/default/events/n1.")
        assert len(recorded.events()[0]["message"]) == 1024

    virtually(run())
