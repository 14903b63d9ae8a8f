"""A plan is what happens when what was planned is submitted: through the API server, the webhooks,
the grouper and the scheduler.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.lab import JOB, POD, InWorld, Lab, Setting, in_lab

from muster.base.offload import inline
from muster.base.rand import Rand
from muster.client.errors import ApiError
from muster.foresight.plan import (
    BadToken,
    Plan,
    Submission,
    Verdict,
    checked,
    held,
    plan,
    token_of,
)
from muster.foresight.situation import Situation
from muster.foresight.variants import Variants
from muster.lab.hosting import HostedService
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.observer import Observation, build_observer
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.services.scheduler.roles import observer_rights
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.web.live import rules_digest
from muster.web.observed import ObservedCluster
from muster.web.submission import submission_of

_KEY = b"key"
_NODES, _GPUS = 3, 4
_SMALL = Setting(
    nodes=(NodeGroup("gpu", count=_NODES, gpus=Gpus(count=_GPUS)),),
    habits=Habits(run=Chance(mean_s=1e9)),
)
_QUIET_S = 5.0
_LEFT_S = 40.0
"""Whoever is evicted has left then."""


@dataclass
class Planner:
    """What `muster web` plans with, beside the live scheduler."""

    lab: Lab
    quiet_s: float = _QUIET_S
    observed: list[ObservedCluster] = field(default_factory=list)

    async def __aenter__(self) -> "Planner":
        options = Options()

        def build(supervisor: Supervisor) -> None:
            observed = ObservedCluster.of(supervisor, options.names)
            self.observed.append(observed)

            async def on_observed(seen: Observation) -> None:
                observed.newest = seen

            build_observer(supervisor, SchedulerServiceConfig(options, offload=inline), on_observed)

        await self.lab.cluster.start(HostedService("web", build, observer_rights()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lab.cluster.stop("web")

    async def plan(self, manifest: dict[str, Any]) -> tuple[Situation, Submission, Plan]:
        """Once it has been quiet for a while, so that what is seen is what is there."""
        await self.lab.clock.sleep(self.quiet_s)
        (observed,) = self.observed
        situation = observed.situation()
        world = observed.surroundings()
        asked = submission_of([manifest], self.lab.namespace, world, situation.now_s)
        return situation, asked, plan(situation, Variants(situation.records), asked)


def job(called: str, pods: int, gpus: int, queue: str, **container: Any) -> dict[str, Any]:
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "example/image",
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                **container,
            }
        ],
    }
    labels = {"kai.scheduler/queue": queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": called,
            "labels": labels,
            "annotations": {"kai.scheduler/batch-min-member": str(pods)},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def drawn(rand: Rand, name: str) -> dict[str, Any]:
    pods, gpus = rand.choice(
        [(1, 1), (2, 1), (3, 1), (1, 4), (2, 2), (2, 4), (3, 3), (1, 8), (13, 1)]
    )
    odd: dict[str, Any] = rand.choice([*[{}] * 10, {"image": ""}, {"name": "C_"}])
    return job(name, pods, gpus, rand.choice(["a", "b"]), **odd)


async def happened(
    lab: Lab, manifest: dict[str, Any], after_s: float = _QUIET_S
) -> tuple[bool, Counter[str], set[str]]:
    """Whether it was let in, where its pods are, and which pods went for it."""
    before = await placed(lab)
    try:
        await lab.create(JOB, {k: v for k, v in manifest.items() if k in ("metadata", "spec")})
    except ApiError:
        return False, Counter(), set()
    await lab.clock.sleep(after_s)
    after = await placed(lab)
    called = manifest["metadata"]["name"]
    own = Counter(node for name, node in after.values() if name == called)
    return True, own, before.keys() - after.keys()


async def placed(lab: Lab) -> dict[str, tuple[str, str]]:
    """Job and node of pods, by uid."""
    return {
        pod["metadata"]["uid"]: (pod["metadata"]["labels"].get("job-name", ""), node)
        for pod in await lab.all(POD)
        if (node := pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")
    }


async def check_drawn(lab: Lab, seed: int, jobs: int) -> Counter[str]:
    """Plans and submits one job after another; what was planned is what happens."""
    rand, verdicts = Rand(seed), Counter[str]()
    await lab.queue("a", gpus=8)
    await lab.queue("b", gpus=4)
    async with Planner(lab, _LEFT_S) as planner:
        for at in range(jobs):
            manifest = drawn(rand, f"job-{at}")
            _, _, found = await planner.plan(manifest)
            verdicts[found.verdict] += 1
            is_in, nodes, lost = await happened(lab, manifest, _LEFT_S)
            told = f"seed {seed}, {manifest['metadata']['name']}: {found}"
            assert is_in == (not found.problems), told
            where = sum((Counter(one.placement) for one in found.jobs), Counter[str]())
            assert nodes == where, f"{nodes}: {told}"
            assert lost == {one.task for one in found.evictions}, f"{lost}: {told}"
    return verdicts


def test_what_is_planned_happens_when_nothing_else_does() -> None:
    """Fixed seeds; every verdict is met."""
    met = Counter[str]()
    for seed in range(4):

        async def scenario(lab: Lab, seed: int = seed) -> None:
            met.update(await check_drawn(lab, seed, jobs=12))

        in_lab(scenario, _SMALL)
    assert met.keys() == set(Verdict), met


def test_a_plan_and_its_token_in_both_worlds(in_world: InWorld) -> None:
    """It says what happens; what is irrelevant leaves it be, and what matters voids it."""

    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=12)
        await lab.queue("b", gpus=4)
        async with Planner(lab) as planner:
            manifest = job("new", 2, 4, "a")
            situation, asked, first = await planner.plan(manifest)
            assert first.verdict is Verdict.STARTS
            rules = rules_digest(situation.rules)
            token = checked(token_of(first, asked, situation, rules, _KEY), _KEY)

            await lab.queue("unconcerned", gpus=1)
            situation, asked, again = await planner.plan(manifest)
            held(token, again, asked, rules, situation.now_s)

            await lab.job("other", pods=2, gpus=4, queue="a")
            await lab.until_running("other", 2)
            situation, asked, late = await planner.plan(manifest)
            with pytest.raises(BadToken, match="otherwise now"):
                held(token, late, asked, rules, situation.now_s)

            smaller = job("small", 1, 4, "a")
            _, _, planned = await planner.plan(smaller)
            is_in, nodes, lost = await happened(lab, smaller)
            assert is_in
            assert nodes == Counter(planned.jobs[0].placement)
            assert nodes.total() == 1
            assert not lost
            _, _, refused = await planner.plan(job("bad", 1, 1, "a", image=""))
            assert refused.verdict is Verdict.BROKEN
            assert (await happened(lab, job("bad", 1, 1, "a", image="")))[0] is False

    in_world(scenario, _SMALL)
