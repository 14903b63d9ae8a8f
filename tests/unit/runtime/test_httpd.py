"""Health, readiness, metrics and debug pages of a service."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from muster.base.log import Level, Log, MemorySink
from muster.runtime import httpd
from muster.runtime.httpd import CannotListen, Httpd, Probes


class Service:
    def __init__(self) -> None:
        self.sick: list[str] = []
        self.missing: list[str] = []
        self.registry = CollectorRegistry()
        self.probes = Probes(
            lambda: self.sick, lambda: self.missing, self.registry, {"queue": lambda: {"depth": 3}}
        )


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator[aiohttp.ClientSession]:
    server = Httpd("127.0.0.1", 0, service.probes)
    running = asyncio.create_task(server.run())
    await server.listening.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session
    server.stop()
    await running


async def asked(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()


async def test_health_and_readiness_name_the_failing_check() -> None:
    service = Service()
    async with listening(service) as session:
        assert await asked(session, "/healthz") == (200, "ok\n")
        assert await asked(session, "/readyz") == (200, "ok\n")
        service.missing = ["pods: listing", "webhook: no certificate"]
        assert await asked(session, "/readyz") == (503, "pods: listing\nwebhook: no certificate\n")
        assert await asked(session, "/healthz") == (200, "ok\n")
        service.sick = ["LeadershipLost: lease x"]
        assert await asked(session, "/healthz") == (503, "LeadershipLost: lease x\n")


async def test_metrics_are_those_of_the_given_registry() -> None:
    service = Service()
    Counter("muster_test_total", "A counter.", registry=service.registry).inc(2)
    async with listening(service) as session:
        status, text = await asked(session, "/metrics")
    assert status == 200
    assert "muster_test_total 2.0" in text
    assert "python_info" not in text


async def test_metrics_are_read_on_the_loop_and_written_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, threads = Service(), {"read": 0, "written": 0}
    gauge = Gauge("muster_depth", "Live.", registry=service.registry)

    def depth() -> float:
        threads["read"] = threading.get_ident()
        return 3.0

    def written(registry: CollectorRegistry) -> bytes:
        threads["written"] = threading.get_ident()
        return generate_latest(registry)

    gauge.set_function(depth)
    monkeypatch.setattr(httpd, "generate_latest", written)
    async with listening(service) as session:
        assert "muster_depth 3.0" in (await asked(session, "/metrics"))[1]
    assert threads["read"] == threading.get_ident() != threads["written"]


async def test_debug_shows_what_the_service_offers_and_the_stack_of_every_task() -> None:
    async with listening(Service()) as session:
        assert await asked(session, "/debug") == (200, "/debug/tasks\n/debug/queue\n")
        assert '"depth": 3' in (await asked(session, "/debug/queue"))[1]
        assert "httpd.py" in (await asked(session, "/debug/tasks"))[1]
        assert (await asked(session, "/debug/nothing"))[0] == 404


async def test_a_port_in_use_is_an_error_that_names_it() -> None:
    first = Httpd("127.0.0.1", 0, Service().probes)
    running = asyncio.create_task(first.run())
    await first.listening.wait()
    with pytest.raises(CannotListen, match=rf"cannot listen on 127\.0\.0\.1:{first.port}"):
        await Httpd("127.0.0.1", first.port, Service().probes).run()
    first.stop()
    await running


async def test_a_page_is_written_in_a_thread_for_which_the_end_does_not_wait() -> None:
    writers: list[threading.Thread] = []

    def page() -> Iterator[bytes]:
        writers.append(threading.current_thread())
        yield b"{}"

    service = Service()
    service.probes = Probes(list, list, service.registry, {"page": page})
    async with listening(service) as session:
        assert await asked(session, "/debug/page") == (200, "{}")
    (writer,) = writers
    # Those of the loop's own pool are joined when the loop ends, however long a page takes.
    assert writer is not threading.main_thread()
    assert writer.daemon


async def test_the_log_level_is_changed_while_the_service_runs() -> None:
    sink = MemorySink()
    log = Log("service", sink)
    service = Service()
    service.probes = Probes(list, list, service.registry, log=log)
    async with listening(service) as session:
        assert await asked(session, "/debug/log-level") == (200, "info\n")
        assert "/debug/log-level\n" in (await asked(session, "/debug"))[1]
        async with session.put("/debug/log-level", data="debug") as answer:
            assert (answer.status, await answer.text()) == (200, "debug\n")
        assert log.child("part").level is Level.DEBUG
        async with session.put("/debug/log-level", data="loud") as answer:
            assert answer.status == 400
            assert "debug, info, warning, error" in await answer.text()
    assert log.level is Level.DEBUG
    assert sink.messages() == ["log level changed"]
