"""A scheduler that does not lead stays small, and ready."""

from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told


def test_a_standby_forgets_jobs_that_are_gone_and_rests_when_it_leads() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        tables = world.cache._tables
        world.show(queue(), node("n1"))
        for number in range(20):
            work = group(f"p{number}"), pod(f"p{number}")
            world.show(*work)
            for body in work:
                world.hide(body)
        assert len(tables._dirty.job_tasks) == 20
        await world.clock.sleep(61)
        assert not tables._dirty.job_tasks
        world.loop.has_begun = True
        await world.clock.sleep(31)
        world.show(group("late"), pod("late"))
        await world.clock.sleep(61)
        assert tables._dirty.job_tasks, "who leads takes its own snapshots"

    told(scenario)
