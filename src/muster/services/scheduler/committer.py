"""Plan -> BindRequests, evictions. The only writer of decisions in this service.

All of a plan counts from the moment it is handed over (`start`); it is written in the background,
while the next cycle decides. A gang is bound as a whole: when one of its bind requests cannot be
made, those made with it are withdrawn, and its pods are pending again when nobody acts on them any
more. Victims are evicted before the event that a pod is pipelined in their place.

Whatever a write raises is the affair of that write: its outcome is unknown, the pods that it was
about are read again, and the others go on. `Deposed` ends what meets it: one who no longer leads
withdraws and reports nothing.

Victims count as leaving from the moment they are handed over, so a later cycle may bind their
beneficiary while they are still being asked. Its binds are written when all of them were told to
go: one that stays after all still holds its part of a queue's limit.
"""

import asyncio
import itertools
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.client.errors import AlreadyExists, ApiError, Deposed, Unreachable
from muster.client.events import Recorder, reference_to
from muster.engine.explain import FairShares
from muster.engine.plan import Bind, Evict, Nominate, Plan
from muster.model.charges import Charge
from muster.model.cluster_objects import RecentEviction
from muster.model.gpu_request import accepted
from muster.model.records import GpuRequest
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.runtime.parts import ended
from muster.services.scheduler.assumptions import Assumption
from muster.services.scheduler.bind_requests import Binder
from muster.services.scheduler.cache import NotCached, SchedulerCache
from muster.services.scheduler.eviction_history import EvictionHistory, PlannedEvictions
from muster.services.scheduler.eviction_texts import QueueStandings
from muster.services.scheduler.evictor import Evictor
from muster.services.scheduler.manifests import binding_error_condition, decided_devices
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.refusals import Cause, Refused, refusal_of
from muster.services.scheduler.resync import BINDER_LAG_S, Resync
from muster.services.scheduler.status_updater import StatusUpdater, Update, pod_condition
from muster.services.scheduler.write_turns import WriteTurns

_Decision = TypeVar("_Decision", Bind, Nominate)


class _Grant(NamedTuple):
    """What a request says of the pod beside its node."""

    gpu: GpuRequest
    charge: Charge


class _Decided(NamedTuple):
    """Where evictions come from: a plan, and how queues stood when it was made."""

    plan: int
    standings: QueueStandings | None


class _Room(NamedTuple):
    """What one plan makes for a beneficiary."""

    victims: list[Evict]
    is_made: "asyncio.Future[bool]"
    """Known when the evictions are written: whether all victims go."""

    def settle(self, is_made: bool) -> None:
        if not self.is_made.done():
            self.is_made.set_result(is_made)


