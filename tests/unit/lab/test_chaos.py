import asyncio
import json
from collections.abc import AsyncGenerator, Mapping

import pytest

from muster.base.clock import VirtualClock
from muster.client.errors import Interrupted, Unreachable
from muster.client.transport import InProcessTransport, Request, Response
from muster.lab.chaos import ChaosTransport, FlowFailed, play_every_fault
from muster.lab.faults import (
    WATCHES,
    WRITE_FAULTS,
    AnswerInstead,
    CutStream,
    Delay,
    Drop,
    Fault,
    FaultRule,
    FaultScript,
    Hang,
    Kill,
    LoseAnswer,
    Refuse,
)

WRITE = Request("POST", "/api/v1/namespaces/a/pods")
WATCH = Request("GET", "/api/v1/pods", query=[("watch", "1")])


class Lines:
    """An answer in chunks that do not care where lines end."""

    status = 200
    headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for chunk in (b"one\ntw", b"o\nthree", b"3\nfour\n"):
            yield chunk

    async def close(self) -> None: ...


class Server:
    """Counts what reached it."""

    def __init__(self) -> None:
        self.reached = 0

    async def handle(self, request: Request) -> Response:
        self.reached += 1
        return Lines()


def _struck_by(fault: Fault) -> tuple[Server, ChaosTransport, VirtualClock]:
    server, clock = Server(), VirtualClock()
    script = FaultScript([FaultRule(1, fault), FaultRule(1, fault, WATCHES)])
    return server, ChaosTransport(InProcessTransport(server.handle), script, clock), clock


@pytest.mark.parametrize(
    ("fault", "reached", "status"),
    [
        (Refuse(409), 0, 409),
        (Refuse(410), 0, 410),
        (Refuse(429, retry_after_s=7), 0, 429),
        (AnswerInstead(504), 1, 504),
    ],
)
async def test_an_injected_status_is_answered_before_or_after_the_write(
    fault: Fault, reached: int, status: int
) -> None:
    server, transport, _ = _struck_by(fault)
    answer = await transport.send(WRITE)
    body = json.loads(await answer.read())
    assert (server.reached, answer.status, body["code"]) == (reached, status, status)
    if status == 429:
        assert answer.headers["retry-after"] == "7"
        assert body["details"] == {"retryAfterSeconds": 7}


@pytest.mark.parametrize(("fault", "reached"), [(Drop(), 0), (LoseAnswer(), 1)])
async def test_a_lost_response_was_written_and_a_dropped_request_was_not(
    fault: Fault, reached: int
) -> None:
    server, transport, _ = _struck_by(fault)
    with pytest.raises(Unreachable):
        await transport.send(WRITE)
    assert server.reached == reached
    assert (await transport.send(WRITE)).status == 200


async def test_a_delay_uses_the_injected_clock() -> None:
    server, transport, clock = _struck_by(Delay(30.0))
    await transport.send(WRITE)
    assert (server.reached, clock.monotonic_s()) == (1, 30.0)


async def test_a_hanging_server_is_unreachable_after_the_timeout() -> None:
    server, transport, clock = _struck_by(Hang())
    with pytest.raises(Unreachable):
        await transport.send(WRITE, timeout_s=5.0)
    assert (server.reached, clock.monotonic_s()) == (0, 5.0)


@pytest.mark.parametrize("after_write", [False, True])
async def test_the_client_is_killed_before_or_after_the_write(after_write: bool) -> None:
    server = Server()
    script = FaultScript([FaultRule(1, Kill(after_write))])

    async def service() -> None:
        transport = ChaosTransport(
            InProcessTransport(server.handle), script, VirtualClock(), on_kill=kill
        )
        await transport.send(WRITE)

    async def kill() -> None:
        running.cancel()

    running = asyncio.create_task(service())
    with pytest.raises((asyncio.CancelledError, Unreachable)):
        await running
    assert server.reached == int(after_write)


@pytest.mark.parametrize(
    ("cut", "heard"),
    [
        (CutStream(0), b""),
        (CutStream(1), b"one\n"),
        (CutStream(2), b"one\ntwo\n"),
        (CutStream(2, inside_next=True), b"one\ntwo\nthr"),
        (CutStream(0, inside_next=True), b"o"),
    ],
)
async def test_a_watch_can_be_cut_after_any_number_of_lines(cut: CutStream, heard: bytes) -> None:
    _, transport, _ = _struck_by(cut)
    got: list[bytes] = []
    with pytest.raises(Interrupted):
        await _listen(await transport.send(WATCH), got)
    assert b"".join(got) == heard


async def test_every_fault_is_injected_at_every_write_of_a_flow() -> None:
    runs: list[Server] = []

    async def write_three_times(script: FaultScript) -> None:
        runs.append(Server())
        transport = ChaosTransport(InProcessTransport(runs[-1].handle), script, VirtualClock())
        for _ in range(3):
            while True:
                try:
                    if (await transport.send(WRITE)).status == 200:
                        break
                except Unreachable:
                    pass
        assert runs[-1].reached >= 3

    assert await play_every_fault(write_three_times) == 3 * len(WRITE_FAULTS)
    assert len(runs) == 1 + 3 * len(WRITE_FAULTS)
    # Each fault that lets the write through makes the retry a second write, once per place.
    done_and_told_otherwise = sum(
        isinstance(fault, LoseAnswer | AnswerInstead) or fault == Kill(after_write=True)
        for fault in WRITE_FAULTS
    )
    assert sum(server.reached for server in runs) == 3 * (len(runs) + done_and_told_otherwise)


async def test_a_flow_that_fails_names_the_fault_and_the_write() -> None:
    async def give_up(script: FaultScript) -> None:
        transport = ChaosTransport(InProcessTransport(Server().handle), script, VirtualClock())
        for _ in range(2):
            await transport.send(WRITE)

    with pytest.raises(FlowFailed, match=r"Drop\(\) at write 1 \(create pods a\)") as failure:
        await play_every_fault(give_up, faults=[Drop()])
    assert isinstance(failure.value.__cause__, Unreachable)


async def _listen(answer: Response, heard: list[bytes]) -> None:
    async for chunk in answer.chunks():
        heard.append(chunk)
