"""Logging never fails, never waits, and counts what it drops."""

import asyncio
import errno
import io
import os
import threading
from collections.abc import Mapping

import pytest

from muster.base.log import JsonSink, Level, Log, MemorySink, TextSink, within
from muster.base.log_stream import LogStream

pytestmark = pytest.mark.timeout(30)


class Unwritable:
    """A stream on a disk that is full, or a pipe without a reader."""

    def __init__(self, code: int) -> None:
        self._code = code

    def write(self, text: str) -> int:
        raise OSError(self._code, os.strerror(self._code))

    def flush(self) -> None:
        raise AssertionError("nothing was written")


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no")


class Held:
    """A descriptor whose writes wait until somebody reads."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.written: list[bytes] = []

    def write(self, descriptor: int, data: memoryview) -> int:
        assert self.reads.wait(20)
        self.written.append(bytes(data))
        return len(data)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EPIPE])
@pytest.mark.parametrize("sink", [TextSink, JsonSink])
def test_an_event_that_cannot_be_written_is_dropped_and_counted(
    code: int, sink: type[TextSink] | type[JsonSink]
) -> None:
    log = Log("a", sink(Unwritable(code)))
    part = log.child("b")
    part.error("one", why="x")
    log.info("two")
    assert log.dropped == part.dropped == 2


def test_a_value_that_cannot_be_shown_drops_only_its_event() -> None:
    stream = io.StringIO()
    log = Log("a", TextSink(stream))
    log.info("odd", value=Unprintable())
    log.info("even", value=2)
    assert log.dropped == 1
    assert "a: even  value=2\n" in stream.getvalue()
    assert "odd" not in stream.getvalue()


def test_a_log_that_nobody_reads_keeps_nobody_waiting() -> None:
    held = Held()
    stream = LogStream(waiting_bytes_max=2_000, write=held.write)
    log = Log("a", TextSink(stream))
    for at in range(1000):
        log.info("event", number=at)
    assert 900 < log.dropped < 1000
    assert not stream.drained(within_s=0.01)
    held.reads.set()
    assert stream.drained(within_s=20)
    assert len(held.written) == 1000 - log.dropped
    log.info("again")
    assert stream.drained(within_s=20)
    assert held.written[-1].endswith(b"a: again\n")


def test_a_stream_that_fails_later_counts_what_was_lost() -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space")

    stream = LogStream(write=full)
    log = Log("a", JsonSink(stream))
    log.info("one")
    log.info("two")
    assert stream.drained(within_s=20)
    assert log.dropped == 2


def test_lines_reach_a_real_pipe_whole_and_in_order() -> None:
    reads, writes = os.pipe()
    stream = LogStream(writes)
    log = Log("a", TextSink(stream))
    sent = [f"event {at} " + "x" * 500 for at in range(100)]
    got = io.BytesIO()

    def read() -> None:
        while part := os.read(reads, 1 << 16):
            got.write(part)

    reader = threading.Thread(target=read)
    reader.start()
    for message in sent:
        log.info(message)
    assert stream.drained(within_s=20)
    os.close(writes)
    reader.join(20)
    os.close(reads)
    lines = got.getvalue().decode().splitlines()
    assert [line.partition("a: ")[2] for line in lines] == sent


class Failing:
    """A sink that raises whatever it is given."""

    def write(self, level: Level, logger: str, message: str, fields: Mapping[str, object]) -> None:
        raise RuntimeError(message)


def test_whatever_a_sink_raises_stays_in_the_log() -> None:
    log = Log("a", Failing())
    log.error("bad")
    assert log.dropped == 1


def test_the_level_of_a_log_and_all_its_children_changes_while_it_is_used() -> None:
    sink = MemorySink()
    log = Log("service", sink)
    child = log.child("part")
    child.debug("before")
    log.level = Level.DEBUG
    child.debug("after")
    child.level = Level.ERROR
    log.warning("turned down")
    assert sink.messages() == ["after"]


def test_what_happens_within_something_says_so() -> None:
    sink = MemorySink()
    log = Log("service", sink)
    with within(cycle="7"):
        log.info("inside", pods=1)
        with within(job="a"):
            log.info("deeper")
    log.info("outside")
    assert [fields for _, _, _, fields in sink.events] == [
        {"cycle": "7", "pods": 1},
        {"cycle": "7", "job": "a"},
        {},
    ]


async def test_tasks_that_begin_inside_belong_to_it() -> None:
    sink = MemorySink()
    log = Log("service", sink)

    async def work() -> None:
        log.info("later")

    with within(cycle="7"):
        task = asyncio.create_task(work())
    await task
    assert sink.events[0][3] == {"cycle": "7"}
