"""Services as real processes on a real API server: killed, frozen, deposed, cut off."""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from tests.support.flows import settle
from tests.support.lab import CONFIG_MAP, JOB, POD, Lab
from tests.support.service_processes import Replica, ServiceProcesses, with_processes

from muster.api.meta import Key
from muster.api.names import ANNOTATION_SHARED_GPU_CONFIG_MAP
from muster.client.errors import NotFound
from muster.client.write import Deletion, Propagation
from muster.lab.control_plane import ControlPlane
from muster.lab.faults import WRITES, CallMatcher, FaultRule, Kill
from muster.services.binder.steps.gpu_sharing import CONFIG_MAP_LABEL
from muster.sim.kubelet.nodes import Gpus, NodeGroup

pytestmark = [pytest.mark.kube, pytest.mark.slow]

_ALL = os.environ.get("MUSTER_FAULTS") == "all"
_TWO_NODES = (NodeGroup("gpu", count=2, gpus=Gpus(count=2)),)
_MANY_NODES = (NodeGroup("gpu", count=20, gpus=Gpus(count=8)),)
# A busy machine is slow by itself; the seconds are judged where there is time for ten minutes.
_BACK_WITHIN_S = 15.0 if _ALL else 120.0
_OUTAGE_S = 600.0 if _ALL else 20.0
_AT_ONCE = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)

Moment = tuple[str, tuple[str, str], bool]
"""A service, a kind of write, and whether it is killed after it or before."""


async def _work(lab: Lab, telling: int) -> None:
    """A gang and two shares of one GPU; then somebody more important, for whom one must go.

    The same is written in each telling: there is a queue whose share nobody has said, and a config
    map that an earlier pod left behind.
    """
    await lab.queue(f"new-{telling}", gpus=0)
    maps = f"share-{telling}"
    labels = {CONFIG_MAP_LABEL: "true"}
    await lab.create(CONFIG_MAP, {"metadata": {"name": f"{maps}-0", "labels": labels}})
    await lab.job("gang", pods=2, gpus=1, queue="team")
    for name, more in (("left", {ANNOTATION_SHARED_GPU_CONFIG_MAP: maps}), ("right", {})):
        await lab.pod(name, queue="team", annotations={"gpu-fraction": "0.5", **more})
    await settle(lab, gang=2, left=1, right=1)
    await lab.job("small", pods=1, gpus=1, queue="team")
    await settle(lab, small=1)
    await lab.pod("urgent", gpus=1, queue="team", priority="build")
    await settle(lab, urgent=1)


async def _clear(lab: Lab) -> None:
    for kind in (JOB, POD):
        for found in await lab.all(kind, lab.namespace):
            with suppress(NotFound):
                await lab.cluster.writer.delete(
                    kind, Key(lab.namespace, found["metadata"]["name"]), _AT_ONCE
                )

    async def is_empty() -> bool:
        return not await lab.all(POD)

    await lab.until(is_empty, why="nothing is left")


@pytest.mark.timeout(1800)
def test_work_completes_when_each_service_is_killed_at_each_kind_of_write(
    product_plane: ControlPlane,
) -> None:
    async def story(processes: ServiceProcesses) -> None:
        lab = processes.lab
        await lab.queue("team", gpus=4)
        await _work(lab, 0)
        moments = list(_moments(processes.replicas))
        assert len(moments) > 10, f"only {moments} are written"
        await _clear(lab)
        for telling, struck in enumerate(_told_together(moments), start=1):
            _arm(processes, struck)
            try:
                await _work(lab, telling)
                await lab.check()
                _check_deaths(processes.replicas, struck)
                for replica in processes.replicas:
                    replica.deaths = 0
                await _clear(lab)
            except Exception as error:
                raise AssertionError(f"did not survive {struck}: {error}") from error

    with_processes(product_plane, story, _TWO_NODES)


def _moments(replicas: Sequence[Replica]) -> Iterator[Moment]:
    for replica in replicas:
        made = {one.kind for one in replica.decisions()}
        for number, kind in enumerate(sorted(made)):
            for after in (True, False) if _ALL else (number % 2 == 0,):
                yield replica.service, kind, after


