"""Faults that are planted in running services are named by the invariants of the simulation.

Those that are judged on stored objects alone are in tests/unit/lab/simulate/test_invariants.py.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.log import MemorySink
from muster.client.election import Elector
from muster.lab.simulate import run
from muster.lab.simulate.run import tell
from muster.lab.simulate.story import BreakDisk, Configure, Kill, QueuePlan, Story, Submit
from muster.runtime.reconciler import DONE, Result
from muster.services.binder.reconciler import ReservationGcReconciler
from muster.services.podgrouper.own_writes import _Turn
from muster.services.podgrouper.reconciler import PodGrouper
from muster.services.scheduler.missing_groups import MissingGroups
from muster.services.scheduler.status_updater import Update
from muster.sim.kubelet.nodes import Gpus, NodeGroup

Plant = Callable[[pytest.MonkeyPatch], None]
_QUEUES = (QueuePlan("all"), QueuePlan("team-a", parent="all"))


def _story(*steps: Any, calm_at_s: float = 15.0) -> Story:
    node = NodeGroup("gpu", count=1, gpus=Gpus(count=2), cpu="32")
    return Story(nodes=[node], queues=_QUEUES, steps=steps, calm_at_s=calm_at_s)


ONE_POD = _story(Submit(at_s=1.0, name="one", asks="gpu:1"))
SIX_PODS = _story(Submit(at_s=1.0, name="six", kind="job", pods=6, minimum=1, asks="cpu:1"))
A_SHARE = _story(Submit(at_s=1.0, name="share", asks="fraction:0.5"))


def _part_ends(patch: pytest.MonkeyPatch) -> None:
    async def run_briefly(self: MissingGroups) -> None:
        await asyncio.sleep(5.0)
        raise ZeroDivisionError("in a part")

    patch.setattr(MissingGroups, "run", run_briefly)


def _work_without_end(patch: pytest.MonkeyPatch) -> None:
    async def reconcile(self: PodGrouper, key: Key) -> Result:
        for _ in itertools.count():
            await asyncio.sleep(0)
        return DONE

    patch.setattr(PodGrouper, "reconcile", reconcile)


def _writes_in_a_loop(patch: pytest.MonkeyPatch) -> None:
    original = PodGrouper.reconcile

    async def reconcile(self: PodGrouper, key: Key) -> Result:
        for number in range(200):
            note = {"metadata": {"annotations": {"count": str(number)}}}
            await self._writer.patch(POD, key, note)
            await asyncio.sleep(0.1)
        return await original(self, key)

    patch.setattr(PodGrouper, "reconcile", reconcile)


def _never_rests(patch: pytest.MonkeyPatch) -> None:
    async def run_on(self: MissingGroups) -> None:
        number = 0
        while True:
            number += 1
            note = {"metadata": {"annotations": {"count": str(number)}}}
            self._updater.put(Update(POD, Key("default", "one"), "count", note))
            await asyncio.sleep(20.0)

    patch.setattr(MissingGroups, "run", run_on)
    patch.setattr(run, "_REST_WITHIN_S", 100.0)


def _leads_without_a_lease(patch: pytest.MonkeyPatch) -> None:
    async def acquire(self: Elector) -> None:
        """Believes so."""

    async def renew(self: Elector) -> None:
        await asyncio.Event().wait()

    patch.setattr(Elector, "acquire", acquire)
    patch.setattr(Elector, "renew", renew)
    patch.setattr(Elector, "leads_for_s", lambda self: 10.0)


def _keeps_reservations(patch: pytest.MonkeyPatch) -> None:
    async def reconcile(self: ReservationGcReconciler, group: str) -> Result:
        return DONE

    patch.setattr(ReservationGcReconciler, "reconcile", reconcile)
    patch.setattr(run, "_GONE_WITHIN_S", 60.0)


def _remembers_the_gone(patch: pytest.MonkeyPatch) -> None:
    original = PodGrouper.reconcile

    async def reconcile(self: PodGrouper, key: Key) -> Result:
        self._own._turns.setdefault(key, _Turn())
        return await original(self, key)

    patch.setattr(PodGrouper, "reconcile", reconcile)


PLANTED: list[tuple[Plant, Story, str]] = [
    (_part_ends, ONE_POD, "processes go on"),
    (_work_without_end, ONE_POD, "time goes on"),
    (_writes_in_a_loop, ONE_POD, "writes are bounded"),
    (_never_rests, ONE_POD, "the cluster comes to rest"),
    (_leads_without_a_lease, ONE_POD, "only leaders write"),
    (_keeps_reservations, A_SHARE, "nothing is left behind"),
    (_remembers_the_gone, SIX_PODS, "the gone are forgotten"),
]


@pytest.mark.parametrize(
    ("plant", "story", "invariant"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED]
)
def test_a_fault_in_a_running_service_is_named_by_its_invariant(
    monkeypatch: pytest.MonkeyPatch, plant: Plant, story: Story, invariant: str
) -> None:
    plant(monkeypatch)
    assert tell(story).broken == invariant


@pytest.mark.parametrize("story", [SIX_PODS, A_SHARE], ids=["pods", "a share"])
def test_the_same_stories_go_well_without_a_fault(story: Story) -> None:
    assert tell(story).violations == []


def test_a_disk_that_takes_nothing_and_bad_configurations_stop_no_scheduling() -> None:
    """Also where the scheduler is killed meanwhile, and cannot start with what it is given."""
    story = _story(
        BreakDisk(at_s=1.0, for_s=60.0),
        Submit(at_s=2.0, name="first", asks="gpu:1"),
        Configure(at_s=10.0, what="not text"),
        Submit(at_s=11.0, name="second", asks="cpu:1"),
        Configure(at_s=20.0, what="unknown action"),
        Kill(at_s=21.0, who="scheduler-0"),
        Kill(at_s=21.0, who="scheduler-1"),
        Submit(at_s=22.0, name="third", asks="gpu:1"),
        calm_at_s=60.0,
    )
    sink = MemorySink()
    outcome = tell(story, sink)
    assert outcome.violations == []
    assert {"cycle not logged", "configuration rejected"} <= set(sink.messages())