@dataclass(slots=True)
class _Gang:
    """Pods of one job that are bound together, with what a request says of each."""

    job: str
    plan: int
    binds: Sequence[tuple[Bind, _Grant]]
    rooms: "Sequence[asyncio.Future[bool]]" = ()
    """What earlier plans still make for it."""
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
    _turns: WriteTurns
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _recorder: Recorder | None
    _plans: "itertools.count[int]" = field(default_factory=itertools.count, init=False)
    _writing: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _deleting: set[str] = field(default_factory=set, init=False)
    """Stale bind requests that are being deleted, by uid."""
    _rooms: "dict[str, list[asyncio.Future[bool]]]" = field(default_factory=dict, init=False)
    """What is being made for each beneficiary, while its victims are asked to leave."""
    _is_stopping: bool = field(default=False, init=False)

    def start(
        self,
        plan: Plan,
        snapshot: ClusterSnapshot,
        recent: Mapping[str, RecentEviction],
        shares: FairShares | None = None,
    ) -> None:
        """Let the plan count from now on, and have it written.

        `recent` is what later cycles must know of evictions, by pod, where budgets look back.
        `shares` is what is told to those who are evicted.
        """
        number = next(self._plans)
        for job, binds in _by_job(plan.binds).items():
            granted = [(bind, _grant(bind, snapshot)) for bind in binds]
            gang = _Gang(job, number, granted, tuple(self._rooms.get(job, ())))
            if self._assume_gang(gang):
                self._begin(self._bind_gang(gang), f"bind {job}")
        standings = None if shares is None else QueueStandings(snapshot.queues, shares)
        self._start_evictions(self._still_true(plan, snapshot), recent, _Decided(number, standings))
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
        """What is being written: gangs, the evictions of each plan, deletions of stale requests."""
        return len(self._writing)

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(_while_leading(work), name=name)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    # -- binding ---------------------------------------------------------------------------------

    def _assume_gang(self, gang: _Gang) -> bool:
        """From now on its pods count as bound, so that a cycle during the writes sees them; unless
        something of it has gone or changed while it was decided: then it is decided anew.
        """
        problem = next(filter(None, (self._obstacle(bind) for bind, _ in gang.binds)), "")
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

    def _obstacle(self, bind: Bind) -> str:
        """Why a pod that was to be bound no longer can be; empty if it can."""
        pod = self._cache.pod(bind.task)
        if pod is None:
            return f"pod {bind.task} has gone"
        if not self._cache.has_node(bind.node):
            return f"node {bind.node} has gone, or to another pool"
        if pod.metadata.deletion_timestamp is not None:
            return f"pod {pod.key} is being deleted"
        return f"pod {pod.key} is on a node" if pod.spec.node_name else ""

    async def _bind_gang(self, gang: _Gang) -> None:
        """All of it or nothing. Where it was refused before, one pod goes first: what refused it
        then may refuse it again, and is not to be asked about each pod.
        """
        first = 1 if self._cache.backoffs.was_refused(gang.job) else len(gang.binds)
        outcomes: list[Refused | None] = []
        with self._cache.assumptions.being_written(gang.uids):
            if gang.rooms:
                await asyncio.wait(gang.rooms)
            if not all(room.result() for room in gang.rooms):
                text = "a pod that was to make room stays"
                self._withdraw(gang, (), Refused(Cause.OUTDATED, text, is_passing=True))
                return
            for part in (gang.binds[:first], gang.binds[first:]):
                outcomes += await asyncio.gather(*(self._bind_pod(gang, *one) for one in part))
                refused = next(filter(None, outcomes), None)
                if refused is not None:
                    self._withdraw(gang, outcomes, refused)
                    return
        self._cache.backoffs.gang_bound(gang.job)

    def _withdraw(self, gang: _Gang, outcomes: Sequence[Refused | None], refused: Refused) -> None:
        """Take back the binds that have outcomes; those after them were not written."""
        if not gang.has_begun:  # Nobody has heard of it.
            for uid in gang.uids:
                self._cache.forget(uid)
            return
        is_outdated = refused.cause is Cause.OUTDATED
        tell = self._log.info if is_outdated else self._log.warning
        tell("gang bind withdrawn", job=gang.job, pods=len(gang.binds), why=refused.text)
        begun = gang.binds[: len(outcomes)]
        for bind, _ in gang.binds[len(outcomes) :]:
            self._cache.forget(bind.task, triggers_cycle=False)
        for (bind, _), outcome in zip(begun, outcomes, strict=True):
            with suppress(NotCached):  # The pod, or the node, may have gone meanwhile.
                self._cache.assume(bind.task, _assumption(bind, is_withdrawn=True))
            if outcome is not None and outcome.is_undone:
                # A request that is there all the same is another's.
                self._resync.enqueue(bind.task)
            else:
                self._resync.withdraw(bind.task, bind.node)
        if not is_outdated:
            self._refuse(gang, begun, refused)

    def _refuse(self, gang: _Gang, begun: Sequence[tuple[Bind, _Grant]], refused: Refused) -> None:
        """Count and tell that a gang was refused, and hold it back for a while."""
        self._meters.binds_refused.labels(refused.cause.value).inc()
        for bind, _ in begun:
            self._record_failed_event(bind, refused.text)
        lag_s = 0.0 if refused.is_passing else BINDER_LAG_S
        pause_s = self._cache.backoffs.gang_refused(gang.job, refused, lag_s)
        self._record_held_event(gang.job, refused, pause_s)

    async def _bind_pod(self, gang: _Gang, bind: Bind, grant: _Grant) -> Refused | None:
        """None when the request was made, else why it was not."""
        return await self._turns.until_unthrottled(
            gang.plan,
            gang.job.partition("/")[0],
            self._clock,
            lambda: self._try_to_bind(gang, bind, grant),
        )

    async def _try_to_bind(self, gang: _Gang, bind: Bind, grant: _Grant) -> Refused | None:
        if self._is_stopping and not gang.has_begun:
            return Refused(Cause.OUTDATED, "the scheduler stops", is_passing=True)
        pod = self._cache.pod(bind.task)
        if pod is None:
            return Refused(Cause.OUTDATED, f"pod {bind.task} has gone", is_passing=True)
        gang.has_begun = True
        try:
            self._updater.cancel(POD, pod.key)
            await self._binder.bind(pod, bind, grant.gpu, grant.charge)
            self._record_scheduled_event(pod, bind)
        except Deposed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this write
            if not isinstance(error, ApiError | Unreachable):
                self._log.error("write failed", job=gang.job, error=repr(error))
            refused = refusal_of(error)
            is_undone = refused.is_undone or isinstance(error, AlreadyExists)
            text = f"pod {pod.key}: {refused.text}"
            return replace(refused, text=text, is_undone=is_undone)
        return None

    async def _delete_request(self, key: Key, uid: str) -> None:
        try:
            await self._binder.delete(key, uid)
        except Deposed:
            raise
        except Exception as trouble:  # noqa: BLE001 - it is stale in the next cycle too
            self._log.warning("bind request not deleted", request=str(key), error=repr(trouble))
        finally:
            self._deleting.discard(uid)

    # -- evicting --------------------------------------------------------------------------------

    def _still_true(self, plan: Plan, snapshot: ClusterSnapshot) -> Plan:
        """Without evictions for those who were to get room on a node that has left meanwhile."""
        named = {one.node for one in plan.nominations} | {one.node for one in plan.evictions}
        left = {one for one in named & snapshot.nodes.row.keys() if not self._cache.has_node(one)}
        vain = {one.job for one in plan.nominations if one.node in left}
        vain |= {_beneficiary(one) for one in plan.evictions if one.node in left}
        if not vain:
            return plan
        self._log.info("decision outdated", jobs=sorted(vain), why="a node has left")
        self._cache.changed.set()
        nominations = tuple(one for one in plan.nominations if one.job not in vain)
        evictions = tuple(one for one in plan.evictions if _beneficiary(one) not in vain)
        return replace(plan, nominations=nominations, evictions=evictions)

    def _start_evictions(
        self, plan: Plan, recent: Mapping[str, RecentEviction], decided: _Decided
    ) -> None:
        """All victims count as leaving before the first is asked to."""
        victims = [evict for evict in plan.evictions if self._is_there(evict)]
        for evict in victims:
            self._cache.assume(evict.task, Assumption(TaskStatus.RELEASING, evict.node))
        if victims:
            counted = {evict.task: recent[evict.task] for evict in victims if evict.task in recent}
            planned = self._history.plan(counted) if counted else None
            rooms: dict[str, _Room] = {}
            for evict in victims:
                actor = _beneficiary(evict)
                if actor not in rooms:
                    rooms[actor] = _Room([], self._expected(actor))
                rooms[actor].victims.append(evict)
            self._begin(self._evict_all(rooms, plan.nominations, planned, decided), "evict")

    def _expected(self, actor: str) -> "asyncio.Future[bool]":
        """Whether it gets the room that a plan makes for it: what its later binds wait for."""
        is_made: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._rooms.setdefault(actor, []).append(is_made)

        def is_known(_: object) -> None:
            self._rooms[actor].remove(is_made)
            if not self._rooms[actor]:
                del self._rooms[actor]

        is_made.add_done_callback(is_known)
        return is_made

    def _is_there(self, evict: Evict) -> bool:
        """Else it has left by itself."""
        pod = self._cache.pod(evict.task)
        return pod is not None and not pod.has_ended

    async def _evict_all(
        self,
        rooms: Mapping[str, _Room],
        nominations: Iterable[Nominate],
        planned: PlannedEvictions | None,
        decided: _Decided,
    ) -> None:
        victims = [evict.task for room in rooms.values() for evict in room.victims]
        waiting = _by_job(nominations)
        gone: list[str] = []
        try:
            with self._cache.assumptions.being_written(victims):
                if planned is not None:
                    await planned.begin()
                await asyncio.gather(
                    *(
                        self._evict_for(actor, room, waiting.get(actor, ()), decided, gone)
                        for actor, room in rooms.items()
                    )
                )
        finally:
            if planned is not None:  # Else what never came to pass would count for ever.
                await planned.end(gone)
            for room in rooms.values():
                room.settle(is_made=False)

    async def _evict_for(
        self,
        actor: str,
        room: _Room,
        waiting: Sequence[Nominate],
        decided: _Decided,
        gone: list[str],
    ) -> None:
        """Into `gone` come those that went. What a write raises is contained by the evictor; what
        else goes wrong is this beneficiary's, and its victims are read again.
        """
        is_made = False
        try:
            evicted = await self._evictor.evict_for(actor, room.victims, *decided)
            is_made = evicted.refused is None
            gone += [evict.task for evict in evicted.gone]
            for nomination in waiting if is_made else ():
                self._record_pipelined_event(nomination)
        except Deposed:
            raise
        except Exception as error:  # noqa: BLE001 - a mistake of ours; others' victims go on
            self._log.error("eviction failed", actor=actor, error=repr(error))
            for evict in room.victims:
                self._resync.enqueue(evict.task)
        finally:
            room.settle(is_made)

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


