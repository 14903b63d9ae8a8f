"""The demo in the words of Volcano, and in those of kube-batch: their objects, unchanged."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.client.errors import Forbidden, NotFound
from muster.client.kinds import Plain, plain_kind, plainly
from muster.client.read import Selection
from muster.client.write import Deletion, Propagation
from muster.lab.demo import Demo, DemoStep

_KINDS: Final = {
    (kind.group, kind.kind): plainly(kind)
    for kind in (
        kinds.VOLCANO_JOB,
        kinds.VOLCANO_COMMAND,
        kinds.VOLCANO_QUEUE,
        kinds.KUBE_BATCH_QUEUE,
        kinds.KUBE_BATCH_POD_GROUP,
    )
} | {("batch", "Job"): plain_kind("batch", "v1", "Job", "jobs")}
_VOLCANO_JOB: Final = plainly(kinds.VOLCANO_JOB)
_BACKGROUND: Final = Deletion(propagation=Propagation.BACKGROUND)
_NODES: Final = 64
_TRAIN, _SERVE = 8, 16


@dataclass(slots=True)
class _DialectDemo(Demo):
    def _kind_of(self, body: Any) -> Kind[Plain]:
        return _KINDS[body["apiVersion"].partition("/")[0], body["kind"]]

    async def _burst_from(self, step: str, name: str) -> None:
        await self._apply(name)
        await self._expect_running(step, "burst", _NODES - _TRAIN)
        self.echo(f"   {_NODES - _TRAIN} pods of 8 GPUs run, far beyond research's half")

    async def _reclaim_by(self, step: str, name: str) -> None:
        before = len(await self._running("burst"))
        await self._apply(name)
        await self._expect_running(step, "serve", _SERVE)
        await self._expect_running(step, "train", _TRAIN)
        taken = before - len(await self._running("burst"))
        self._expect(step, "only what is needed is taken", taken == _SERVE, f"{taken} pods")
        self.echo(f"   {taken} burst pods gave way; the gang of 8 was left alone")


@dataclass(slots=True)
class VolcanoDemo(_DialectDemo):
    """Jobs with lifecycle policies, commands, queues that take and give back."""

    def _steps(self) -> list[DemoStep]:
        return [
            ("a Volcano Job is a gang", self._train),
            ("a lost pod restarts the job", self._lost_pod),
            ("a command suspends it, another resumes it", self._commands),
            ("a burst into what is idle", self._burst_in),
            ("a reclaim by the queue that is owed", self._owed),
            ("a closed queue takes no more", self._closed),
        ]

    async def _train(self, step: str) -> None:
        await self._apply("1-train.yaml")
        await self._expect_running(step, "train", _TRAIN)
        await self._expect_phase(step, "train", "Running")
        self.echo("   8 pods of 8 GPUs started together")

    async def _lost_pod(self, step: str) -> None:
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await self._pods()}
        pod = plain_kind("", "v1", "Pod", "pods")
        await self.writer.delete(pod, Key(self.namespace, "train-worker-3"))

        async def is_anew() -> bool:
            found = {one["metadata"]["name"]: one["metadata"]["uid"] for one in await self._pods()}
            fresh = all(found.get(name, uid) != uid for name, uid in pods.items())
            return fresh and len(await self._running("train")) == _TRAIN

        await self._until(is_anew, "all 8 pods are new ones", step)
        await self._expect_phase(step, "train", "Running")
        status = (await self._job("train"))["status"]
        is_one = status.get("retryCount") == 1
        self._expect(step, "it cost one retry", is_one, f"retryCount {status.get('retryCount')}")
        self.echo(f"   why: {status['state'].get('message', '')}")

    async def _commands(self, step: str) -> None:
        await self._command("AbortJob", "suspend", await self._job("train"))
        await self._expect_phase(step, "train", "Aborted")
        await self._expect_running(step, "train", 0)
        await self._command("ResumeJob", "resume", await self._job("train"))
        await self._expect_running(step, "train", _TRAIN)
        await self._expect_phase(step, "train", "Running")
        self.echo("   suspended: no pods; resumed: 8 again, and no retry was spent")

    async def _burst_in(self, step: str) -> None:
        await self._burst_from(step, "4-burst.yaml")

    async def _owed(self, step: str) -> None:
        await self._reclaim_by(step, "5-serve.yaml")

    async def _closed(self, step: str) -> None:
        queue = plainly(kinds.VOLCANO_QUEUE)
        await self._command(
            "CloseQueue", "close", await self.reader.get(queue, Key("", "research"))
        )

        async def is_closing() -> bool:
            found = await self.reader.get(queue, Key("", "research"))
            return bool((found.get("status") or {}).get("state") == "Closing")

        await self._until(is_closing, "research is Closing while its work ends", step)
        told = ""
        try:
            await self._apply("6-late.yaml")
        except Forbidden as refused:
            told = str(refused).partition("denied the request: ")[2]
        self._expect(step, "a new job is refused", "research is Closing" in told, told)
        self.echo(f"   refused: {told}")

    async def _delete_work(self) -> None:
        """Jobs first: they would make their pods anew."""
        for found in (await self.reader.list(_VOLCANO_JOB, Selection(self.namespace))).objects:
            key = Key(self.namespace, found["metadata"]["name"])
            with suppress(NotFound):
                await self.writer.delete(_VOLCANO_JOB, key, _BACKGROUND)
        await Demo._delete_work(self)

    async def _job(self, name: str) -> Plain:
        return await self.reader.get(_VOLCANO_JOB, Key(self.namespace, name))

    async def _expect_phase(self, step: str, name: str, phase: str) -> None:
        async def so() -> bool:
            status = (await self._job(name)).get("status") or {}
            return bool((status.get("state") or {}).get("phase") == phase)

        await self._until(so, f"{name} is {phase}", step)

    async def _command(self, action: str, name: str, target: Plain) -> None:
        meta = target["metadata"]
        about = {key: target[key] for key in ("apiVersion", "kind")}
        about |= {"name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": kinds.VOLCANO_COMMAND.api_version,
            "kind": kinds.VOLCANO_COMMAND.kind,
            "metadata": {"name": name},
            "action": action,
            "target": about,
        }
        await self._create(body)


@dataclass(slots=True)
class KubeBatchDemo(_DialectDemo):
    """PodGroups and Queues of kube-batch with plain Jobs."""

    def _steps(self) -> list[DemoStep]:
        return [
            ("a gang", self._train),
            ("a gang that cannot fit waits whole", self._too_large),
            ("a burst into what is idle", self._burst_in),
            ("a reclaim by the queue that is owed", self._owed),
        ]

    async def _train(self, step: str) -> None:
        await self._apply("1-train.yaml")
        await self._expect_running(step, "train", _TRAIN)
        self.echo("   8 pods of 8 GPUs started together")

    async def _too_large(self, step: str) -> None:
        await self._apply("2-too-large.yaml")
        group = plainly(kinds.KUBE_BATCH_POD_GROUP)
        key = Key(self.namespace, "too-large")
        told: list[str] = []

        async def says_why() -> bool:
            status = (await self.reader.get(group, key)).get("status") or {}
            told[:] = [one.get("message", "") for one in status.get("conditions") or ()]
            return bool(told)

        await self._until(says_why, "its PodGroup says why it waits", step)
        running = len(await self._running("too-large"))
        self._expect(step, "none of its pods runs", running == 0, f"{running} run")
        self.echo(f"   80 nodes where there are 64: {told[0] if told else ''}")
        await self.writer.delete(_KINDS["batch", "Job"], key, _BACKGROUND)
        await self.writer.delete(group, key)

    async def _burst_in(self, step: str) -> None:
        await self._burst_from(step, "3-burst.yaml")

    async def _owed(self, step: str) -> None:
        await self._reclaim_by(step, "4-serve.yaml")
