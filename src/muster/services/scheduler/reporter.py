"""What a cycle found out -> conditions, annotations and events, in line with the status updater."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.api import names
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.podgroup import NO_BACKOFF, PodGroup, SchedulingCondition
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.errors import Conflict
from muster.client.events import Recorder, reference_to
from muster.engine.cycle import CycleResult
from muster.engine.plan import Stamp
from muster.model.public_reasons import Why
from muster.model.reason_codes import Code
from muster.model.reasons import Reason
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.kai_texts import Waiter
from muster.services.scheduler.messages import (
    Telling,
    UnschedulableMessage,
    may_clear_conditions,
    scheduling_conditions,
    shortened,
    stale_message,
    told_by_conditions,
    unschedulable_message,
    workload_of,
)
from muster.services.scheduler.options import Options
from muster.services.scheduler.outdated_texts import OutdatedTexts
from muster.services.scheduler.pending_patches import GroupPatch
from muster.services.scheduler.pod_marks import PodMarks
from muster.services.scheduler.share_reporter import ShareReporter
from muster.services.scheduler.status_updater import (
    Dropped,
    Ended,
    StatusUpdater,
    Update,
    Written,
)

_NOT_TRIED = frozenset(
    {Code.PODS_MISSING, Code.GATED, Code.HELD, Code.WAITING_FOR_VICTIMS, Code.BIND_FAILED}
)
"""Said of jobs that were not refused a place: they are not all there, not wanted yet, or have one.
"""
_NOT_FOR_AUTOSCALERS = _NOT_TRIED
"""No node that is added helps these."""

_MOST_TOLD = 100
"""Pods of a gang that are told that it is not all there."""

_STAMPS = {
    "last start": names.ANNOTATION_LAST_START,
    "last eviction": names.ANNOTATION_LAST_EVICTION,
    "stale since": names.ANNOTATION_STALE_SINCE,
    "idle since": names.ANNOTATION_IDLE_GPUS_SINCE,
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A group that waits, and what is to be said of it."""

    group: PodGroup
    pods: Sequence[Pod]
    has_places: bool
    """Some of its pods have begun."""
    message: UnschedulableMessage


