"""Plan -> BindRequests, evictions. The only writer of decisions in this service.

A gang is bound as a whole: when one of its bind requests cannot be made, those made with it are
withdrawn, and its pods are pending again when nobody acts on them any more. Victims are evicted
before the event that a pod is pipelined in their place.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.client.errors import ApiError, Unreachable
from muster.client.events import Recorder, reference_to
from muster.engine.plan import Bind, Evict, Nominate, Plan
from muster.model.gpu_request import accepted
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.services.scheduler.bind_requests import Binder
from muster.services.scheduler.cache import Assumption, NotCached, SchedulerCache
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.manifests import binding_error_condition, decided_devices
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.refusals import Cause, Refused, refusal_of
from muster.services.scheduler.resync import BINDER_LAG_S, Resync
from muster.services.scheduler.status_updater import StatusUpdater, Update, pod_condition


@dataclass(slots=True)
class Committer:
    """Carries out a plan, job by job."""

    _cache: SchedulerCache
    _binder: Binder
    _evictor: Evictor
    _resync: Resync
    _updater: StatusUpdater
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _recorder: Recorder | None
    _in_flight: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._in_flight = asyncio.Semaphore(self._options.write_workers)

    async def commit(self, plan: Plan, snapshot: ClusterSnapshot) -> list[Evict]:
        """Everything at once that does not depend on each other; returns when all is written, with
        the evictions that came to pass.
        """
        self._assume(plan)
        gangs: dict[str, list[Bind]] = {}
        for bind in plan.binds:
            gangs.setdefault(bind.job, []).append(bind)
        actors: dict[str, list[Evict]] = {}
        for evict in plan.evictions:
            actors.setdefault(evict.actor or evict.job, []).append(evict)
        waiting: dict[str, list[Nominate]] = {}
        for nomination in plan.nominations:
            waiting.setdefault(nomination.job, []).append(nomination)
        async with asyncio.TaskGroup() as work:
            for job, binds in gangs.items():
                work.create_task(self._bind_gang(job, binds, snapshot))
            evictions = [
                work.create_task(self._evict_for(actor, victims, waiting.get(actor, [])))
                for actor, victims in actors.items()
            ]
            for request in list(self._cache.stale_bind_requests()):
                work.create_task(self._delete_request(request.metadata.key, request.metadata.uid))

        return [evict for eviction in evictions for evict in eviction.result()]

    def _assume(self, plan: Plan) -> None:
        """From now on the decisions count, so that a cycle during the writes sees them."""
        for bind in plan.binds:
            self._cache.assume(bind.task, _assumption(bind))

    # -- binding ---------------------------------------------------------------------------------

    async def _bind_gang(self, job: str, binds: Sequence[Bind], snapshot: ClusterSnapshot) -> None:
        """All of it or nothing. Where it was refused before, one pod goes first: what refused it
        then may refuse it again, and is not to be asked about each pod.
        """
        first = 1 if self._cache.backoffs.was_refused(job) else len(binds)
        for begun, part in ((first, binds[:first]), (len(binds), binds[first:])):
            made = await asyncio.gather(*(self._bind_pod(bind, snapshot) for bind in part))
            refused = next((one for one in made if isinstance(one, Refused)), None)
            if refused is not None:
                self._withdraw_gang(job, binds, begun, refused)
                return
        self._cache.backoffs.gang_bound(job)

    def _withdraw_gang(self, job: str, binds: Sequence[Bind], begun: int, refused: Refused) -> None:
        """Take back the first `begun` binds; the others were not written."""
        self._log.warning("gang bind withdrawn", job=job, pods=len(binds), why=refused.text)
        self._meters.binds_refused.labels(refused.cause.value).inc()
        for bind in binds[begun:]:
            self._cache.forget(bind.task, triggers_cycle=False)
        for bind in binds[:begun]:
            with suppress(NotCached):  # The pod, or the node, may have gone meanwhile.
                self._cache.assume(bind.task, _assumption(bind, is_withdrawn=True))
            self._resync.withdraw(bind.task, bind.node)
            self._record_failed_event(bind, refused.text)
        lag_s = 0.0 if refused.is_passing else BINDER_LAG_S
        pause_s = self._cache.backoffs.gang_refused(job, refused, lag_s)
        self._record_held_event(job, refused, pause_s)

    async def _bind_pod(self, bind: Bind, snapshot: ClusterSnapshot) -> Pod | Refused:
        """The pod whose request was made, or why it could not be."""
        pod = self._cache.pod(bind.task)
        if pod is None:
            return Refused(Cause.TROUBLE, f"pod {bind.task} has gone", is_passing=True)
        memory_mib = int(snapshot.nodes.gpu_memory_mib[snapshot.nodes.row[bind.node]])
        gpu = accepted(snapshot.tasks.records[snapshot.tasks.row[bind.task]].gpu, memory_mib)
        self._updater.cancel(POD, pod.key)
        async with self._in_flight:
            try:
                await self._binder.bind(pod, bind, gpu)
            except (ApiError, Unreachable) as trouble:
                refused = refusal_of(trouble)
                return replace(refused, text=f"pod {pod.key}: {refused.text}")
        self._record_scheduled_event(pod, bind)
        return pod

    async def _delete_request(self, key: Key, uid: str) -> None:
        try:
            await self._binder.delete(key, uid)
        except (ApiError, Unreachable) as trouble:
            self._log.warning("bind request not deleted", request=str(key), error=str(trouble))

    # -- evicting --------------------------------------------------------------------------------

    async def _evict_for(
        self, actor: str, victims: Sequence[Evict], waiting: Sequence[Nominate]
    ) -> list[Evict]:
        gone, problem = await self._evictor.evict_for(actor, victims)
        if not problem:
            for nomination in waiting:
                self._record_pipelined_event(nomination)
        return gone

    # -- events ----------------------------------------------------------------------------------

    def _record_scheduled_event(self, pod: Pod, bind: Bind) -> None:
        label, shard = self._options.names.node_pool_label, self._options.shard
        if label and shard and shard != pod.metadata.labels.get(label):
            patch = {"metadata": {"labels": {label: shard}}}
            self._updater.put(Update(POD, pod.key, "node pool", patch, uid=pod.metadata.uid))
        if self._recorder is not None:
            text = (
                f"Successfully assigned pod {pod.key} to node {bind.node} at node-pool "
                f"{self._options.pool_name}"
            )
            self._recorder.normal(reference_to(POD, pod), names.REASON_SCHEDULED, text)

    def _record_failed_event(self, bind: Bind, why: str) -> None:
        pod = self._cache.pod(bind.task)
        if pod is None:
            return
        text = f"Failed to bind pod {pod.key} to node {bind.node}. {why}"
        condition = binding_error_condition(text, rfc3339(self._clock.now_s()))
        self._updater.put(pod_condition(pod, condition))
        if self._recorder is not None:
            self._recorder.warning(reference_to(POD, pod), names.REASON_FAILED_BINDING, text)

    def _record_held_event(self, job: str, refused: Refused, pause_s: float) -> None:
        group = self._cache.pod_group(job)
        if self._recorder is not None and group is not None:
            text = f"Binding was refused and is tried again in {pause_s:.0f} s. {refused.text}"
            about = reference_to(POD_GROUP, group)
            self._recorder.warning(about, names.REASON_FAILED_BINDING, text)

    def _record_pipelined_event(self, nomination: Nominate) -> None:
        pod = self._cache.pod(nomination.task)
        if self._recorder is not None and pod is not None:
            text = f"Pod {pod.key} was pipelined to node {nomination.node}"
            self._recorder.normal(reference_to(POD, pod), names.REASON_PIPELINED, text)


def _assumption(bind: Bind, is_withdrawn: bool = False) -> Assumption:
    devices = decided_devices(bind)
    return Assumption(TaskStatus.BINDING, bind.node, bind.gpu_shares, devices, is_withdrawn)