def _check_deaths(replicas: Sequence[Replica], struck: Sequence[Moment]) -> None:
    """Each was killed at its write, once; and nobody else."""
    struck_once = {service: 1 for service, _, _ in struck}
    died = {one.service: one.deaths for one in replicas if one.deaths}
    assert died == struck_once, f"{died} died at {struck}"


def _told_together(moments: Sequence[Moment]) -> Iterator[list[Moment]]:
    """One moment of each service in each telling."""
    left = list(moments)
    while left:
        told = {service: (service, kind, after) for service, kind, after in reversed(left)}
        yield list(told.values())
        left = [one for one in left if one not in told.values()]


def _arm(processes: ServiceProcesses, struck: Sequence[Moment]) -> None:
    for replica in processes.replicas:
        rules = [
            FaultRule(1, Kill(after), CallMatcher(frozenset({verb}), frozenset({resource})))
            for service, (verb, resource), after in struck
            if service == replica.service
        ]
        replica.arm(*rules)


@pytest.mark.timeout(600)
def test_a_leader_that_was_frozen_writes_nothing_after_another_leads(
    product_plane: ControlPlane,
) -> None:
    """All leaders freeze in the middle of a load, and thaw when the others lead."""

    async def story(processes: ServiceProcesses) -> None:
        lab = processes.lab
        await lab.job("before", pods=2, gpus=1)
        await settle(lab, before=2)
        old = [one for one in processes.replicas if one.decisions()]
        assert len(old) == 5, f"{[one.service for one in old]} lead"
        await lab.job("load", pods=100, gpus=1, minimum=1)
        await lab.until(lambda: _are_bound(lab, "load", 10), why="it is in the middle of it")
        frozen_s = time.monotonic()
        for replica in old:
            replica.program.pause()
        # All of the load may be grouped by now: something for each of the others to do.
        await lab.job("meanwhile", pods=2, gpus=1)
        new = [one for one in processes.replicas if one not in old]

        async def others_lead() -> bool:
            return all(one.decisions(frozen_s) or one.service == "queue-controller" for one in new)

        await lab.until(others_lead, within_s=240.0, why="the others lead")
        thawed_s = time.monotonic()
        for replica in old:
            replica.program.resume()
        await settle(lab, load=100, meanwhile=2)
        await lab.job("after", pods=2, gpus=1)
        await settle(lab, after=2)
        for replica in old:
            late = [str(one.call) for one in replica.decisions(thawed_s)]
            assert not late, f"{replica.service} writes on: {late}"

    with_processes(product_plane, story, _MANY_NODES, replicas=2)


async def _are_bound(lab: Lab, prefix: str, at_least: int) -> bool:
    pods = await lab.all(POD, lab.namespace)
    bound = [one for one in pods if one["spec"].get("nodeName")]
    named = [one for one in bound if one["metadata"]["name"].startswith(prefix)]
    return len(named) >= at_least


@pytest.mark.timeout(1200)
def test_work_goes_on_soon_after_the_api_server_is_back(product_plane: ControlPlane) -> None:
    """Away in the middle of a load; nobody is restarted meanwhile."""

    async def story(processes: ServiceProcesses) -> None:
        lab = processes.lab
        await lab.job("before", pods=2, gpus=1)
        await settle(lab, before=2)
        await lab.job("load", pods=60, gpus=1, minimum=1)
        product_plane.kill("kube-apiserver")
        try:
            await lab.clock.sleep(_OUTAGE_S)
        finally:
            await asyncio.to_thread(product_plane.start, "kube-apiserver")
        await lab.pod("newcomer", gpus=1)
        await lab.until(
            lambda: _are_bound(lab, "newcomer", 1), _BACK_WITHIN_S, "the newcomer is bound"
        )
        await settle(lab, load=60, newcomer=1)
        bound = [
            one.call.name
            for replica in processes.replicas
            for one in replica.script.writes
            if WRITES.fits(one.call) and one.call.resource == "pods/binding"
        ]
        assert len(set(bound)) >= 63, "everybody was bound by the binder"

    with_processes(product_plane, story, _MANY_NODES)
