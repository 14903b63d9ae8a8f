"""Plan -> BindRequests, evictions. The only writer of decisions in this service.

All of a plan counts from the moment it is handed over (`start`); it is written in the background,
while the next cycle decides. A gang is bound as a whole: when one of its bind requests cannot be
made, those made with it are withdrawn, and its pods are pending again when nobody acts on them any
more. Victims are evicted before the event that a pod is pipelined in their place.

Whatever a write raises is the affair of that write: its outcome is unknown, the pods that it was
about are read again, and the others go on.
"""

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

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
from muster.model.cluster_objects import RecentEviction
from muster.model.gpu_request import accepted
from muster.model.records import GpuRequest
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.runtime.parts import ended
from muster.services.scheduler.bind_requests import Binder
from muster.services.scheduler.cache import Assumption, NotCached, SchedulerCache
from muster.services.scheduler.eviction_history import EvictionHistory, PlannedEvictions
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.manifests import binding_error_condition, decided_devices
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.refusals import Cause, Refused, refusal_of
from muster.services.scheduler.resync import BINDER_LAG_S, Resync
from muster.services.scheduler.status_updater import StatusUpdater, Update, pod_condition
from muster.services.scheduler.write_turns import WriteTurns

_Decision = TypeVar("_Decision", Bind, Nominate)


@dataclass(slots=True)
class _Gang:
    """Pods of one job that are bound together, with what a request says of their GPUs."""

    job: str
    plan: int
    binds: Sequence[tuple[Bind, GpuRequest]]
    has_begun: bool = False
    """Whether a request of it may have reached the server."""

    @property
    def uids(self) -> list[str]:
        return [bind.task for bind, _ in self.binds]


