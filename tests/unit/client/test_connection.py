"""Calls are repeated when that is safe and worth it, and only so often."""

import asyncio
from contextlib import aclosing

import pytest
from tests.support.scripted import Answer, ScriptedServer, refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.api.meta import Key
from muster.client.connection import Call, Outcome, Retry
from muster.client.errors import Deposed, Interrupted, NotFound, Throttled, Unavailable, Unreachable
from muster.client.kinds import plain_kind
from muster.client.limits import Lane, Limits
from muster.client.read import Reader
from muster.client.transport import Request
from muster.client.write import Writer

MAPS = plain_kind("", "v1", "ConfigMap", "configmaps")

_GET = Request("GET", "/x")
_READ = Call("get", "pods", retry=Retry.READ, patience_s=30.0)
_WRITE = Call("create", "pods")


def _throttle(seconds: int) -> Answer:
    return Answer(429, [b"{}"], {"retry-after": str(seconds)})


def test_a_throttled_call_with_patience_waits_for_retry_after() -> None:
    server = ScriptedServer(_throttle(7), said({"ok": 1}))

    async def run() -> float:
        clock = LoopClock()
        assert await server.connection(clock=clock).call(_GET, _READ) == b'{"ok": 1}'
        return clock.monotonic_s()

    assert 7.0 <= virtually(run()) < 7.5


def test_a_throttled_call_is_retried_a_limited_number_of_times() -> None:
    server = ScriptedServer(*[_throttle(1) for _ in range(9)])
    with pytest.raises(Throttled):
        virtually(_call(server, _READ))
    assert len(server.requests) == 5


@pytest.mark.parametrize(("asked_s", "attempts"), [(1, 2), (2, 1), (30, 1)])
def test_a_throttled_write_is_given_back_to_its_caller_within_a_second(
    asked_s: int, attempts: int
) -> None:
    server = ScriptedServer(*[_throttle(asked_s) for _ in range(9)])

    async def run() -> float:
        clock = LoopClock()
        with pytest.raises(Throttled) as error:
            await server.connection(clock=clock).call(_GET, _WRITE)
        assert error.value.is_passing
        assert error.value.retry_after_s == asked_s
        return clock.monotonic_s()

    assert virtually(run()) <= 1.0
    assert len(server.requests) == attempts


@pytest.mark.parametrize("verb", ["bind", "evict"])
def test_a_binding_and_an_eviction_are_sent_once_for_each_time_they_are_decided(verb: str) -> None:
    server = ScriptedServer(_throttle(1), said({}))
    pod = Key("team", "p")

    async def run() -> None:
        writer = Writer(server.connection())
        with pytest.raises(Throttled):
            await (writer.bind(pod, "n1") if verb == "bind" else writer.evict(pod))

    virtually(run())
    assert len(server.requests) == 1


def test_a_retry_after_beyond_the_limit_is_left_to_the_caller() -> None:
    server = ScriptedServer(_throttle(3600))
    with pytest.raises(Throttled) as error:
        virtually(_call(server, _READ))
    assert error.value.retry_after_s == 3600


