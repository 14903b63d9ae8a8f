"""Informers on a real API server that is killed, forgets, breaks off, throttles and crawls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.client import CLOCK, Client, client_of, client_with, config_map, informing, until
from tests.support.crds import install_crds
from tests.support.kube import StartControlPlane, new_namespace
from tests.support.recording_handler import RecordingHandler

from muster.api.core import ConfigMap
from muster.api.kinds import CONFIG_MAP, QUEUE
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.errors import ApiError, NotFound, Unreachable
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.kinds import header, plainly
from muster.client.kubeconfig import load_access
from muster.client.read import Selection
from muster.lab.chaos_proxy import ChaosProxy
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.faults import (
    WATCHES,
    CallMatcher,
    CutStream,
    Drop,
    Fault,
    FaultRule,
    FaultScript,
    Refuse,
)
from muster.runtime.supervisor import Supervisor

pytestmark = [pytest.mark.kube, pytest.mark.row(3)]

MAPS = plainly(CONFIG_MAP)
LISTS = CallMatcher(verbs=frozenset({"list"}))


@dataclass
class Busy:
    """Somebody who writes, changes and deletes, and remembers every version that was stored."""

    client: Client
    namespace: str
    rand: Rand = field(default_factory=lambda: Rand(5))
    stored: dict[Key, list[int]] = field(default_factory=dict)
    present: dict[Key, int] = field(default_factory=dict)

    async def step(self) -> None:
        key = Key(self.namespace, f"m{self.rand.randrange(6)}")
        if key not in self.present:
            made = await self.client.writer.create(MAPS, config_map(key.name), key.namespace)
            self._note(key, made)
        elif self.rand.random() < 0.2:
            await self.client.writer.delete(MAPS, key)
            del self.present[key]
        else:
            count = {"data": {"count": str(self.rand.randrange(1_000_000))}}
            self._note(key, await self.client.writer.patch(MAPS, key, count))

    async def steps(self, count: int) -> None:
        for _ in range(count):
            await self.step()

    def _note(self, key: Key, obj: dict[str, Any]) -> None:
        version = int(header(obj).resource_version)
        self.stored.setdefault(key, []).append(version)
        self.present[key] = version


def agree(scenario: RecordingHandler[ConfigMap], busy: Busy) -> bool:
    """Whether the handlers' world is the server's world of now."""
    known = {key: int(header(obj).resource_version) for key, obj in scenario.known.items()}
    return known == busy.present


def check(scenario: RecordingHandler[ConfigMap], busy: Busy, *, every_version: bool) -> None:
    """Nothing repeated, nothing reordered, nothing made up; and nothing left out, if so asked."""
    for key in busy.stored:
        seen = scenario.versions(key)
        assert seen == sorted(set(seen)), f"{key}: out of order or twice: {seen}"
        assert set(seen) <= set(busy.stored[key]), f"{key}: versions that never were"
        if every_version:
            assert seen == busy.stored[key], f"{key}: versions left out"


def maps_of(namespace: str) -> Selection:
    return Selection(namespace, fields="metadata.name!=kube-root-ca.crt")


@pytest.mark.slow
async def test_an_informer_catches_up_after_the_server_was_killed_and_restarted(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    namespace = new_namespace(plane)
    async with client_of(plane.kubeconfig()) as client:
        busy, scenario = Busy(client, namespace), RecordingHandler[ConfigMap]()
        async with informing(client, CONFIG_MAP, maps_of(namespace), scenario.handle) as (_, sink):
            for _ in range(2):
                await busy.steps(30)
                await asyncio.to_thread(plane.kill, "kube-apiserver")
                with contextlib.suppress(ApiError, Unreachable):
                    await client.reader.get(MAPS, Key(namespace, "m0"))
                await asyncio.to_thread(plane.start, "kube-apiserver")
                await busy.steps(30)
            await until(lambda: agree(scenario, busy), "the copy is the server's state again")
            # Whether versions are left out depends on whether the new server remembers them.
            check(scenario, busy, every_version=False)
            assert "list or watch failed" in sink.messages()


@pytest.mark.slow
async def test_an_informer_relists_after_compaction(
    start_control_plane: StartControlPlane,
) -> None:
    # Without the watch cache every watch is etcd's own, and etcd forgets when it is told to.
    flags = {"kube-apiserver": ["--watch-cache=false"]}
    plane = start_control_plane(Setup(more_flags=flags))
    namespace = new_namespace(plane)
    async with ChaosProxy(plane, FaultScript(())) as proxy, client_of(plane.kubeconfig()) as direct:
        busy, scenario = Busy(direct, namespace), RecordingHandler[ConfigMap]()
        async with (
            client_of(proxy.kubeconfig()) as through,
            informing(through, CONFIG_MAP, maps_of(namespace), scenario.handle) as (informer, sink),
        ):
            await busy.steps(20)
            await until(lambda: agree(scenario, busy), "the copy follows")
            proxy.script.away = True
            await asyncio.to_thread(plane.restart, "kube-apiserver")
            await busy.steps(40)
            await asyncio.to_thread(plane.compact)
            await busy.steps(5)
            proxy.script.away = False
            await until(lambda: agree(scenario, busy), "the copy is the server's state again")
            check(scenario, busy, every_version=False)
            assert "relisting" in sink.messages()
            assert informer.reflector.lists == 2


@pytest.mark.parametrize(
    "fault",
    [CutStream(2, inside_next=True), CutStream(3), Drop(), Refuse(429, 1), Refuse(503)],
    ids=["cut in an event", "cut between events", "dropped", "throttled", "unavailable"],
)
async def test_a_broken_watch_resumes_without_a_list_and_without_a_gap(
    control_plane: ControlPlane, namespace: str, fault: Fault
) -> None:
    strikes = FaultScript([FaultRule(1, fault, WATCHES, times=3)])
    async with (
        ChaosProxy(control_plane, strikes) as proxy,
        client_of(control_plane.kubeconfig()) as direct,
        client_of(proxy.kubeconfig()) as through,
    ):
        busy, scenario = Busy(direct, namespace), RecordingHandler[ConfigMap]()
        async with informing(through, CONFIG_MAP, maps_of(namespace), scenario.handle) as (
            informer,
            _,
        ):
            async with asyncio.timeout(60):
                while strikes.count(WATCHES) < 4:
                    await busy.steps(5)
            await busy.steps(5)
            await until(lambda: agree(scenario, busy), "the copy is the server's state")
            check(scenario, busy, every_version=True)
            assert informer.reflector.lists == 1


async def test_a_throttled_list_waits_and_succeeds(
    control_plane: ControlPlane, namespace: str
) -> None:
    strikes = FaultScript([FaultRule(1, Refuse(429, 1), LISTS, times=2)])
    async with (
        ChaosProxy(control_plane, strikes) as proxy,
        client_of(proxy.kubeconfig()) as client,
    ):
        started_s = CLOCK.monotonic_s()
        async with informing(client, CONFIG_MAP, Selection(namespace)) as (informer, sink):
            assert CLOCK.monotonic_s() - started_s >= 2.0
            assert informer.has_synced
            assert "list or watch failed" not in sink.messages(), "patience, not failure"


async def test_an_informer_relists_after_410_gone(
    control_plane: ControlPlane, namespace: str
) -> None:
    strikes = FaultScript([FaultRule(1, CutStream(1), WATCHES), FaultRule(2, Refuse(410), WATCHES)])
    async with (
        ChaosProxy(control_plane, strikes) as proxy,
        client_of(control_plane.kubeconfig()) as direct,
        client_of(proxy.kubeconfig()) as through,
    ):
        busy, scenario = Busy(direct, namespace), RecordingHandler[ConfigMap]()
        async with informing(through, CONFIG_MAP, maps_of(namespace), scenario.handle) as (
            informer,
            _,
        ):
            await busy.steps(5)
            await until(lambda: informer.reflector.lists == 2, "a second list")
            await busy.steps(5)
            await until(lambda: agree(scenario, busy), "the copy is the server's state")
            check(scenario, busy, every_version=False)


@asynccontextmanager
async def crawling(plane: ControlPlane, bytes_per_s: int) -> AsyncIterator[int]:
    """A TCP relay on loopback that lets the server's words through slowly."""
    port = urlsplit(plane.server).port
    tasks: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1024 if slow else 1 << 16):
                writer.write(data)
                await writer.drain()
                if slow:
                    await asyncio.sleep(len(data) / bytes_per_s)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        for one in (relay(reader, up_writer, False), relay(up_reader, writer, True)):
            task = asyncio.create_task(one)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_slow_watch_falls_behind_and_loses_nothing(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with (
        crawling(control_plane, 60_000) as port,
        client_of(control_plane.kubeconfig()) as direct,
    ):
        access = load_access(CLOCK, {}, path=control_plane.kubeconfig())
        busy, scenario = Busy(direct, namespace), RecordingHandler[ConfigMap]()
        async with (
            client_with(replace(access, server=f"https://127.0.0.1:{port}")) as slow,
            informing(slow, CONFIG_MAP, maps_of(namespace), scenario.handle) as (informer, _),
        ):
            await busy.steps(200)
            await until(lambda: agree(scenario, busy), "the copy catches up")
            check(scenario, busy, every_version=informer.reflector.lists == 1)


@pytest.mark.slow
async def test_an_object_that_cannot_be_decoded_is_reported_and_the_others_are_served(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    install_crds(plane)
    queues = plainly(QUEUE)

    def queue(name: str, runtime: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"reclaimMinRuntime": runtime}}

    async with client_of(plane.kubeconfig()) as client:
        await client.writer.create(queues, queue("bad", "banana"))
        await client.writer.create(queues, queue("good", "1h"))
        sink = MemorySink()
        log = Log("t", sink)
        supervisor = Supervisor(
            "test",
            client.connection,
            log=log,
            recorder=Recorder(client.writer, "test", log=log),
        )
        informer: Informer[Any] = supervisor.informer(QUEUE)
        running = asyncio.create_task(supervisor.run())
        await asyncio.wait_for(informer.synced(), 60)
        assert [key.name for key in informer.objects] == ["good"]
        (reject,) = informer.set_aside.values()
        assert (reject.key, reject.path) == (Key("", "bad"), "$.spec.reclaimMinRuntime")
        assert "object set aside" in sink.messages()
        label = {"kind": "queues.scheduling.run.ai"}
        assert supervisor.registry.get_sample_value("muster_informer_set_aside", label) == 1
        await until(lambda: _events_about(plane, "bad") == ["Unreadable"], "an event about it")

        await client.writer.patch(queues, Key("", "bad"), {"spec": {"reclaimMinRuntime": "2m"}})
        await until(lambda: len(informer.objects) == 2, "it is back when it is mended")
        assert not informer.set_aside
        supervisor.stop()
        await running


def _events_about(plane: ControlPlane, name: str) -> list[str]:
    found = plane.call("GET", "/api/v1/namespaces/default/events").body["items"]
    return [event["reason"] for event in found if event["involvedObject"]["name"] == name]


async def test_an_informer_of_a_missing_crd_reports_not_found_and_does_not_sync(
    control_plane: ControlPlane,
) -> None:
    missing = replace(MAPS, group="muster.test", plural="notyet")
    async with client_of(control_plane.kubeconfig()) as client:
        sink = MemorySink()
        informer = Informer(client.reader, missing, log=Log("t", sink))
        running = asyncio.create_task(informer.run())
        await until(lambda: "list or watch failed" in sink.messages(), "the trouble is told")
        assert isinstance(informer.reflector.trouble, NotFound)
        assert not informer.has_synced
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