async def _while_leading(work: Coroutine[None, None, None]) -> None:
    """To its end, or until we are deposed: the fence that said so ends the service as well."""
    with suppress(Deposed):
        await work


def _beneficiary(evict: Evict) -> str:
    return evict.actor or evict.job


def _by_job(decisions: Iterable[_Decision]) -> dict[str, list[_Decision]]:
    found: dict[str, list[_Decision]] = {}
    for decision in decisions:
        found.setdefault(decision.job, []).append(decision)
    return found


def _grant(bind: Bind, snapshot: ClusterSnapshot) -> _Grant:
    """What the pod gets of the GPUs of that node, and who pays."""
    memory_mib = int(snapshot.nodes.gpu_memory_mib[snapshot.nodes.row[bind.node]])
    task = snapshot.tasks.records[snapshot.tasks.row[bind.task]]
    job = snapshot.jobs.records[snapshot.jobs.row[bind.job]]
    charge = Charge(job.key, task.sub_group, job.queue, job.is_preemptible)
    return _Grant(accepted(task.gpu, memory_mib), charge)


def _assumption(bind: Bind, is_withdrawn: bool = False) -> Assumption:
    devices = decided_devices(bind)
    notes = bind.pod_annotations
    return Assumption(TaskStatus.BINDING, bind.node, bind.gpu_shares, devices, notes, is_withdrawn)
