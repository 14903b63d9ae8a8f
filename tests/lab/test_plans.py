"""A plan is what happens when what was planned is submitted: through the API server, the webhooks,
the grouper and the scheduler.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.apply import apply
from tests.support.kube_lab import on_kube
from tests.support.lab import BIND_REQUEST, JOB, POD, QUEUE, InWorld, Lab, Setting, in_lab

from muster.api.profiles import ProfileName
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
from muster.lab.control_plane import ControlPlane
from muster.lab.ecosystem import start_ecosystem
from muster.lab.hosting import HostedService
from muster.model.status import TaskStatus
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.observer import Observation, build_observer
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.services.scheduler.roles import observer_rights
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits
from muster.web.live import NotReady, rules_digest
from muster.web.named_objects import Read, reading
from muster.web.observed import ObservedCluster
from muster.web.submission import named_by, submission_of

_KEY = b"key"
_NODES, _GPUS = 3, 4
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_PROFILES = (ProfileName.MUSTER, ProfileName.KAI)
_SEED_ON_KUBE = 0
_SMALL = Setting(
    nodes=(NodeGroup("gpu", count=_NODES, gpus=Gpus(count=_GPUS)),),
    habits=Habits(run=Chance(mean_s=1e9)),
)


@dataclass
class Planner:
    """What `muster web` plans with, beside the live scheduler."""

    lab: Lab
    observed: list[ObservedCluster] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    async def __aenter__(self) -> "Planner":
        product = self.lab.product
        # By the rules of the scheduler beside it.
        options = replace(product.options, profile=product.dialect)

        def build(supervisor: Supervisor) -> None:
            observed = ObservedCluster.of(supervisor, options.names)
            self.observed.append(observed)
            self.reads.append(reading(supervisor.reader))

            async def on_observed(seen: Observation) -> None:
                observed.newest = seen

            build_observer(supervisor, SchedulerServiceConfig(options, offload=inline), on_observed)

        await self.lab.cluster.start(HostedService("web", build, observer_rights()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.lab.cluster.stop("web")

    async def plan(self, manifest: dict[str, Any]) -> tuple[Situation, Submission, Plan]:
        """Once nothing is on its way, and what is seen is what is there."""
        await self.settled()
        (observed,) = self.observed
        situation = observed.situation()
        refs = named_by([manifest], self.lab.namespace)
        read = {ref: one for ref in refs if (one := await self.reads[0](ref)) is not None}
        world = replace(observed.surroundings(), read=read)
        asked = submission_of([manifest], self.lab.namespace, world, situation.now_s)
        return situation, asked, plan(situation, Variants(situation.records), asked)

    async def settled(self) -> None:
        await self.lab.until(self.is_settled, why="every pod runs or is told why it waits")

    async def is_settled(self) -> bool:
        """Every pod is there, and runs or is told why not; and the planner has seen all that."""
        lab = self.lab
        pods, jobs = await lab.all(POD), await lab.all(JOB)
        wanted = {one["metadata"]["name"]: one["spec"]["parallelism"] for one in jobs}
        if Counter(pod["metadata"]["labels"].get("job-name", "") for pod in pods) != wanted:
            return False
        requests = await lab.all(BIND_REQUEST)
        is_on_its_way = any(
            (one.get("status") or {}).get("phase") != "Succeeded" for one in requests
        )
        there = {one["metadata"]["uid"]: standing(one) for one in pods}
        if is_on_its_way or "" in there.values():
            return False
        queues = {one["metadata"]["name"] for one in await lab.all(QUEUE)}
        return await self.sees(there, queues)

    async def sees(self, pods: dict[str, str], queues: set[str]) -> bool:
        (observed,) = self.observed
        try:
            records = observed.situation().records
        except NotReady:
            return False
        seen = {task.uid: task.node or "waits" for task in records.tasks}
        is_run = all(task.status is TaskStatus.RUNNING for task in records.tasks if task.node)
        return is_run and seen == pods and queues == {queue.name for queue in records.queues}


def standing(pod: dict[str, Any]) -> str:
    """The node that it runs on, or that it waits and is told why; "": it is on its way."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return ""
    if node := pod["spec"].get("nodeName"):
        return str(node) if status.get("phase") == "Running" else ""
    told = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return "waits" if told.get("PodScheduled") == "False" else ""


