"""A demo on a running cluster: things that people install a batch scheduler for.

Ordinary manifests, applied one after another; each step says what was decided and why, and checks
what it expects. It talks to the API server alone, so that it is the same on any cluster.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.errors import AlreadyExists, NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.read import Reader, Selection
from muster.client.write import Deletion, Propagation, Writer
from muster.lab.demo_past import BACK, BUSY, DemoPast

_KINDS = {
    "Queue": plain_kind("scheduling.run.ai", "v2", "Queue", "queues", namespaced=False),
    "Pod": plain_kind("", "v1", "Pod", "pods"),
    "Job": plain_kind("batch", "v1", "Job", "jobs"),
}
_POD, _JOB = _KINDS["Pod"], _KINDS["Job"]
_NODE = plain_kind("", "v1", "Node", "nodes", namespaced=False)
_EVENT = plain_kind("", "v1", "Event", "events")
_PAIR_LABEL = "example.com/pair"
_AT_ONCE = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)
_SMALL_JOBS = 16
_PODS = 64
"""Of eight GPUs, on 64 nodes."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was expected, and whether it came true."""

    step: str
    text: str
    is_met: bool
    seen: str


DemoStep = tuple[str, Callable[[str], Awaitable[None]]]
"""A title, and what is done under it."""


@dataclass(slots=True)
class Demo:
    """Runs the steps, and prints what happens with `echo`."""

    reader: Reader
    writer: Writer
    clock: Clock
    manifests: Path
    echo: Callable[[str], None]
    namespace: str = "default"
    timeout_s: float = 60.0
    past: DemoPast | None = None
    """Where the cluster's past is; None: it has none, and the last step is left out."""
    expectations: list[Expectation] = field(default_factory=list)

    async def run(self) -> bool:
        """All steps; whether every expectation was met."""
        await self._apply("queues.yaml")
        for number, (title, step) in enumerate(self._steps(), 1):
            began_s = self.clock.monotonic_s()
            self.echo(f"\n{number}. {title}")
            await step(title)
            self.echo(f"   done in {self.clock.monotonic_s() - began_s:.1f} s")
        await self._leave()
        return all(one.is_met for one in self.expectations)

    def _steps(self) -> list[DemoStep]:
        steps: list[DemoStep] = [
            ("a gang", self._gang),
            ("an elastic job", self._elastic),
            ("shared GPUs", self._shared),
            ("a pair of nodes for later", self._fragments),
            ("a burst over quota", self._burst),
            ("a reclaim by the queue that is owed", self._reclaim),
            ("a consolidation", self._consolidation),
        ]
        if self.past is not None:
            steps.append(("a team that comes back", partial(self._comes_back, self.past)))
        return steps

    # -- steps -------------------------------------------------------------------------------------

    async def _gang(self, step: str) -> None:
        await self._apply("1-gang.yaml")
        await self._expect_running(step, "train-llm", 8)
        nodes = set((await self._running("train-llm")).values())
        self.echo(f"   8 pods of 8 GPUs started together on {len(nodes)} nodes")

    async def _elastic(self, step: str) -> None:
        await self._apply("2-elastic.yaml")
        await self._expect_running(step, "sweep", 6)
        self.echo("   2 workers would have been enough; there was room for all 6")

    async def _shared(self, step: str) -> None:
        await self._apply("3-shared-gpus.yaml")
        await self._expect_running(step, "notebook", 3)
        pods = [pod for pod in await self._pods() if _name(pod).startswith("notebook")]
        groups = {(pod["metadata"].get("labels") or {}).get("runai-gpu-group") for pod in pods}
        self._expect(
            step, "all three share one device", len(groups) == 1, f"devices: {len(groups)}"
        )
        self.echo("   3 notebooks run on one device, each with its part of it")

    async def _fragments(self, step: str) -> None:
        """Sixteen small jobs fill two nodes; then half of them end, four on each node."""
        nodes = await self.reader.list(_NODE)
        free = await self._free_nodes([_name(node) for node in nodes.objects])
        for name in free[-2:]:
            taint = {"key": _PAIR_LABEL, "value": "yes", "effect": "NoSchedule"}
            patch = {"metadata": {"labels": {_PAIR_LABEL: "yes"}}, "spec": {"taints": [taint]}}
            await self.writer.patch(_NODE, Key("", name), patch)
        text = (self.manifests / "6-small.yaml").read_text()
        for number in range(_SMALL_JOBS):
            await self._create(yaml.safe_load(text.replace("SMALL", f"small-{number:02}")))
        await self._expect_running(step, "small", _SMALL_JOBS)
        on_node: dict[str, list[str]] = {}
        for pod, node in sorted((await self._running("small")).items()):
            on_node.setdefault(node, []).append(pod)
        for pods in on_node.values():
            for pod in pods[: len(pods) // 2]:
                await self._delete_job(pod.rsplit("-", 1)[0])
        await self._expect_running(step, "small", _SMALL_JOBS // 2)
        self.echo("   8 small jobs are left on two nodes, 4 free GPUs on each")

    async def _burst(self, step: str) -> None:
        await self._apply("4-burst.yaml")
        await self._until(self._burst_has_settled, "the burst fills the cluster", step)
        burst = len(await self._running("burst"))
        self._expect(step, "research holds more than its 256 GPUs", burst >= 40, f"{burst} pods")
        self.echo(f"   {burst} pods of 8 GPUs run, far beyond research's quota: nobody else asks")
        for why in (await self._waiting("burst"))[:1]:
            self.echo(f"   one that waits says why: {why}")

    async def _reclaim(self, step: str) -> None:
        before = len(await self._running("burst"))
        await self._apply("5-reclaim.yaml")
        await self._expect_running(step, "serve-model", 16)
        taken = before - len(await self._running("burst"))
        self._expect(step, "only what is needed is taken", 0 < taken <= 17, f"{taken} pods")
        self.echo(f"   {taken} burst pods gave way; the events on their group say to whom")
        for text in (await self._messages("Evict"))[:1]:
            lines = text.removeprefix("(combined from similar events): ").splitlines()
            self.echo(f"   event: {' '.join(dict.fromkeys((lines[0], lines[-1])))}")

    async def _consolidation(self, step: str) -> None:
        await self._apply("6-large.yaml")
        await self._expect_running(step, "large", 1)
        await self._expect_running(step, "small", _SMALL_JOBS // 2)
        self.echo("   4 small jobs moved over, none was lost, and the large one has a whole node")

    async def _comes_back(self, past: DemoPast, step: str) -> None:
        """The past counts from now on; two teams of equal weight each ask for everything."""
        past.begin(counts=True)
        await self._clear(step)
        await self._apply("8-two-teams.yaml")
        await self._until(
            self._two_thirds_are_back, "two thirds go to the team that was away", step
        )
        used = {name: await past.used(self.clock.now_s(), name) for name in (BUSY, BACK)}
        counts = {name: len(await self._running(name)) for name in (BUSY, BACK)}
        self.echo(
            f"   {counts[BACK]} pods of {BACK} run and {counts[BUSY]} of {BUSY}, though their "
            "weights are equal"
        )
        self.echo(
            f"   why: in the last week {BUSY} held {used[BUSY]:.0%} of the cluster, {BACK} "
            f"{used[BACK]:.0%}"
        )
        parts = " against ".join(
            f"0.50 + (0.50 - {used[name]:.2f}) = {1 - used[name]:.2f}" for name in (BUSY, BACK)
        )
        self.echo(f"   what is above quotas goes by weight and past: {parts}")

    # -- reading -----------------------------------------------------------------------------------

    async def _pods(self) -> list[Plain]:
        return list((await self.reader.list(_POD, Selection(self.namespace))).objects)

    async def _running(self, prefix: str) -> dict[str, str]:
        return {
            _name(pod): pod["spec"].get("nodeName", "")
            for pod in await self._pods()
            if _name(pod).startswith(f"{prefix}-")
            and (pod.get("status") or {}).get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        }

    async def _waiting(self, prefix: str) -> list[str]:
        """Why pods of these names wait, as they say it themselves."""
        return [
            str(condition["message"])
            for pod in await self._pods()
            if _name(pod).startswith(f"{prefix}-")
            for condition in (pod.get("status") or {}).get("conditions") or ()
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]

    async def _free_nodes(self, names: Sequence[str]) -> list[str]:
        pods = (await self.reader.list(_POD)).objects
        used = {pod["spec"].get("nodeName") for pod in pods}
        return sorted(name for name in names if name not in used)

    async def _messages(self, reason: str) -> list[str]:
        events = (await self.reader.list(_EVENT, Selection(self.namespace))).objects
        return [str(one["message"]) for one in events if one.get("reason") == reason]

    async def _burst_has_settled(self) -> bool:
        before = len(await self._running("burst"))
        await self.clock.sleep(2.0)
        return before > 0 and before == len(await self._running("burst"))

    async def _two_thirds_are_back(self) -> bool:
        back, busy = len(await self._running(BACK)), len(await self._running(BUSY))
        return back + busy == _PODS and abs(back - _PODS * 2 / 3) <= 2

    # -- expecting ---------------------------------------------------------------------------------

    async def _expect_running(self, step: str, prefix: str, pods: int) -> None:
        async def so() -> bool:
            return len(await self._running(prefix)) == pods

        text = f"{pods} pods {prefix}-* run"
        await self._until(so, text, step)

    async def _until(self, what: Callable[[], Awaitable[bool]], text: str, step: str = "") -> None:
        until_s = self.clock.monotonic_s() + self.timeout_s
        is_met = await what()
        while not is_met and self.clock.monotonic_s() < until_s:
            await self.clock.sleep(0.2)
            is_met = await what()
        self._expect(step, text, is_met, "" if is_met else f"not within {self.timeout_s:g} s")

    def _expect(self, step: str, text: str, is_met: bool, seen: str) -> None:
        self.expectations.append(Expectation(step, text, is_met, seen))
        if not is_met:
            self.echo(f"   NOT AS EXPECTED: {text} ({seen})")

    # -- changing ----------------------------------------------------------------------------------

    async def _apply(self, name: str) -> None:
        for body in yaml.safe_load_all((self.manifests / name).read_text()):
            await self._create(body)

    async def _create(self, body: Any) -> None:
        kind = self._kind_of(body)
        with suppress(AlreadyExists):
            await self.writer.create(kind, body, self.namespace if kind.namespaced else "")

    def _kind_of(self, body: Any) -> Kind[Plain]:
        return _KINDS[body["kind"]]

    async def _leave(self) -> None:
        """The cluster is free for those who watched; queues stay, for what they try next."""
        await self._delete_work()
        for node in (await self.reader.list(_NODE)).objects:
            if _PAIR_LABEL not in (node["metadata"].get("labels") or {}):
                continue
            taints = [one for one in node["spec"].get("taints") or () if one["key"] != _PAIR_LABEL]
            patch = {"metadata": {"labels": {_PAIR_LABEL: None}}, "spec": {"taints": taints}}
            await self.writer.patch(_NODE, Key("", _name(node)), patch)
        until_s = self.clock.monotonic_s() + self.timeout_s
        while await self._pods() and self.clock.monotonic_s() < until_s:
            await self.clock.sleep(0.2)
        self.echo("\nWhat the demo ran is deleted: the cluster is free. Its queues stay.")

    async def _clear(self, step: str) -> None:
        """Nothing of the steps before is left."""
        await self._delete_work()

        async def is_empty() -> bool:
            return not await self._pods()

        await self._until(is_empty, "the cluster is empty again", step)

    async def _delete_work(self) -> None:
        for kind in (_JOB, _POD):
            for found in (await self.reader.list(kind, Selection(self.namespace))).objects:
                with suppress(NotFound):
                    key = Key(self.namespace, _name(found))
                    await self.writer.delete(
                        kind, key, Deletion(propagation=Propagation.BACKGROUND)
                    )

    async def _delete_job(self, name: str) -> None:
        deletion = Deletion(propagation=Propagation.BACKGROUND)
        await self.writer.delete(_JOB, Key(self.namespace, name), deletion)


def _name(thing: Plain) -> str:
    return str(thing["metadata"]["name"])


def demo_manifests(dialect: str = "") -> Path:
    """Where the manifests are: inside an installed package, or beside a checkout's sources."""
    packaged = Path(__file__).with_name(f"{dialect}-demo" if dialect else "demo_manifests")
    examples = Path(__file__).resolve().parents[3] / "examples"
    beside = examples / dialect / "demo" if dialect else examples / "demo"
    return packaged if packaged.is_dir() else beside
