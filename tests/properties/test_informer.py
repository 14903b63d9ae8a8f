"""Whatever happens to lists and watches, the handlers see the history of the server."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.history import THINGS, Fault, HistoryServer, Thing
from tests.support.recording_handler import RecordingHandler
from tests.support.virtual_time import LoopClock, virtually

from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import Reader
from muster.client.transport import InProcessTransport

names = st.sampled_from(["a", "b", "c", "d", "e"])

changes = st.one_of(
    st.tuples(st.just("write"), names, st.integers(0, 9)),
    st.tuples(st.just("spoil"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("recreate"), names, st.sampled_from([1, "banana"])),
    st.tuples(st.just("pass by")),
)

steps = st.one_of(
    changes,
    # The server is away while things change, and remembers nothing of it when it is back.
    st.tuples(st.just("outage"), st.lists(changes, max_size=6)),
    st.tuples(st.just("drop")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("settle"), st.sampled_from([0.0, 0.01, 3.0, 100.0])),
    st.tuples(
        st.just("list fault"), st.sampled_from(["unreachable", "throttled", "unavailable", "cut"])
    ),
    st.tuples(
        st.just("watch fault"),
        st.sampled_from(
            ["unreachable", "throttled", "unavailable", "forgotten", "cut", "break", "end", "gone"]
        ),
        st.integers(0, 3),
    ),
)


def happen(server: HistoryServer, step: tuple[Any, ...]) -> None:
    match step:
        case ("write", name, size):
            server.write(name, size)
        case ("spoil", name):
            server.write(name, "banana")
        case ("delete", name):
            server.delete(name)
        case ("recreate", name, size):
            server.delete(name)
            server.write(name, size)
        case ("pass by",):
            server.pass_by()
        case ("compact",):
            server.compact()
        case ("drop",):
            server.drop()
        case ("outage", during):
            server.drop()
            server.pass_by()
            for change in during:
                happen(server, change)
            server.compact()
        case ("list fault", what):
            server.list_faults.append(Fault(what))
        case ("watch fault", what, after):
            server.watch_faults.append(Fault(what, after))
        case _:
            raise AssertionError(f"unknown step: {step}")


async def live(
    server: HistoryServer, script: list[tuple[Any, ...]]
) -> tuple[RecordingHandler[Thing], Informer[Thing]]:
    clock = LoopClock()
    connection = Connection(InProcessTransport(server.handle), clock, Rand(7))
    sink = MemorySink()
    informer = Informer(Reader(connection, page_size=2), THINGS, log=Log("t", sink))
    scenario: RecordingHandler[Thing] = RecordingHandler()
    informer.add_handler(scenario.handle)
    running = asyncio.create_task(informer.run())
    for step in script:
        if step[0] == "settle":
            await clock.sleep(step[1])
        else:
            if step[0] == "outage":
                await clock.sleep(100.0)
            happen(server, step)
    # Faults are finite: touch the server until they are used up and everything has been heard.
    for _ in range(100):
        if informer.reflector.resource_version == str(server.version):
            break
        await clock.sleep(60)
        if informer.reflector.resource_version != str(server.version):
            server.write("last", 1)
            await clock.sleep(60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert "handler failed" not in sink.messages(), sink.events
    return scenario, informer


@pytest.mark.row(3)
@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=30))
def test_an_informer_ends_equal_to_the_server_and_repeats_or_reorders_no_version(
    script: list[tuple[Any, ...]],
) -> None:
    server = HistoryServer()
    scenario, informer = virtually(live(server, script))
    assert informer.has_synced

    readable = {name: one for name, one in server.stored.items() if isinstance(one.size, int)}
    spoiled = set(server.stored) - set(readable)
    for name, one in readable.items():
        known = scenario.by_name(name)
        assert (known.metadata.resource_version, known.size) == (str(one.version), one.size)
    # What is left beside them are last readable versions of objects that were spoiled since.
    for name in {key.name for key in scenario.known} - set(readable):
        assert scenario.by_name(name).metadata.uid == server.stored[name].uid
    assert {key.name for key in informer.set_aside} == spoiled
    assert dict(informer.objects) == scenario.known

    truth = {(one.name, one.version) for one in server.history}
    for key, told in scenario.changes.items():
        versions = [version for what, version in told if what == "SEEN"]
        assert versions == sorted(set(versions)), "each version once, in order"
        assert {(key.name, version) for version in versions} <= truth, "nothing is made up"


@pytest.mark.row(3)
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        steps.filter(
            lambda step: step[0] not in ("compact", "spoil", "outage") and "banana" not in step
        ),
        max_size=30,
    )
)
def test_without_compaction_every_single_change_reaches_the_handler(
    script: list[tuple[Any, ...]],
) -> None:
    script = [
        step
        for step in script
        if step[:2] not in (("watch fault", "gone"), ("watch fault", "forgotten"))
    ]
    server = HistoryServer()
    scenario, informer = virtually(live(server, script))
    assert informer.reflector.lists <= 1 + sum(step[0] == "list fault" for step in script)
    # All that an object went through since we first saw it must be heard, change by change.
    for key, told in scenario.changes.items():
        went = [one for one in server.history if one.name == key.name and one.version >= told[0][1]]
        assert [what == "DELETED" for what, _ in told] == [one.change == "DELETED" for one in went]
        seen = [version for what, version in told if what == "SEEN"]
        assert seen == [one.version for one in went if one.change != "DELETED"]