def job(called: str, pods: int, gpus: int, queue: str, **container: Any) -> dict[str, Any]:
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
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
            "backoffLimit": 100,
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
    planner: Planner, manifest: dict[str, Any]
) -> tuple[bool, Counter[str], set[str]]:
    """Whether it was let in, where its pods are, and which pods went for it."""
    lab = planner.lab
    before = await placed(lab)
    try:
        await lab.create(JOB, {k: v for k, v in manifest.items() if k in ("metadata", "spec")})
    except ApiError:
        return False, Counter(), set()
    await planner.settled()
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
    async with Planner(lab) as planner:
        for at in range(jobs):
            manifest = drawn(rand, f"job-{at}")
            _, _, found = await planner.plan(manifest)
            verdicts[found.verdict] += 1
            is_in, nodes, lost = await happened(planner, manifest)
            told = f"seed {seed}, {manifest['metadata']['name']}: {found}"
            assert is_in == (not found.problems), told
            where = sum((Counter(one.placement) for one in found.jobs), Counter[str]())
            assert nodes == where, f"{nodes}: {told}"
            assert lost == {one.task for one in found.evictions}, f"{lost}: {told}"
    return verdicts


def test_what_is_planned_happens_when_nothing_else_does() -> None:
    """Fixed seeds, by the rules of either profile; every verdict is met."""
    met = Counter[str]()
    for seed in range(4):

        async def scenario(lab: Lab, seed: int = seed) -> None:
            met.update(await check_drawn(lab, seed, jobs=12))

        in_lab(scenario, replace(_SMALL, dialect=_PROFILES[seed % 2]))
    assert met.keys() == set(Verdict), met


@pytest.mark.parametrize(
    ("example", "prefix"),
    [
        ("operators/jobset", "pretrain"),
        ("operators/trainjob", "finetune"),
        ("operators/mpijob", "allreduce"),
        ("operators/sparkapplication", "etl"),
        ("operators/leaderworkerset", "llama"),
        ("ray/raycluster", "tune"),
        ("ray/rayjob", "sweep"),
    ],
)
def test_pods_that_an_operator_makes_go_where_the_plan_of_its_object_says(
    example: str, prefix: str
) -> None:
    text = (_EXAMPLES / f"{example}.yaml").read_text()

    async def scenario(lab: Lab) -> None:
        await start_ecosystem(lab.cluster)
        await apply(lab, (_EXAMPLES / "quick-start/queues.yaml").read_text())
        async with Planner(lab) as planner:
            _, asked, found = await planner.plan(yaml.safe_load(text))
            assert found.verdict is Verdict.STARTS, found
            await apply(lab, text)
            await lab.until_running(prefix, len(asked.tasks))
            where = sum((Counter(one.placement) for one in found.jobs), Counter[str]())
            assert Counter((await lab.running(prefix)).values()) == where

    in_lab(scenario, replace(_SMALL, nodes=(NodeGroup("gpu", count=3, gpus=Gpus()),)))


@pytest.mark.kube
def test_what_is_planned_happens_on_a_real_api_server_too(product_plane: ControlPlane) -> None:
    """A few of them, one of which starts at the cost of others."""
    met = Counter[str]()

    async def scenario(lab: Lab) -> None:
        met.update(await check_drawn(lab, _SEED_ON_KUBE, jobs=4))

    on_kube(product_plane, scenario, _SMALL)
    assert met.keys() >= {Verdict.STARTS, Verdict.EVICTS, Verdict.WAITS}, met


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
            is_in, nodes, lost = await happened(planner, smaller)
            assert is_in
            assert nodes == Counter(planned.jobs[0].placement)
            assert nodes.total() == 1
            assert not lost
            _, _, refused = await planner.plan(job("bad", 1, 1, "a", image=""))
            assert refused.verdict is Verdict.BROKEN
            assert (await happened(planner, job("bad", 1, 1, "a", image="")))[0] is False

    in_world(scenario, _SMALL)
