"""A real Prometheus that scrapes our queue controller: restarted, in two replicas, and away.

Real time, a few seconds of it: a sample a second.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.lab import POD_GROUP, QUEUE, Lab
from tests.support.prometheus import prometheus_scraping

from muster.api.meta import Key
from muster.base.clock import SystemClock
from muster.base.log import Level, Log, MemorySink
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.install import Installation
from muster.model.usage import QueueUsage, UsageDatabase, UsageWindow
from muster.runtime.httpd import Httpd, Probes
from muster.runtime.parts import ended
from muster.runtime.supervisor import Supervisor
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.usage.fetcher import UsageFetcher
from muster.usage.prometheus import PrometheusUsage, prometheus_at
from muster.usage.source import NoUsage

pytestmark = [pytest.mark.prometheus, pytest.mark.slow]

ONLY_QUEUES = (
    "podgrouper", "podgroups", "admission", "binder", "scheduler", "scaleadjuster", "reservation",
)  # fmt: skip
"""A real queue controller, and nobody who would change what it counts."""


@asynccontextmanager
async def served(supervisor: Supervisor) -> AsyncIterator[int]:
    """The metrics page of a service, as its process serves it; its port."""
    probes = Probes(supervisor.health, supervisor.readiness, supervisor.registry)
    page = Httpd("127.0.0.1", 0, probes)
    running = asyncio.ensure_future(page.run())
    try:
        await page.listening.wait()
        yield page.port
    finally:
        await ended((running,))


async def hold(lab: Lab) -> None:
    """Queue a holds 4 of 16 GPUs."""
    await lab.queue("a", gpus=0)
    body = {"metadata": {"name": "j"}, "spec": {"queue": "a", "minMember": 1}}
    await lab.create(POD_GROUP, body)
    key = Key(lab.namespace, "j")
    status = {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "4"}}}
    await lab.cluster.writer.patch(POD_GROUP, key, {"status": status}, subresource="status")

    async def is_counted() -> bool:
        found = (await lab.get(QUEUE, "a")).get("status") or {}
        return bool(found.get("allocated"))

    await lab.until(is_counted)


def test_usage_of_a_scraped_queue_controller_that_is_doubled_restarted_and_lost(
    tmp_path: Path,
) -> None:
    targets = tmp_path / "targets.json"

    def scrape(*ports: int) -> None:
        listed = [{"targets": [f"127.0.0.1:{port}"]} for port in ports]
        fresh = tmp_path / "targets.new"
        fresh.write_text(json.dumps(listed))
        fresh.replace(targets)

    async def story() -> None:
        clock = SystemClock()
        product = Installation(without=ONLY_QUEUES)
        nodes = [NodeGroup("gpu", count=2, gpus=Gpus())]
        plan = ClusterPlan(nodes=nodes, log_level=Level.ERROR)
        async with Cluster(plan, clock=clock) as cluster:
            await product.bring_up(cluster)
            lab = Lab(cluster, product, clock, look_every_s=0.05)
            await hold(lab)
            (service,) = product.services
            first = cluster.supervisors["queues"]
            scrape()
            with prometheus_scraping(tmp_path, targets) as address:
                database = UsageDatabase(
                    "prometheus",
                    address,
                    window=UsageWindow(size_s=60.0),
                    fetch_interval_s=0.5,
                    staleness_s=2.0,
                    resolution_s=1.0,
                )
                source = PrometheusUsage(prometheus_at(address, database, clock), database, "kai")
                with pytest.raises(NoUsage, match="no samples of queues"):
                    await source.read(clock.now_s())
                async with served(first) as port, served(first) as other:
                    scrape(port, other)
                    await _until_samples(lab, source, 2)
                    assert await _gpu(source, lab) == pytest.approx(0.25)
                await cluster.stop("queues")
                again = await cluster.start(service)
                async with served(again) as port:
                    scrape(port)
                    await _until_samples(lab, source, 6)
                    assert await _gpu(source, lab) == pytest.approx(0.25)
                fetcher = UsageFetcher(lambda _: source, clock, Log("test", MemorySink()))
                fetcher.configure(database)
                running = asyncio.ensure_future(fetcher.run())
                await fetcher.first()
                assert fetcher.newest is not None
            # Prometheus is gone.
            with pytest.raises(NoUsage, match="cannot be asked"):
                await source.read(clock.now_s())
            failed_before = fetcher.failures

            async def failed_since() -> bool:
                return fetcher.failures > failed_before and fetcher.is_stale

            await lab.until(failed_since, why="it is stale, and known to be")
            assert fetcher.newest is not None
            assert fetcher.newest.by_queue["a"]["gpu"] == pytest.approx(0.25), "it counts on"
            await ended((running,))

    asyncio.run(story())


async def _gpu(source: PrometheusUsage, lab: Lab) -> float:
    found: QueueUsage = await source.read(lab.clock.now_s())
    return found.by_queue["a"]["gpu"]


async def _until_samples(lab: Lab, source: PrometheusUsage, count: int) -> None:
    """Until so many scrapes of the newest page are in."""
    began_s = lab.clock.now_s()

    async def so() -> bool:
        try:
            await source.read(lab.clock.now_s())
        except NoUsage:
            return False
        return lab.clock.now_s() - began_s > count

    await lab.until(so)
