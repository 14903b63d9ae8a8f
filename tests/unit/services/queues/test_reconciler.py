"""The queue controller looks at what changed, however many queues there are."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.scheduler_world import queue
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import builtins, from_builtins
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.services.queues import reconciler as module
from muster.services.queues.decide import status_patch
from muster.services.queues.meters import QueueMeters
from muster.services.queues.reconciler import TREE, QueueReconciler


class _World:
    """Queues as a server has them: a patch of the status makes a new object."""

    def __init__(self) -> None:
        self.objects: dict[Key, Queue] = {}
        self.patched: Counter[str] = Counter()
        self.groups: Any = SimpleNamespace(objects={})
        world: Any = self
        groups: Any = self.groups
        self.clock = LoopClock()
        meters = QueueMeters(CollectorRegistry())
        self.reconciler = QueueReconciler(world, groups, world, self.clock, meters)

    def add(self, name: str, parent: str) -> None:
        self.objects[Key("", name)] = from_builtins(Queue, queue(name, parent=parent))

    def add_group(self, name: str, queue: str, **held: str) -> None:
        """What it holds is all that queues read of it."""
        key = Key("team", name)
        metadata = {"name": name, "namespace": "team"}
        status = {"resourcesStatus": {kind: {"nvidia.com/gpu": held[kind]} for kind in held}}
        plain = {"metadata": metadata, "spec": {"queue": queue}, "status": status}
        self.groups.objects[key] = from_builtins(PodGroup, plain)

    async def patch(self, kind: Any, key: Key, patch: Any, subresource: str) -> None:
        self.patched[key.name] += 1
        body = builtins(self.objects[key])
        status = {**body.get("status", {}), **patch["status"]}
        self.objects[key] = from_builtins(Queue, {**body, "status": status})


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the status of each queue was decided."""
    found: Counter[str] = Counter()
    original = status_patch

    def counted(of: Queue, *more: Any) -> Any:
        found[of.metadata.name] += 1
        return original(of, *more)

    monkeypatch.setattr(module, "status_patch", counted)
    return found


def test_nested_queues_that_come_children_first_are_decided_a_few_times_each(
    decided: Counter[str],
) -> None:
    async def story() -> _World:
        world = _World()
        for at in reversed(range(60)):
            world.add(f"q{at}", parent=f"q{at - 1}" if at else "")
            for _ in range(3):
                await world.reconciler.reconcile(TREE)
        return world

    world = virtually(story())
    assert max(world.patched.values()) <= 3, "found its children, then its root"
    assert max(decided.values()) <= 8


def test_a_change_of_one_queue_decides_that_one_and_its_parent(decided: Counter[str]) -> None:
    async def story() -> _World:
        world = _World()
        world.add("top", "")
        for at in range(50):
            world.add(f"q{at}", parent="top")
        for _ in range(2):
            await world.reconciler.reconcile(TREE)
        decided.clear()
        world.add("new", parent="top")
        await world.reconciler.reconcile(TREE)
        return world

    virtually(story())
    assert decided == {"new": 1, "top": 1}


def test_the_status_of_a_queue_that_is_gone_is_forgotten(decided: Counter[str]) -> None:
    async def story() -> _World:
        world = _World()
        world.add("a", "")
        for _ in range(2):
            await world.reconciler.reconcile(TREE)
        world.objects.clear()
        await world.reconciler.reconcile(TREE)
        return world

    assert virtually(story()).reconciler._settled == {}


@pytest.mark.parametrize("kind", ["allocated", "allocatedNonPreemptible", "requested"])
def test_a_pod_group_that_holds_or_wants_more_changes_its_queue_and_those_above(
    decided: Counter[str], kind: str
) -> None:
    """The queues themselves stay as they are."""

    async def story() -> _World:
        world = _World()
        world.add("top", "")
        world.add("low", "top")
        world.add("beside", "top")
        world.add_group("g", "low", **{kind: "1"})
        for _ in range(3):
            await world.reconciler.reconcile(TREE)
        decided.clear()
        world.add_group("g", "low", **{kind: "2"})
        await world.reconciler.reconcile(TREE)
        return world

    world = virtually(story())
    assert decided == {"low": 1, "top": 1}
    for name in ("low", "top"):
        status = builtins(world.objects[Key("", name)])["status"]
        assert status[kind] == {"nvidia.com/gpu": "2"}


def test_a_queue_is_told_when_the_root_above_its_parent_goes_and_when_it_is_back() -> None:
    """Neither the queue nor its parent changes by that, nor what they hold."""

    def conditions(world: _World) -> dict[str, str]:
        found = world.objects[Key("", "low")].status.conditions
        return {one.type: one.status for one in found}

    async def story() -> None:
        world = _World()
        world.add("root", "")
        world.add("mid", "root")
        world.add("low", "mid")
        seen = []
        for has_root in (True, False, True):
            if has_root:
                world.add("root", "")
            else:
                del world.objects[Key("", "root")]
            for _ in range(3):
                await world.reconciler.reconcile(TREE)
            seen.append(conditions(world))
        assert seen[0] == seen[2] != seen[1]

    virtually(story())


def test_a_look_at_many_queues_waits_longer_for_more_changes() -> None:
    """Each look costs by their number, so there are fewer of them."""

    async def waited_s(queues: int) -> float:
        world = _World()
        for at in range(queues):
            world.add(f"q{at}", "")
        await world.reconciler.reconcile(TREE)
        return world.clock.monotonic_s()

    assert virtually(waited_s(1)) == pytest.approx(0.5, abs=1e-3)
    assert virtually(waited_s(1000)) == pytest.approx(0.51, abs=1e-3)
