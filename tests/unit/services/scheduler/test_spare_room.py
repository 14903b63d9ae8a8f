"""Nodes say what their pods leave unused, as long as that is known, and pods run on it."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.scheduler_world import Body, SchedulerWorld, group, node, pod, queue, told

from muster.api.names import RESOURCE_SPARE_CPU, RESOURCE_SPARE_MEMORY
from muster.model.usage import OvercommitPolicy
from muster.services.scheduler.spare_room import SpareRoom
from muster.services.scheduler.status_updater import Update
from muster.usage.overcommit import PeakUse, PodPeaks
from muster.usage.utilisation import Utilisation

POLICY = OvercommitPolicy()
GIB = 1 << 30
ASLEEP = PodPeaks(PeakUse(0.0, 60, 1), PeakUse(0.0, 60, 1))


@dataclass
class Line:
    """Where updates are put."""

    updates: list[Update] = field(default_factory=list)

    def put(self, update: Update) -> None:
        self.updates.append(update)

    def said(self) -> list[Any]:
        """Spare CPU and memory of each update."""
        assert all(update.subresource == "status" for update in self.updates)
        patches: list[Any] = [update.patch for update in self.updates]
        statuses = [patch["status"] for patch in patches]
        assert all(one["capacity"] == one["allocatable"] for one in statuses)
        return [
            (one["capacity"][RESOURCE_SPARE_CPU], one["capacity"][RESOURCE_SPARE_MEMORY])
            for one in statuses
        ]


def worker(name: str, qos: str = "Burstable", **asked: str) -> Body:
    spec = {"containers": [{"name": "main", "resources": {"requests": asked}}]}
    status = {"qosClass": qos, "startTime": "2020-01-01T00:00:00Z"}
    return pod(name, gpus=0, node="n1", scheduler="", spec=spec, status=status)


def on_a_node(*pods: Body, **spare: str) -> SchedulerWorld:
    world = SchedulerWorld()
    show(world, *pods, **spare)
    return world


def show(world: SchedulerWorld, *pods: Body, **spare: str) -> None:
    has = {"cpu": "10", "memory": "100Gi", "pods": "100", **spare}
    body = node("n1")
    body["status"] |= {"allocatable": has, "capacity": has}
    world.show(queue(), body, *pods)


def heard(world: SchedulerWorld, asleep: tuple[str, ...] | None) -> list[Any]:
    """What is put in line when these sleep; None: when nothing is known."""
    line = Line()
    spare = SpareRoom(world.cache, line, world.clock)  # type: ignore[arg-type]
    peaks = {f"team/{name}": ASLEEP for name in asleep or ()}
    reading = Utilisation(world.clock.now_s(), peaks=peaks)
    spare.heard(None if asleep is None else reading, POLICY)
    return line.said()


SOFT = worker("soft", cpu="2", memory="20Gi")


def test_a_node_says_what_its_sleeping_pods_leave_and_nothing_of_guaranteed_ones() -> None:
    world = on_a_node(SOFT, worker("hard", "Guaranteed", cpu="8", memory="80Gi"))
    assert heard(world, ("soft", "hard")) == [("1500", str(15 * GIB))]


def test_a_pod_whose_sidecar_nobody_measured_leaves_nothing() -> None:
    """One container of two was seen to sleep; one that only prepares the pod is over."""
    beside, before = worker("beside", cpu="2"), worker("before", cpu="2")
    beside["spec"]["initContainers"] = [{"name": "log", "restartPolicy": "Always"}]
    before["spec"]["initContainers"] = [{"name": "load"}]
    assert heard(on_a_node(beside), ("beside",)) == []
    assert heard(on_a_node(before), ("before",)) == [("1500", None)]


def test_a_node_that_says_it_already_is_not_written_again() -> None:
    offer = {RESOURCE_SPARE_CPU: "1500", RESOURCE_SPARE_MEMORY: str(15 * GIB)}
    assert heard(on_a_node(SOFT, **offer), ("soft",)) == []


def test_when_nothing_is_known_any_more_nothing_is_offered() -> None:
    offer = {RESOURCE_SPARE_CPU: "1500", RESOURCE_SPARE_MEMORY: "1"}
    assert heard(on_a_node(SOFT, **offer), None) == [(None, None)]
    assert heard(on_a_node(SOFT), None) == [], "and nothing is written where nothing was"


def test_a_pod_runs_on_spare_room_of_a_full_node_and_keeps_it() -> None:
    async def story(world: SchedulerWorld) -> None:
        show(world, worker("full", cpu="10", memory="100Gi"), **{RESOURCE_SPARE_CPU: "1500"})
        for name in ("guest", "too-many"):
            asked = {RESOURCE_SPARE_CPU: "1000"}
            spec = {"containers": [{"name": "main", "resources": {"requests": asked}}]}
            world.show(group(name), pod(name, gpus=0, spec=spec))
        await world.loop.cycle()
        placed = [task.name for task, _ in world.cache.placed_pods() if task.is_ours]
        assert len(placed) == 1
        assert heard(world, None) == [("1000", None)], "the rest is taken back"

    told(story)


def test_what_an_earlier_scheduler_offered_by_a_policy_that_is_gone_is_taken_back() -> None:
    async def story(world: SchedulerWorld) -> None:
        show(world, **{RESOURCE_SPARE_CPU: "1500"})
        await world.settle()

    written = told(story).server.written("/nodes/n1/status")
    assert [body["status"]["capacity"] for _, _, body in written] == [
        {RESOURCE_SPARE_CPU: None, RESOURCE_SPARE_MEMORY: None}
    ]
