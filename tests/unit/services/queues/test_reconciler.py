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
        groups: Any = SimpleNamespace(objects={})
        world: Any = self
        meters = QueueMeters(CollectorRegistry())
        self.reconciler = QueueReconciler(world, groups, world, LoopClock(), meters)

    def add(self, name: str, parent: str) -> None:
        self.objects[Key("", name)] = from_builtins(Queue, queue(name, parent=parent))

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
