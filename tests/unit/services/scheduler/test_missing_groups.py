"""A pod that names a pod group which does not exist is told so, once, and not too early."""

from typing import Any

from tests.support.scheduler_world import SchedulerWorld, group, node, pod, told


def test_a_pod_whose_group_does_not_exist_says_so_after_a_while() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(pod("p", group="nowhere"))
        await world.clock.sleep(25.0)
        assert world.server.written("/pods/p/status") == []
        await world.clock.sleep(20.0)
        assert len(world.server.written("/pods/p/status")) == 1
        await world.clock.sleep(600.0)

    server = told(scenario).server
    ((_, _, body),) = server.written("/pods/p/status")
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("pod group team/nowhere does not exist")
    (event,) = server.events("PodGroupNotFound")
    assert (event["type"], event["message"]) == ("Warning", condition["message"])


def test_a_pod_whose_group_comes_later_is_told_nothing() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(pod("p", group="g"))
        await world.clock.sleep(20.0)
        world.show(group("g"))
        await world.clock.sleep(100.0)

    assert told(scenario).server.events("PodGroupNotFound") == []


def test_pods_of_others_and_pods_that_run_or_have_gone_are_told_nothing() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(pod("other", group="nowhere", scheduler="another"))
        world.show(pod("runs", group="nowhere", node="n1"), pod("goes", group="nowhere"))
        await world.clock.sleep(20.0)
        world.hide(pod("goes", group="nowhere"))
        await world.clock.sleep(100.0)

    server = told(scenario).server
    assert (server.events("PodGroupNotFound"), server.written("/status")) == ([], [])


POOL = "kai.scheduler/node-pool"


def of_pool(name: str, pool: str) -> dict[str, Any]:
    made = group(name)
    made["metadata"].setdefault("labels", {})[POOL] = pool
    return made


def test_a_pod_of_a_node_pool_that_no_node_is_in_says_so_after_a_while() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        served = node("n1")
        served["metadata"].setdefault("labels", {})[POOL] = "served"
        world.show(served, of_pool("lost", "nowhere"), of_pool("fine", "served"))
        world.show(pod("lost", group="lost"), pod("fine", group="fine"))
        await world.clock.sleep(25.0)
        assert world.server.written("/status") == []
        await world.clock.sleep(600.0)

    server = told(scenario).server
    ((_, path, body),) = server.written("/status")
    assert path.endswith("/pods/lost/status")
    assert body["status"]["conditions"][0]["message"].startswith(
        f"no node is in node pool nowhere: correct the label {POOL} of the workload"
    )
    (event,) = server.events("NodePoolNotFound")
    assert event["involvedObject"]["name"] == "lost"