@dataclass(slots=True)
class Reporter:
    """Writes conditions and events of pods and pod groups; what they show is not repeated."""

    _cache: SchedulerCache
    _updater: StatusUpdater
    _options: Options
    _clock: Clock
    _recorder: Recorder | None
    _shares: ShareReporter
    _marks: PodMarks = field(init=False)
    _outdated: OutdatedTexts = field(default_factory=OutdatedTexts, init=False)

    def __post_init__(self) -> None:
        self._marks = PodMarks(self._cache, self._updater, self._clock, self._recorder)

    def report(self, result: CycleResult) -> None:
        stamps: dict[str, list[Stamp]] = {}
        for stamp in result.plan.stamps:
            stamps.setdefault(stamp.job, []).append(stamp)
        for job, listed in stamps.items():
            self._stamp(job, listed)
        self._marks.forget_the_gone()
        outdated: dict[str, _Waiting] = {}
        for job in result.explanation.refusals:
            why, group = result.explanation.why(job), self._cache.pod_group(job)
            if why is None or group is None:
                continue
            waiting = self._waiting(job, group, why)
            if self._report_waiting(waiting) is Telling.NUMBERS_ASIDE:
                outdated[job] = waiting
        self._outdated.keep(outdated, self._clock.monotonic_s())
        for job in self._outdated.due(self._clock.monotonic_s()):
            self._report_waiting(outdated[job], is_due=True)
        for job in self._cache.jobs_with_conditions():
            if job not in result.explanation.refusals:
                self._clear(job)
        self._shares.report(result.fair_shares)

    def mark_idle(self, job: str, since_s: float | None, said: str = "") -> None:
        """Show on the job's group since when its GPUs do no work; None: they do, or nobody knows.

        A group that shows such a time already keeps it.
        """
        group = self._cache.pod_group(job)
        if group is None:
            return
        is_marked = names.ANNOTATION_IDLE_GPUS_SINCE in group.metadata.annotations
        if is_marked == (since_s is not None):
            return
        self._stamp(job, [Stamp(job, "idle since", since_s)])
        if since_s is not None:
            self._record_event(group, names.REASON_IDLE_GPUS, said)

    def _stamp(self, job: str, stamps: Sequence[Stamp]) -> None:
        group = self._cache.pod_group(job)
        if group is None:
            return
        have = group.metadata.annotations
        annotations: dict[str, str | None] = {}
        for stamp in stamps:
            key = _STAMPS[stamp.what]
            wanted = None if stamp.at_s is None else rfc3339(stamp.at_s)
            if have.get(key) != wanted:
                annotations[key] = wanted
        if annotations:
            assumed = self._cache.assume_patch(group, GroupPatch(annotations=annotations))
            patch = {"metadata": {"annotations": dict(assumed.annotations)}}
            self._put(group, assumed, patch)
        since_s = next((one.at_s for one in stamps if one.what == "stale since"), None)
        if annotations.get(names.ANNOTATION_STALE_SINCE) and since_s is not None:
            placed = [pod for pod in self._cache.pods_of(job) if self._cache.is_placed(pod)]
            text = stale_message(group, placed, since_s, self._options.staleness_grace_s)
            self._record_event(group, names.REASON_STALE_JOB, text)

    def next_due_s(self) -> float | None:
        """When a cycle is needed only because something that was said is outdated, on the
        monotonic clock.
        """
        return self._outdated.next_s()

    def _waiting(self, job: str, group: PodGroup, why: Why) -> _Waiting:
        pods = self._cache.pods_of(job)
        made_by = workload_of(group) if group.metadata.owner_references else ""
        waiting = sorted(
            (pod for pod in pods if not self._cache.is_placed(pod)), key=lambda pod: str(pod.key)
        )
        pod, asks = self._first_of(waiting, why)
        who = Waiter(self._options.pool_name, group, pod, asks)
        has_places = len(waiting) < len(pods)
        message = unschedulable_message(why, who, made_by)
        return _Waiting(group, pods, has_places, message)

    def _first_of(self, waiting: Sequence[Pod], why: Why) -> tuple[str, Mapping[str, int]]:
        """Of pods that wait the first, by name; where one asks for what no node has, that one, and
        all that it asks for.
        """
        refusal = why.dominant.refusal
        if refusal is not None and refusal.reason is Reason.TOO_LARGE and refusal.evidence:
            most = refusal.evidence[0]
            for pod in waiting:
                asks = self._cache.asks_of(pod)
                if asks.get(most.resource) == most.need:
                    return str(pod.key), asks
        return str(waiting[0].key) if waiting else "", {}

    def _report_waiting(self, waiting: _Waiting, is_due: bool = False) -> Telling:
        """Returns what is told already; `is_due`: other numbers are reason enough to write."""
        group, told = waiting.group, Telling.ALL
        code = waiting.message.dominant.code
        # Of one that has begun nothing is said; but what was said before must stay true.
        is_said = not waiting.has_places or bool(group.status.scheduling_conditions)
        # A group that backs off is tried no more once it has a condition: no room is one thing,
        # pods that are yet to come another.
        if is_said and (code not in _NOT_TRIED or group.scheduling_backoff == NO_BACKOFF):
            told = self._report_unschedulable(waiting, is_due)
        if group.marks_unschedulable and code not in _NOT_FOR_AUTOSCALERS:
            marked = self._marks.mark(waiting.pods, waiting.message.of_pods, is_due)
            told = marked if told is Telling.ALL else told
        return told

    def _report_unschedulable(self, waiting: _Waiting, is_due: bool) -> Telling:
        group, unschedulable, pool = waiting.group, waiting.message, self._options.pool_name
        told = told_by_conditions(group, pool, unschedulable)
        if told is Telling.NOTHING or (is_due and told is Telling.NUMBERS_ASIDE):
            now = rfc3339(self._clock.now_s())
            self._put_conditions(group, scheduling_conditions(group, pool, unschedulable, now))
        if told is Telling.NOTHING:
            self._tell_of(waiting)
        return told

    def _tell_of(self, waiting: _Waiting) -> None:
        reason, message = names.REASON_UNSCHEDULABLE, shortened(waiting.message.message)
        if waiting.message.dominant.code in _NOT_TRIED:
            reason = names.REASON_NOT_READY
            self._tell_pods(waiting.pods, message)
        self._record_event(waiting.group, reason, message)

    def _tell_pods(self, pods: Sequence[Pod], message: str) -> None:
        """On the pods too: who waits for one looks there. No condition, for autoscalers would buy
        nodes for a gang that is not all there.
        """
        if self._recorder is None:
            return
        for pod in sorted(pods, key=lambda pod: pod.metadata.name)[:_MOST_TOLD]:
            self._recorder.normal(reference_to(POD, pod), names.REASON_NOT_READY, message)

    def _clear(self, job: str) -> None:
        group = self._cache.pod_group(job)
        if group is not None and may_clear_conditions(group, self._cache.pods_of(job)):
            self._put_conditions(group, [])

    def _put_conditions(self, group: PodGroup, conditions: list[dict[str, Any]]) -> None:
        """The whole list is replaced: only if it is the one that we have read."""
        read = tuple(from_builtins(SchedulingCondition, one) for one in conditions)
        assumed = self._cache.assume_patch(group, GroupPatch(conditions=read))
        patch = {
            "metadata": {"resourceVersion": group.metadata.resource_version},
            "status": {"schedulingConditions": conditions or None},
        }
        self._put(group, assumed, patch, "status")

    def _put(
        self, group: PodGroup, assumed: GroupPatch, patch: Mapping[str, Any], subresource: str = ""
    ) -> None:
        def ended(end: Ended) -> None:
            if isinstance(end, Written):
                self._cache.confirm_patch(group.key, assumed, end.version)
                return
            self._cache.forget_patch(group.key, assumed)
            if isinstance(end, Dropped) and isinstance(end.problem, Conflict):
                self._cache.changed.set()  # Somebody else wrote: decide again by what is there now.

        uid = group.metadata.uid
        self._updater.put(
            Update(POD_GROUP, group.key, assumed.slot, patch, subresource, on_end=ended, uid=uid)
        )

    def _record_event(self, group: PodGroup, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.normal(reference_to(POD_GROUP, group), reason, message)
