"""What the scale adjuster asks the API server for."""

from types import SimpleNamespace
from typing import Any

from tests.support.virtual_time import LoopClock, virtually
from tests.unit.services.scaleadjuster.test_decide import SETTINGS, made, pod

from muster.api.codec import Status
from muster.api.meta import Key
from muster.base.log import Log, MemorySink
from muster.client.errors import NotFound
from muster.client.write import Deletion
from muster.services.scaleadjuster.reconciler import CLUSTER, ScaleAdjuster


class Deletions:
    """A writer that notes what is deleted, and that all of it has gone already."""

    def __init__(self) -> None:
        self.made: list[tuple[Key, Deletion]] = []

    async def delete(self, kind: Any, key: Key, deletion: Deletion) -> None:
        self.made.append((key, deletion))
        raise NotFound(Status(code=404, reason="NotFound"))


def test_a_scaling_pod_is_deleted_as_the_one_that_was_seen() -> None:
    """Another may have been made under its name since, and may be needed."""

    async def scenario() -> None:
        leftover = made(pod("p", gpu_fraction="0.5"))
        writer: Any = Deletions()
        pods: Any = SimpleNamespace(objects={})
        neighbours: Any = SimpleNamespace(objects={leftover.key: leftover})
        adjuster = ScaleAdjuster(
            pods, neighbours, writer, LoopClock(), SETTINGS, Log("t", MemorySink())
        )
        await adjuster.reconcile(CLUSTER)
        assert writer.made == [(leftover.key, Deletion(uid="uid-of-p"))]

    virtually(scenario())
