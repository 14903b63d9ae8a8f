"""Health, readiness, metrics and debug pages of a service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

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
    httpd = Httpd("127.0.0.1", 0, service.probes)
    running = asyncio.create_task(httpd.run())
    await httpd.listening.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{httpd.port}") as session:
        yield session
    httpd.stop()
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
