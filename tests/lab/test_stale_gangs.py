"""A gang that lost members is given a while to recover, and then leaves the nodes."""

from datetime import datetime

import pytest
from tests.support.lab import POD, POD_GROUP, QUEUE, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.client.write import Deletion
from muster.sim.kubelet.nodes import Gpus, NodeGroup

TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=8)),))
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
LAST_START = "kai.scheduler/last-start-timestamp"


async def _gang_of_two(lab: Lab, **notes: str) -> None:
    spec = {"queue": "default-queue", "minMember": 2}
    metadata = {"name": "gang", "annotations": notes}
    await lab.create(POD_GROUP, {"metadata": metadata, "spec": spec})
    for name in ("gang-0", "gang-1"):
        await lab.pod(name, gpus=8, annotations={"pod-group-name": "gang"})
    await lab.until_running("gang", 2)


async def _notes(lab: Lab) -> dict[str, str]:
    await lab.clock.sleep(3.0)
    notes: dict[str, str] = (await lab.get(POD_GROUP, "gang"))["metadata"]["annotations"]
    return notes


@pytest.mark.row(101, 111)
def test_a_gang_below_its_minimum_is_evicted_after_its_grace_and_not_before() -> None:
    async def scenario(lab: Lab) -> None:
        await _gang_of_two(lab)
        await lab.cluster.writer.delete(POD, Key("default", "gang-0"), Deletion(grace_s=0))
        await lab.clock.sleep(55.0)
        assert set(await lab.running("gang")) == {"gang-1"}
        await lab.until_running("gang", 0, within_s=10.0)

    in_lab(scenario, TWO_NODES)


@pytest.mark.row(1)
def test_the_grace_of_a_stale_gang_goes_on_when_the_scheduler_is_restarted() -> None:
    """Since when it is stale stands in the API, not in a process."""

    async def scenario(lab: Lab) -> None:
        await _gang_of_two(lab)
        await lab.cluster.writer.delete(POD, Key("default", "gang-0"), Deletion(grace_s=0))
        await lab.clock.sleep(40.0)
        await lab.cluster.kill("scheduler")
        (service,) = [one for one in lab.product.services if one.name == "scheduler"]
        await lab.cluster.start(service)
        await lab.clock.sleep(10.0)
        assert set(await lab.running("gang")) == {"gang-1"}
        await lab.until_running("gang", 0, within_s=20.0)

    in_lab(scenario, TWO_NODES)


def test_a_gang_with_disruption_mode_pod_is_not_stale_after_losing_a_pod() -> None:
    async def scenario(lab: Lab) -> None:
        await _gang_of_two(lab, **{"kai.scheduler/disruption-mode": "Pod"})
        await lab.cluster.writer.delete(POD, Key("default", "gang-0"), Deletion(grace_s=0))
        await lab.clock.sleep(300.0)
        assert set(await lab.running("gang")) == {"gang-1"}

    in_lab(scenario, TWO_NODES)


@pytest.mark.row(27)
def test_last_start_and_stale_since_are_in_utc_and_recovery_clears_stale_since() -> None:
    async def scenario(lab: Lab) -> None:
        await _gang_of_two(lab)
        started = (await _notes(lab))[LAST_START]
        assert _age_s(lab, started) < 60.0
        await lab.cluster.writer.delete(POD, Key("default", "gang-0"), Deletion(grace_s=0))
        notes = await _notes(lab)
        assert _age_s(lab, notes[STALE_SINCE]) < 10.0
        await lab.pod("gang-2", gpus=8, annotations={"pod-group-name": "gang"})
        await lab.until_running("gang", 2)
        assert STALE_SINCE not in await _notes(lab)
        await lab.clock.sleep(120.0)
        assert len(await lab.running("gang")) == 2

    in_lab(scenario, TWO_NODES)


def _age_s(lab: Lab, noted: str) -> float:
    assert noted.endswith("Z")
    return lab.clock.now_s() - datetime.fromisoformat(noted).timestamp()


@pytest.mark.parametrize(
    ("queue", "group"),
    [({"preemptMinRuntime": "5m"}, {}), ({}, {"preemptionDelay": "5m"})],
    ids=["preemptMinRuntime", "preemptionDelay"],
)
def test_preemption_happens_once_min_runtime_or_preemption_delay_has_elapsed(
    queue: dict[str, str], group: dict[str, str]
) -> None:
    """Nothing else happens in the cluster meanwhile."""

    async def scenario(lab: Lab) -> None:
        resources = {
            name: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory")
        }
        resources["gpu"] = {"quota": 16, "limit": 16, "overQuotaWeight": 1}
        await lab.create(
            QUEUE, {"metadata": {"name": "q"}, "spec": {"resources": resources, **queue}}
        )
        for number in range(2):
            await lab.pod(f"train-{number}", gpus=8, queue="q", priority="train")
        await lab.until_running("train", 2)
        spec = {"queue": "q", "minMember": 1, "priorityClassName": "build", **group}
        await lab.create(POD_GROUP, {"metadata": {"name": "urgent"}, "spec": spec})
        await lab.pod("urgent", gpus=8, queue="q", annotations={"pod-group-name": "urgent"})
        await lab.clock.sleep(280.0)
        assert not await lab.running("urgent")
        await lab.until_running("urgent", 1, within_s=40.0)

    in_lab(scenario, TWO_NODES)