def test_a_call_is_repeated_when_the_server_throttles_and_not_when_a_budget_does() -> None:
    evict = Call("evict", "pods", patience_s=1.0)
    server = ScriptedServer(_throttle(1), said({}))
    assert virtually(_call(server, evict)) == b"{}"
    cause = {"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}
    server = ScriptedServer(refused(429, "TooManyRequests", causes=[cause]))
    with pytest.raises(Throttled) as error:
        virtually(_call(server, evict))
    assert (len(server.requests), error.value.is_by_budget) == (1, True)


def test_a_list_and_a_watch_do_not_wait_behind_writes() -> None:
    async def run() -> None:
        clock = LoopClock()
        empty = {"metadata": {"name": "x", "resourceVersion": "1"}}
        server = ScriptedServer(*[said(empty) for _ in range(10_002)])
        connection = server.connection(limits=Limits(per_s=50, burst=300), clock=clock)
        post = Request("POST", "/api/v1/namespaces/here/pods/p/binding")
        bind = Call("bind", "pods", Lane.URGENT)
        writes = [asyncio.create_task(connection.call(post, bind)) for _ in range(10_000)]
        await clock.sleep(1)
        reader = Reader(connection)
        await reader.list(MAPS)
        async with aclosing(reader.watch(MAPS, resource_version="1")) as events:
            with pytest.raises(Interrupted):
                await anext(events)
        assert clock.monotonic_s() == pytest.approx(1)
        for write in writes:
            write.cancel()
        await asyncio.gather(*writes, return_exceptions=True)

    virtually(run())


def test_reads_are_retried_after_503_and_504() -> None:
    server = ScriptedServer(refused(503, "ServiceUnavailable"), refused(504, "Timeout"), said({}))
    assert virtually(_call(server, _READ)) == b"{}"


def test_reads_are_retried_after_an_interrupted_response() -> None:
    server = ScriptedServer(Answer(200, [b"{", Interrupted("reset")]), said({}))
    assert virtually(_call(server, _READ)) == b"{}"


def test_a_write_is_not_retried_after_503() -> None:
    server = ScriptedServer(refused(503, "ServiceUnavailable"), said({}))
    with pytest.raises(Unavailable):
        virtually(_call(server, _WRITE))
    assert len(server.requests) == 1


def test_every_attempt_is_observed_with_its_outcome() -> None:
    server = ScriptedServer(_throttle(1), Unreachable("refused"))
    seen: list[Outcome] = []

    async def run() -> None:
        connection = server.connection()
        connection.on_outcome = seen.append
        with pytest.raises(Unreachable):
            await connection.call(_GET, _READ)

    virtually(run())
    assert [(one.verb, one.kind, one.code) for one in seen] == [
        ("get", "pods", 429),
        ("get", "pods", 0),
    ]


def test_a_write_of_whoever_does_not_lead_is_not_handed_to_the_transport() -> None:
    """Whatever the transport asks by itself; a read is, and so is a call of the election."""

    async def scenario() -> None:
        server = ScriptedServer(said({}), said({}))
        connection = server.connection()
        connection.leads_for_s = lambda: 0.0
        with pytest.raises(Deposed, match="not sent"):
            await connection.call(Request("PATCH", "/api/v1/pods"), Call("patch", "pods"))
        assert server.requests == []
        await connection.call(Request("GET", "/api/v1/pods"), Call("get", "pods"))
        await connection.call(Request("PUT", "/lease"), Call("update", "leases", Lane.LEASE))
        assert len(server.requests) == 2

    virtually(scenario())


def test_a_stream_that_is_refused_raises_and_is_closed() -> None:
    answer = refused(404, "NotFound", "no such kind")
    server = ScriptedServer(answer)

    async def run() -> None:
        with pytest.raises(NotFound, match="no such kind"):
            await server.connection().stream(_GET, _READ)

    virtually(run())
    assert answer.closed


async def _call(server: ScriptedServer, call: Call) -> bytes:
    return await server.connection().call(_GET, call)


@pytest.mark.parametrize("informs", ["list", "watch"])
def test_lists_and_watches_go_before_other_reads(informs: str) -> None:
    """Who reads ten thousand objects one by one must not make everybody else blind."""

    async def run() -> None:
        clock = LoopClock()
        found = {"metadata": {"name": "x", "resourceVersion": "1"}}
        server = ScriptedServer(*[said(found) for _ in range(2_000)])
        connection = server.connection(limits=Limits(per_s=50, burst=1), clock=clock)
        reader = Reader(connection)
        reads = [asyncio.create_task(reader.get(MAPS, Key("here", "x"))) for _ in range(1_000)]
        await clock.sleep(1)
        if informs == "list":
            await reader.list(MAPS)
        else:
            async with aclosing(reader.watch(MAPS, resource_version="1")) as events:
                with pytest.raises(Interrupted):
                    await anext(events)
        assert clock.monotonic_s() < 1.1
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)

    virtually(run())
