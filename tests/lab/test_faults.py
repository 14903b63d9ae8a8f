"""Every fault at every write of a flow: nothing is lost, nothing is given twice.

Writes are counted by a run without faults; then each fault strikes each of them. On the laptop
cluster every run has a cluster of its own, under virtual time; on a real API server the runs
follow each other on one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

import pytest
from tests.support.kube_lab import on_kube
from tests.support.lab import BIND_REQUEST, JOB, POD, RESERVATIONS, Lab, Setting, in_lab
from tests.support.struck import Struck

from muster.api.meta import Key
from muster.client.write import Deletion, Propagation
from muster.lab.control_plane import ControlPlane
from muster.lab.faults import WRITE_FAULTS, Fault, Kill, LoseAnswer, Strike, every_strike
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_ONE_NODE = (NodeGroup("gpu", count=1, gpus=Gpus(count=8)),)
_DELETION = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)

# In real time all faults take too long; these are the ones after which the two sides disagree.
_HARDEST = (LoseAnswer(), Kill(after_write=True))

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Flow:
    """Work that ends as described, by which services, and how to end it."""

    name: str
    work: Callable[[Lab], Awaitable[None]]
    end: Callable[[Lab], Awaitable[None]]
    struck: tuple[str, ...] = ("podgrouper", "scheduler", "binder")
    without: tuple[str, ...] = ("queues", "podgroups", "scaleadjuster")

    def __str__(self) -> str:
        return self.name


async def _bind_a_gang(lab: Lab) -> None:
    await lab.job("gang", pods=2, gpus=4)
    await lab.until_running("gang", 2)
    await _until_nothing_is_in_flight(lab)
    assert len(await lab.running("gang")) == 2


async def _end_the_gang(lab: Lab) -> None:
    await lab.cluster.writer.delete(JOB, Key("default", "gang"), _DELETION)
    await _until_no_pods_are_left(lab)


async def _share_a_gpu(lab: Lab) -> None:
    for name in ("left", "right"):
        await lab.pod(name, annotations={"gpu-fraction": "0.5"})
    for name in ("left", "right"):
        await lab.until_running(name, 1)
    await _until_nothing_is_in_flight(lab)
    assert len(await lab.all(POD, RESERVATIONS)) == 1


async def _end_the_sharing(lab: Lab) -> None:
    for name in ("left", "right"):
        await lab.cluster.writer.delete(POD, Key("default", name), _DELETION)
    # The reservation goes with its last user.
    await _until_no_pods_are_left(lab)


GANG = Flow("gang", _bind_a_gang, _end_the_gang)
SHARING = Flow("sharing", _share_a_gpu, _end_the_sharing)


@pytest.mark.parametrize("flow", [GANG, SHARING], ids=str)
@pytest.mark.parametrize("fault", WRITE_FAULTS, ids=str)
def test_work_comes_to_its_end_whatever_happens_to_one_write(flow: Flow, fault: Fault) -> None:
    for at in range(1, _writes_of(flow) + 1):
        _tell(flow, [Strike(at, fault)])


@pytest.mark.kube
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flow", [GANG, SHARING], ids=str)
def test_on_a_real_server_too(product_plane: ControlPlane, flow: Flow) -> None:
    struck = Struck(flow.struck)

    async def story(lab: Lab) -> None:
        struck.arm(lab)
        await flow.work(lab)
        writes = struck.script.count()
        await flow.end(lab)
        for strike in every_strike(writes, _HARDEST):
            struck.arm(lab, [strike])
            await flow.work(lab)
            await struck.restarted()
            await lab.check()
            struck.arm(lab)
            await flow.end(lab)

    setting = Setting(nodes=_ONE_NODE, without=flow.without, wrap=struck.wrap)
    on_kube(product_plane, story, setting)


@cache
def _writes_of(flow: Flow) -> int:
    return _tell(flow, []).script.count()


def _tell(flow: Flow, strikes: list[Strike]) -> Struck:
    struck = Struck(flow.struck)

    async def story(lab: Lab) -> None:
        struck.arm(lab, strikes)
        await flow.work(lab)
        await struck.restarted()
        hit = [each for each in struck.script.history if each.fault is not None]
        assert len(hit) == len(strikes)

    in_lab(story, Setting(nodes=_ONE_NODE, without=flow.without, wrap=struck.wrap))
    return struck


async def _until_nothing_is_in_flight(lab: Lab) -> None:
    async def so() -> bool:
        requests = await lab.all(BIND_REQUEST)
        return all(one.get("status", {}).get("phase") == "Succeeded" for one in requests)

    await lab.until(so)


async def _until_no_pods_are_left(lab: Lab) -> None:
    async def so() -> bool:
        return not await lab.all(POD)

    await lab.until(so)
