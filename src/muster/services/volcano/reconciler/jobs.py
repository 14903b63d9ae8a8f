"""Reads a job with its pods, decides, writes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from muster.api.bounds import VOLCANO_JOB_PODS_MAX
from muster.api.kinds import JOB_POD, VOLCANO_COMMAND, VOLCANO_JOB, VOLCANO_POD_GROUP
from muster.api.meta import Key
from muster.api.volcano import PodGroup
from muster.api.volcano_batch import LABEL_JOB, Command, Job, JobPod
from muster.base.clock import Clock
from muster.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.client.events import Recorder, reference_to
from muster.client.informer import Index, Informer
from muster.client.kinds import Plain, plain_kind
from muster.client.read import Reader
from muster.client.write import Deletion, Propagation, Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.volcano.decide.groups import PriorityOf
from muster.services.volcano.decide.job_status import Why
from muster.services.volcano.decide.jobs import MARK, Gone, JobDecision, JobView, decide
from muster.services.volcano.decide.plugins import (
    ssh_config,
    ssh_keys_given,
    ssh_secret_name,
)
from muster.services.volcano.decide.pods import group_name, owner_reference
from muster.services.volcano.ssh_keys import key_pair

SERVICE: Final = plain_kind("", "v1", "Service", "services")
CONFIG_MAP: Final = plain_kind("", "v1", "ConfigMap", "configmaps")
SECRET: Final = plain_kind("", "v1", "Secret", "secrets")
CLAIM: Final = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NETWORK_POLICY: Final = plain_kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
_KINDS: Final = {one.kind: one for one in (SERVICE, CONFIG_MAP, SECRET, CLAIM, NETWORK_POLICY)}
_SIDE_BY_SIDE: Final = 50
"""Pods of one job that are being made: more would only wait with their bodies in memory."""
_SEEN_WITHIN_S: Final = 30.0
"""How long a pod that we made may stay unseen before it is made again."""


@dataclass(slots=True)
class JobReconciler:
    """Brings one job nearer to its end."""

    _jobs: Informer[Job]
    _pods_of: Index[JobPod, Key]
    _groups: Informer[PodGroup]
    _commands_for: Index[Command, Key]
    _priority_of: PriorityOf
    _reader: Reader
    _writer: Writer
    _clock: Clock
    _recorder: Recorder | None = None
    _acts: bool = field(default=False, init=False)
    """Whether we have begun: who does not lead would remember without end."""
    _lost: dict[Key, dict[str, JobPod]] = field(default_factory=dict, init=False)
    """Pods that went since their job was last looked at."""
    _replaced: dict[Key, set[str]] = field(default_factory=dict, init=False)
    _made: dict[Key, dict[str, float]] = field(default_factory=dict, init=False)
    """Names of pods that we made, and until when we believe in them unseen."""
    _provided: dict[Key, tuple[str, int]] = field(default_factory=dict, init=False)
    """The job (by uid and generation) whose objects are as it wants them."""
    _builds: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def on_pod(self, old: JobPod | None, new: JobPod | None) -> None:
        """Handler of the informer: remembers which pods went, while it is for us to act on it."""
        if self._acts and old is not None and new is None:
            for key in job_of(old):
                lost = self._lost.setdefault(key, {})
                # Anybody's pods may bear the label, and a job that fails is not looked at for long.
                if len(lost) < VOLCANO_JOB_PODS_MAX:
                    lost[old.metadata.uid] = old

    async def reconcile(self, key: Key) -> Result:
        self._acts = True
        job = self._jobs.get(key)
        if job is None or job.metadata.deletion_timestamp is not None:
            for memory in (self._lost, self._replaced, self._made, self._provided):
                memory.pop(key, None)
            return DONE
        lost = dict(self._lost.get(key, {}))
        decision = decide(self._view(job, lost), self._clock.now_s())
        try:
            await self._carry_out(job, decision)
        except ApiError as error:
            if not error.is_passing:
                self._tell(job, Why("FailedCreate", str(error), is_warning=True))
            raise
        for uid in lost:
            self._lost.get(key, {}).pop(uid, None)
        again_s = decision.requeue_after_s
        if decision.create:  # A name may be taken by somebody else's pod, which we do not see go.
            again_s = min(_SEEN_WITHIN_S + 1.0, again_s if again_s is not None else float("inf"))
        return Result(requeue_after_s=again_s)

    def _view(self, job: Job, lost: Mapping[str, JobPod]) -> JobView:
        key, pods = job.key, self._pods_of.get(job.key)
        uids = {pod.metadata.uid for pod in pods} | set(lost)
        replaced = self._replaced.get(key, set())
        replaced &= uids
        seen, now_s = {pod.metadata.name for pod in pods}, self._clock.monotonic_s()
        made = self._made.get(key, {})
        for name in [one for one, until_s in made.items() if one in seen or until_s < now_s]:
            del made[name]
        return JobView(
            job=job,
            pods=pods,
            lost=tuple(lost.values()),
            replaced=frozenset(replaced),
            made=frozenset(made),
            group=self._groups.get(Key(key.namespace, group_name(job))),
            commands=[
                one
                for one in self._commands_for.get(key)
                if one.target is not None and one.target.uid == job.metadata.uid
            ],
            priority_of=self._priority_of,
        )

    async def _carry_out(self, job: Job, decision: JobDecision) -> None:
        key = job.key
        await self._provide(job, decision)
        await self._change_group(job, decision)
        for one in decision.mark:
            self._replaced.setdefault(key, set()).add(one.uid)
            with suppress(NotFound, Conflict):
                await self._writer.patch(JOB_POD, one.key, MARK, uid=one.uid)
        if decision.status is not None:
            version = {"metadata": {"resourceVersion": job.metadata.resource_version}}
            patch = {**decision.status, **version}
            await self._writer.patch(VOLCANO_JOB, key, patch, subresource="status")
        if decision.event is not None:
            self._tell(job, decision.event)
        await _all([self._delete(one) for one in decision.delete])
        await one_after_another(self._builds, decision.create, partial(self._create, key))
        for command in decision.done_commands:
            with suppress(NotFound):
                await self._writer.delete(VOLCANO_COMMAND, command)
        if decision.delete_job:
            deletion = Deletion(uid=job.metadata.uid, propagation=Propagation.BACKGROUND)
            with suppress(NotFound, Conflict):
                await self._writer.delete(VOLCANO_JOB, key, deletion)

    async def _provide(self, job: Job, decision: JobDecision) -> None:
        """Objects of plugins, and claims: when the job is new to us, or was changed."""
        wanted = (job.metadata.uid, job.metadata.generation)
        needs = decision.objects or decision.needs_ssh_key
        if not needs or self._provided.get(job.key) == wanted:
            return
        owner = {"ownerReferences": [owner_reference(job)]}
        for kind, body in decision.objects:
            named = {**body, "metadata": {**body["metadata"], **owner}}
            await self._ensure(job, _KINDS[kind], named)
        if decision.needs_ssh_key:
            await self._ensure_ssh_key(job)
        self._provided[job.key] = wanted

    async def _ensure(self, job: Job, kind: Any, body: Plain) -> None:
        """As the job wants it. What somebody else made under the name is left as it is."""
        key = Key(job.metadata.namespace, body["metadata"]["name"])
        try:
            await self._writer.create(kind, body, key.namespace)
        except AlreadyExists:
            if kind is not CONFIG_MAP:  # The only one that changes with the job.
                return
            found = await self._reader.get(kind, key)
            owners = found["metadata"].get("ownerReferences") or ()
            # Not in the name of somebody who may write jobs, and perhaps no config maps.
            if any(owner.get("uid") == job.metadata.uid for owner in owners):
                await self._writer.patch(kind, key, {"data": body["data"]})

    async def _ensure_ssh_key(self, job: Job) -> None:
        private, public = ssh_keys_given(job) or key_pair()
        data = {
            "id_rsa": private,
            "id_rsa.pub": public,
            "authorized_keys": public,
            "config": ssh_config(job),
        }
        meta = {"name": ssh_secret_name(job), "ownerReferences": [owner_reference(job)]}
        body = {"metadata": meta, "stringData": data, "type": "Opaque"}
        with suppress(AlreadyExists):
            await self._writer.create(SECRET, body, job.metadata.namespace)

    async def _change_group(self, job: Job, decision: JobDecision) -> None:
        key = Key(job.metadata.namespace, group_name(job))
        if decision.create_group is not None:
            with suppress(AlreadyExists):
                await self._writer.create(VOLCANO_POD_GROUP, decision.create_group, key.namespace)
        if decision.patch_group is not None:
            with suppress(NotFound):
                await self._writer.patch(VOLCANO_POD_GROUP, key, decision.patch_group)
        if decision.delete_group:
            with suppress(NotFound):
                await self._writer.delete(VOLCANO_POD_GROUP, key)

    async def _delete(self, one: Gone) -> None:
        with suppress(NotFound, Conflict):
            await self._writer.delete(JOB_POD, one.key, Deletion(uid=one.uid))

    async def _create(self, key: Key, body: Plain) -> None:
        with suppress(AlreadyExists):
            await self._writer.create(JOB_POD, body, key.namespace)
        until_s = self._clock.monotonic_s() + _SEEN_WITHIN_S
        self._made.setdefault(key, {})[body["metadata"]["name"]] = until_s

    def _tell(self, job: Job, why: Why) -> None:
        if self._recorder is not None:
            kind = "Warning" if why.is_warning else "Normal"
            self._recorder.record(reference_to(VOLCANO_JOB, job), kind, why.reason, why.message)


def job_of(pod: JobPod) -> tuple[Key, ...]:
    """The job that a pod says it belongs to."""
    name = pod.metadata.labels.get(LABEL_JOB)
    return (Key(pod.metadata.namespace, name),) if name else ()


def job_of_group(group: PodGroup) -> tuple[Key, ...]:
    owner = group.metadata.controller
    is_job = (
        owner is not None and owner.kind == "Job" and owner.api_version.startswith("batch.volc")
    )
    return (Key(group.metadata.namespace, owner.name),) if owner is not None and is_job else ()


def job_of_command(command: Command) -> tuple[Key, ...]:
    target = command.target
    is_job = target is not None and target.kind == "Job"
    return (Key(command.metadata.namespace, target.name),) if target is not None and is_job else ()


async def one_after_another(
    builds: asyncio.Lock, bodies: Sequence[Plain], create: Callable[[Plain], Awaitable[None]]
) -> None:
    """Created side by side, but built one by one, and other work goes on between two of them: a
    template takes as long to fill in as its author likes.
    """
    turns = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def one(place: int) -> None:
        async with turns:
            async with builds:
                await asyncio.sleep(0)
                body = bodies[place]
            await create(body)

    await _all([one(place) for place in range(len(bodies))])


async def _all(writes: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Every one is tried; what one is refused with is told when all have ended."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
