"""Condition first, then eviction; events with the numbers; disruption budgets are obeyed.

Victims of one beneficiary go side by side, after one of them has gone alone: where that is refused,
most often all would be. A victim whose eviction is refused is passed over for a while, and no
longer says that it is about to be disrupted. Evictions take turns with binds, plan by plan.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.client.errors import ApiError, Deposed, NotFound, Unreachable
from muster.client.events import Recorder, reference_to
from muster.client.write import Deletion, Writer
from muster.engine.plan import Evict
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.eviction_texts import (
    QueueStandings,
    eviction_annotations,
    eviction_message,
)
from muster.services.scheduler.manifests import disruption_condition, refused_disruption_condition
from muster.services.scheduler.messages import owner_reference
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.refusals import Cause, Refused, cause_of, refusal_of
from muster.services.scheduler.resync import Resync
from muster.services.scheduler.status_updater import StatusUpdater, pod_condition
from muster.services.scheduler.write_turns import WriteTurns


@dataclass(frozen=True, slots=True)
class Evicted:
    """What became of the victims of one beneficiary."""

    gone: Sequence[Evict]
    """Those that went, in the order in which they were listed."""
    refused: Refused | None = None
    """Why the rest did not; None when all did."""


@dataclass(slots=True)
class _Round:
    """The evictions for one beneficiary, as far as they have come."""

    plan: int
    sizes: Counter[str]
    """Victims of each job."""
    standings: QueueStandings | None = None
    gone: list[Evict] = field(default_factory=list)
    refused: Refused | None = None
    """The first refusal: from then on nobody else begins."""


@dataclass(slots=True)
class _Attempt:
    """The eviction of one victim, asked for as often as the server says "later"."""

    pod: Pod
    evict: Evict
    is_marked: bool = False
    """Whether the pod says that it is about to be disrupted."""
    is_spared: bool = False


@dataclass(slots=True)
class Evictor:
    """Removes the victims of beneficiaries."""

    _cache: SchedulerCache
    _writer: Writer
    _resync: Resync
    _updater: StatusUpdater
    _turns: WriteTurns
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _recorder: Recorder | None

    async def evict_for(
        self,
        actor: str,
        victims: Iterable[Evict],
        plan: int,
        standings: QueueStandings | None = None,
    ) -> Evicted:
        """Ask the victims to leave, in turn with what else `plan` and others write. All count as
        leaving by now; those that are not asked to go are forgotten again. They are told how
        queues stood when it was decided.

        The first refusal ends it: the beneficiary cannot start without all of them, so nobody else
        is made to leave for nothing.
        """
        listed = list(victims)
        found = ((self._cache.pod(evict.task), evict) for evict in listed)
        present = [(pod, evict) for pod, evict in found if pod is not None and not pod.has_ended]
        evictions = _Round(plan, Counter(evict.job for evict in listed), standings)
        for side_by_side in (present[:1], present[1:]):
            await asyncio.gather(*(self._evict_next(evictions, *one) for one in side_by_side))
        if evictions.refused is not None:
            self._log.info("eviction refused", actor=actor, why=evictions.refused.text)
            self._cache.backoffs.actor_refused(actor, evictions.refused)
        else:
            self._cache.backoffs.actor_served(actor)
        order = {evict.task: at for at, evict in enumerate(listed)}
        gone = sorted(evictions.gone, key=lambda evict: order[evict.task])
        return Evicted(gone, evictions.refused)

    async def _evict_next(self, evictions: _Round, pod: Pod, evict: Evict) -> None:
        attempt = _Attempt(pod, evict)

        async def ask() -> Refused | None:
            if evictions.refused is not None:
                attempt.is_spared = True
                return None
            return await self._evict(attempt, evictions)

        refused = await self._turns.until_unthrottled(
            evictions.plan, pod.metadata.namespace, self._clock, ask
        )
        if attempt.is_spared:
            self._spare(attempt)
        elif refused is None:
            self._record_evicted_event(pod, evict, evictions)
            evictions.gone.append(evict)
        else:
            self._refuse(pod, refused, attempt.is_marked)
            if evictions.refused is None:
                evictions.refused = replace(refused, text=f"pod {pod.key} ({refused.text})")

    def _spare(self, attempt: _Attempt) -> None:
        """Another was refused first; this one may have been told that it is about to go."""
        if attempt.is_marked:
            self._unmark(attempt.pod, "another pod of the same plan may not go")
        self._cache.forget(attempt.evict.task, triggers_cycle=False)

    async def _evict(self, attempt: _Attempt, evictions: _Round) -> Refused | None:
        """None when the pod is on its way out or spared, else why not."""
        pod, evict = attempt.pod, attempt.evict
        self._updater.cancel(POD, pod.key)  # what was said of an earlier attempt
        try:
            if self._options.marks_evicted_pods and not attempt.is_marked:
                said = self._message(pod, evict, evictions.standings)
                condition = disruption_condition(said, self._now())
                await self._writer.set_condition(POD, pod.key, condition, uid=pod.metadata.uid)
                attempt.is_marked = True
            if evictions.refused is not None:  # while this was written
                attempt.is_spared = True
                return None
            deletion = Deletion(uid=pod.metadata.uid)
            if self._options.evicts_by_deletion:
                await self._writer.delete(POD, pod.key, deletion)
            else:
                await self._writer.evict(pod.key, deletion)
        except Deposed:
            raise
        except Exception as error:  # noqa: BLE001 - of this eviction, whatever it is
            if isinstance(error, NotFound) and cause_of(error) is not Cause.ADMISSION:
                return None
            if not isinstance(error, ApiError | Unreachable):
                self._log.error("write failed", job=evict.job, error=repr(error))
            return refusal_of(error)
        return None

    def _refuse(self, pod: Pod, refused: Refused, is_marked: bool) -> None:
        uid = pod.metadata.uid
        self._meters.evictions_refused.labels(refused.cause.value).inc()

        def stays(_: Pod) -> None:
            if is_marked:
                self._unmark(pod, refused.text)

        if refused.is_undone:
            stays(pod)
            self._cache.forget(uid, triggers_cycle=False)
        else:
            self._resync.enqueue(uid, if_it_stays=stays)
        self._cache.backoffs.victim_refused(pod, refused)

    def _unmark(self, pod: Pod, why: str) -> None:
        condition = refused_disruption_condition(why, self._now())
        self._updater.put(pod_condition(pod, condition, slot="disruption"))

    def _now(self) -> str:
        return rfc3339(self._clock.now_s())

    def _record_evicted_event(self, pod: Pod, evict: Evict, evictions: _Round) -> None:
        group = self._cache.pod_group(evict.job)
        if group is None:
            return
        now_s = self._clock.monotonic_s()
        self._meters.evicted(group, self._options.pool_name, evict.action, now_s)
        if self._recorder is None:
            return
        message = self._message(pod, evict, evictions.standings)
        notes = eviction_annotations(evict, evictions.sizes[evict.job])
        told = (reference_to(POD_GROUP, group), reference_to(POD, pod), owner_reference(group))
        for about in told:
            if about is not None:
                self._recorder.record(
                    about, "Normal", names.REASON_EVICT, message, notes, folds=False
                )

    def _message(self, pod: Pod, evict: Evict, standings: QueueStandings | None) -> str:
        actor = self._cache.pod_group(evict.actor) if evict.actor else None
        group = self._cache.pod_group(evict.job)
        return eviction_message(pod, evict, actor, group, standings)
