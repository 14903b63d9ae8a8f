"""Cron jobs and queues: read, decide, write."""

from contextlib import suppress
from dataclasses import dataclass

from muster.api.kinds import (
    VOLCANO_COMMAND,
    VOLCANO_CRON_JOB,
    VOLCANO_JOB,
    VOLCANO_QUEUE,
)
from muster.api.meta import Key
from muster.api.volcano import ROOT_QUEUE, PodGroup, Queue
from muster.api.volcano_batch import Command, CronJob, Job
from muster.base.clock import Clock
from muster.client.errors import AlreadyExists, Conflict, NotFound
from muster.client.events import Recorder, reference_to
from muster.client.informer import Index, Informer
from muster.client.write import Deletion, Propagation, Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.volcano.decide import cron, queues


@dataclass(slots=True)
class CronJobReconciler:
    """Makes the job that is due."""

    _cron_jobs: Informer[CronJob]
    _jobs_of: Index[Job, Key]
    _writer: Writer
    _clock: Clock
    _recorder: Recorder | None = None

    async def reconcile(self, key: Key) -> Result:
        found = self._cron_jobs.get(key)
        if found is None or found.metadata.deletion_timestamp is not None:
            return DONE
        mine = [
            job
            for job in self._jobs_of.get(key)
            if (owner := job.metadata.controller) is not None and owner.uid == found.metadata.uid
        ]
        decision = cron.decide(found, mine, self._clock.now_s())
        for gone, uid in decision.delete:
            deletion = Deletion(uid=uid, propagation=Propagation.BACKGROUND)
            with suppress(NotFound, Conflict):
                await self._writer.delete(VOLCANO_JOB, gone, deletion)
        if decision.create is not None:
            # Before the status: of one minute there is one job, however often it is tried.
            with suppress(AlreadyExists):
                await self._writer.create(VOLCANO_JOB, decision.create, key.namespace)
        if decision.status is not None:
            version = {"metadata": {"resourceVersion": found.metadata.resource_version}}
            patch = {**decision.status, **version}
            await self._writer.patch(VOLCANO_CRON_JOB, key, patch, subresource="status")
        if decision.event is not None and self._recorder is not None:
            about = reference_to(VOLCANO_CRON_JOB, found)
            self._recorder.warning(about, decision.event.reason, decision.event.message)
        return Result(requeue_after_s=decision.requeue_after_s)


@dataclass(slots=True)
class QueueReconciler:
    """Counts the groups of a queue; opens and closes it."""

    _queues: Informer[Queue]
    _groups_in: Index[PodGroup, Key]
    _commands_for: Index[Command, Key]
    _writer: Writer
    _recorder: Recorder | None = None

    async def reconcile(self, key: Key) -> Result:
        queue = self._queues.get(key)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return DONE
        view = queues.QueueView(
            queue,
            self._groups_in.get(key),
            self._queues.get(Key("", parent_of(queue))) if parent_of(queue) else None,
            [
                one
                for one in self._commands_for.get(key)
                if one.target is not None and one.target.uid in ("", queue.metadata.uid)
            ],
        )
        decision = queues.decide(view)
        if decision.annotate is not None:
            await self._writer.patch(VOLCANO_QUEUE, key, decision.annotate)
        if decision.status is not None:
            await self._writer.patch(VOLCANO_QUEUE, key, decision.status, subresource="status")
        if decision.event is not None and self._recorder is not None:
            about = reference_to(VOLCANO_QUEUE, queue)
            self._recorder.warning(about, decision.event.reason, decision.event.message)
        for command in decision.done_commands:
            with suppress(NotFound):
                await self._writer.delete(VOLCANO_COMMAND, command)
        return DONE


def parent_of(queue: Queue) -> str:
    """The queue above; the root has none."""
    return "" if queue.metadata.name == ROOT_QUEUE else queue.spec.parent


def cron_job_of(job: Job) -> tuple[Key, ...]:
    owner = job.metadata.controller
    is_cron = owner is not None and owner.kind == "CronJob"
    return (Key(job.metadata.namespace, owner.name),) if owner is not None and is_cron else ()


def queue_of(group: PodGroup) -> tuple[Key, ...]:
    return (Key("", group.spec.queue or "default"),)


def queue_of_command(command: Command) -> tuple[Key, ...]:
    target = command.target
    is_queue = target is not None and target.kind == "Queue"
    return (Key("", target.name),) if target is not None and is_queue else ()
