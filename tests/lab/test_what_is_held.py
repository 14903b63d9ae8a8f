"""Pods come and go at a steady pace: what services hold does not grow, once all have come anew."""

from collections import deque

from tests.support.lab import JOB, POD, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.client.write import Deletion, Propagation
from muster.lab.simulate.registries import entries
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

_ALIVE = 12
_SERVICES = ("scheduler", "binder", "podgrouper", "podgroups", "queues", "scaleadjuster")
_STEADY = Setting(
    nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=8)),), habits=Habits(run=Chance(mean_s=1e6))
)


def test_what_services_hold_levels_off_when_every_pod_has_been_replaced() -> None:
    """Alone, in jobs, with parts of a GPU, and too large for any node; each under a new name."""
    alive: deque[int] = deque()
    came = 0

    async def one_comes_and_one_goes(lab: Lab) -> None:
        nonlocal came
        came += 1
        alive.append(came)
        match came % 4:
            case 0:
                await lab.job(f"w{came}", pods=2, gpus=1)
            case 1:
                await lab.pod(f"w{came}", annotations={"gpu-fraction": "0.5"})
            case 2:
                await lab.pod(f"w{came}", gpus=100)
            case _:
                await lab.pod(f"w{came}", gpus=1)
        if len(alive) > _ALIVE:
            gone = alive.popleft()
            kind = POD if gone % 4 else JOB
            how = Deletion(propagation=Propagation.BACKGROUND)
            await lab.cluster.writer.delete(kind, Key("default", f"w{gone}"), how)
        await lab.clock.sleep(1.0)

    async def turned_over(lab: Lab, times: int) -> dict[str, int]:
        for _ in range(times * _ALIVE):
            await one_comes_and_one_goes(lab)
        await lab.clock.sleep(70.0)  # What is remembered for a minute of those who went.
        running = lab.laptop.supervisors
        return {
            f"{name}: {where}": count
            for name in _SERVICES
            for where, count in entries(running[name]).items()
        }

    async def scenario(lab: Lab) -> None:
        before = await turned_over(lab, times=3)
        after = await turned_over(lab, times=6)
        grown = {
            where: (before.get(where, 0), count)
            for where, count in after.items()
            if count > before.get(where, 0) + _ALIVE
        }
        assert not grown, grown
        assert len(await lab.running("w")) >= _ALIVE / 2

    in_lab(scenario, _STEADY)