@dataclass(slots=True)
class Committer:
    """Carries out plans, job by job."""

    _cache: SchedulerCache
    _binder: Binder
    _evictor: Evictor
    _history: EvictionHistory
    _resync: Resync
    _updater: StatusUpdater
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _recorder: Recorder | None
    _turns: WriteTurns = field(init=False)
    _plans: "itertools.count[int]" = field(default_factory=itertools.count, init=False)
    _writing: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _deleting: set[str] = field(default_factory=set, init=False)
    """Stale bind requests that are being deleted, by uid."""
    _is_stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._turns = WriteTurns(self._options.write_workers)

    def start(
        self, plan: Plan, snapshot: ClusterSnapshot, recent: Mapping[str, RecentEviction]
    ) -> None:
        """Let the plan count from now on, and have it written.

        `recent` is what later cycles must know of evictions, by pod, where budgets look back.
        """
        number = next(self._plans)
        for job, binds in _by_job(plan.binds).items():
            gang = _Gang(job, number, [(bind, _gpu(bind, snapshot)) for bind in binds])
            if self._assume_gang(gang):
                self._begin(self._bind_gang(gang), f"bind {job}")
        self._start_evictions(plan, recent)
        for request in list(self._cache.stale_bind_requests()):
            uid = request.metadata.uid
            if uid not in self._deleting:
                self._deleting.add(uid)
                self._begin(self._delete_request(request.metadata.key, uid), "delete request")

    async def written(self) -> None:
        """Returns when nothing is being written any more."""
        while self._writing:
            await asyncio.wait(self._writing)

    def stop(self) -> None:
        """Finish what has begun, and begin nothing more."""
        self._is_stopping = True

    async def abandon(self) -> None:
        """Write no more, whatever has begun."""
        await ended(list(self._writing))

    @property
    def in_flight(self) -> int:
        """Gangs, beneficiaries of evictions and requests that are being written."""
        return len(self._writing)

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    # -- binding ---------------------------------------------------------------------------------

    def _assume_gang(self, gang: _Gang) -> bool:
        """From now on its pods count as bound, so that a cycle during the writes sees them; unless
        something of it has gone or changed while it was decided: then it is decided anew.
        """
        problem = next(filter(None, (self._obstacle(uid) for uid in gang.uids)), "")
        try:
            for bind, _ in gang.binds if not problem else ():
                self._cache.assume(bind.task, _assumption(bind))
        except NotCached as gone:
            problem = f"{gone} has gone"
        if problem:
            self._log.info("decision outdated", job=gang.job, pods=len(gang.binds), why=problem)
            for uid in gang.uids:
                self._cache.forget(uid)
            self._cache.changed.set()
        return not problem

    def _obstacle(self, uid: str) -> str:
        """Why a pod that was to be bound no longer can be; empty if it can."""
        pod = self._cache.pod(uid)
        if pod is None:
            return f"pod {uid} has gone"
        if pod.metadata.deletion_timestamp is not None:
            return f"pod {pod.key} is being deleted"
        return f"pod {pod.key} is on a node" if pod.spec.node_name else ""

    async def _bind_gang(self, gang: _Gang) -> None:
        """All of it or nothing. Where it was refused before, one pod goes first: what refused it
        then may refuse it again, and is not to be asked about each pod.
        """
        first = 1 if self._cache.backoffs.was_refused(gang.job) else len(gang.binds)
        with self._cache.being_written(gang.uids):
            for begun, part in ((first, gang.binds[:first]), (None, gang.binds[first:])):
                made = await asyncio.gather(*(self._bind_pod(gang, *one) for one in part))
                refused = next(filter(None, made), None)
                if refused is not None:
                    self._withdraw(gang, begun, refused)
                    return
        self._cache.backoffs.gang_bound(gang.job)

    def _withdraw(self, gang: _Gang, begun: int | None, refused: Refused) -> None:
        """Take back the first `begun` binds (None: all); the others were not written."""
        if not gang.has_begun:  # Nobody has heard of it.
            for uid in gang.uids:
                self._cache.forget(uid)
            return
        pods = len(gang.binds)
        self._log.warning("gang bind withdrawn", job=gang.job, pods=pods, why=refused.text)
        self._meters.binds_refused.labels(refused.cause.value).inc()
        for bind, _ in gang.binds[begun:] if begun is not None else ():
            self._cache.forget(bind.task, triggers_cycle=False)
        for bind, _ in gang.binds[:begun]:
            with suppress(NotCached):  # The pod, or the node, may have gone meanwhile.
                self._cache.assume(bind.task, _assumption(bind, is_withdrawn=True))
            self._resync.withdraw(bind.task, bind.node)
            self._record_failed_event(bind, refused.text)
        lag_s = 0.0 if refused.is_passing else BINDER_LAG_S
        pause_s = self._cache.backoffs.gang_refused(gang.job, refused, lag_s)
        self._record_held_event(gang.job, refused, pause_s)

    async def _bind_pod(self, gang: _Gang, bind: Bind, gpu: GpuRequest) -> Refused | None:
        """None when the request was made, else why it was not."""
        async with self._turns.turn(gang.plan):
            if self._is_stopping and not gang.has_begun:
                return Refused(Cause.TROUBLE, "the scheduler stops", is_passing=True)
            pod = self._cache.pod(bind.task)
            if pod is None:
                return Refused(Cause.TROUBLE, f"pod {bind.task} has gone", is_passing=True)
            gang.has_begun = True
            try:
                self._updater.cancel(POD, pod.key)
                await self._binder.bind(pod, bind, gpu)
                self._record_scheduled_event(pod, bind)
            except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this write
                if not isinstance(error, ApiError | Unreachable):
                    self._log.error("write failed", job=gang.job, error=repr(error))
                refused = refusal_of(error)
                return replace(refused, text=f"pod {pod.key}: {refused.text}")
        return None

    async def _delete_request(self, key: Key, uid: str) -> None:
        try:
            await self._binder.delete(key, uid)
        except Exception as trouble:  # noqa: BLE001 - it is stale in the next cycle too
            self._log.warning("bind request not deleted", request=str(key), error=repr(trouble))
        finally:
            self._deleting.discard(uid)

    # -- evicting --------------------------------------------------------------------------------

    def _start_evictions(self, plan: Plan, recent: Mapping[str, RecentEviction]) -> None:
        """All victims count as leaving before the first is asked to."""
        victims = [evict for evict in plan.evictions if self._is_there(evict)]
        for evict in victims:
            self._cache.assume(evict.task, Assumption(TaskStatus.RELEASING, evict.node))
        if victims:
            counted = {evict.task: recent[evict.task] for evict in victims if evict.task in recent}
            planned = self._history.plan(counted) if counted else None
            self._begin(self._evict_all(victims, plan.nominations, planned), "evict")

    def _is_there(self, evict: Evict) -> bool:
        """Else it has left by itself."""
        pod = self._cache.pod(evict.task)
        return pod is not None and not pod.has_ended

    async def _evict_all(
        self,
        victims: Sequence[Evict],
        nominations: Iterable[Nominate],
        planned: PlannedEvictions | None,
    ) -> None:
        actors: dict[str, list[Evict]] = {}
        for evict in victims:
            actors.setdefault(evict.actor or evict.job, []).append(evict)
        waiting = _by_job(nominations)
        with self._cache.being_written([evict.task for evict in victims]):
            if planned is not None:
                await planned.begin()
            gone = await asyncio.gather(
                *(
                    self._evict_for(actor, group, waiting.get(actor, ()))
                    for actor, group in actors.items()
                )
            )
        if planned is not None:
            await planned.end([evict.task for group in gone for evict in group])

    async def _evict_for(
        self, actor: str, victims: Sequence[Evict], waiting: Sequence[Nominate]
    ) -> Sequence[Evict]:
        """Those that went."""
        try:
            gone, problem = await self._evictor.evict_for(actor, victims)
        except Exception as error:  # noqa: BLE001 - what it did is found out by reading
            self._log.error("write failed", job=actor, error=repr(error))
            for evict in victims:
                self._resync.enqueue(evict.task)
            return victims  # Rather too many are counted than too few.
        for nomination in waiting if not problem else ():
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


def _by_job(decisions: Iterable[_Decision]) -> dict[str, list[_Decision]]:
    found: dict[str, list[_Decision]] = {}
    for decision in decisions:
        found.setdefault(decision.job, []).append(decision)
    return found


def _gpu(bind: Bind, snapshot: ClusterSnapshot) -> GpuRequest:
    """What the pod gets of the GPUs of that node."""
    memory_mib = int(snapshot.nodes.gpu_memory_mib[snapshot.nodes.row[bind.node]])
    return accepted(snapshot.tasks.records[snapshot.tasks.row[bind.task]].gpu, memory_mib)


def _assumption(bind: Bind, is_withdrawn: bool = False) -> Assumption:
    devices = decided_devices(bind)
    return Assumption(TaskStatus.BINDING, bind.node, bind.gpu_shares, devices, is_withdrawn)
