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
from muster.model.public_reasons import Why, with_nearest
from muster.model.reason_codes import Code
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.manifests import unschedulable_condition
from muster.services.scheduler.messages import (
    UnschedulableMessage,
    may_clear_conditions,
    scheduling_conditions,
    shortened,
    stale_message,
    tells_of,
    unschedulable_message,
)
from muster.services.scheduler.options import Options
from muster.services.scheduler.pending_patches import GroupPatch
from muster.services.scheduler.share_reporter import ShareReporter
from muster.services.scheduler.status_updater import (
    Dropped,
    Ended,
    StatusUpdater,
    Update,
    Written,
    pod_condition,
)

_NOT_TRIED = frozenset({Code.PODS_MISSING, Code.GATED, Code.HELD, Code.WAITING_FOR_VICTIMS})
"""Said of jobs that were not refused: they are not all there, not wanted yet, or have a place."""
_NOT_FOR_AUTOSCALERS = _NOT_TRIED
"""No node that is added helps these."""

_STAMPS = {
    "last start": names.ANNOTATION_LAST_START,
    "last eviction": names.ANNOTATION_LAST_EVICTION,
    "stale since": names.ANNOTATION_STALE_SINCE,
    "idle since": names.ANNOTATION_IDLE_GPUS_SINCE,
}


@dataclass(slots=True)
class Reporter:
    """Writes conditions and events of pods and pod groups; what they show is not repeated."""

    _cache: SchedulerCache
    _updater: StatusUpdater
    _options: Options
    _clock: Clock
    _recorder: Recorder | None
    _shares: ShareReporter
    _marked: dict[str, str] = field(default_factory=dict, init=False)
    """Messages of conditions that we wrote on pods, by uid, until the watch shows them."""

    def report(self, result: CycleResult) -> None:
        stamps: dict[str, list[Stamp]] = {}
        for stamp in result.plan.stamps:
            stamps.setdefault(stamp.job, []).append(stamp)
        for job, listed in stamps.items():
            self._stamp(job, listed)
        self._marked = {
            uid: message for uid, message in self._marked.items() if self._cache.pod(uid)
        }
        for job in result.explanation.refusals:
            if (why := result.explanation.why(job)) is not None:
                self._report_waiting(job, why)
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
        if annotations.get(names.ANNOTATION_STALE_SINCE):
            active = sum(self._cache.is_placed(pod) for pod in self._cache.pods_of(job))
            self._record_event(group, names.REASON_STALE_JOB, stale_message(group, active))

    def _report_waiting(self, job: str, why: Why) -> None:
        group = self._cache.pod_group(job)
        if group is None:
            return
        code, pods = why.dominant.code, self._cache.pods_of(job)
        unschedulable = unschedulable_message(self._with_nearest(why))
        now = rfc3339(self._clock.now_s())
        has_places = any(self._cache.is_placed(pod) for pod in pods)
        # Of one that has begun nothing is said; but what was said before must stay true.
        is_said = not has_places or bool(group.status.scheduling_conditions)
        # A group that backs off is tried no more once it has a condition: no room is one thing,
        # pods that are yet to come another.
        if is_said and (code not in _NOT_TRIED or group.scheduling_backoff == NO_BACKOFF):
            self._report_unschedulable(group, pods, unschedulable, now)
        if group.marks_unschedulable and code not in _NOT_FOR_AUTOSCALERS:
            self._mark_pods(pods, unschedulable, now)

    def _with_nearest(self, why: Why) -> Why:
        """With what was perhaps meant, where a queue is not there."""
        if why.dominant.code is not Code.QUEUE_DOES_NOT_EXIST:
            return why
        return with_nearest(why, self._cache.queue_names())

    def _report_unschedulable(
        self, group: PodGroup, pods: Sequence[Pod], unschedulable: UnschedulableMessage, now: str
    ) -> None:
        conditions = scheduling_conditions(group, self._options.pool_name, unschedulable, now)
        if conditions is None:
            return
        self._put_conditions(group, conditions)
        reason, message = names.REASON_UNSCHEDULABLE, shortened(unschedulable.message)
        if unschedulable.dominant.code in _NOT_TRIED:
            reason = names.REASON_NOT_READY
            self._tell_first(pods, message)
        self._record_event(group, reason, message)

    def _tell_first(self, pods: Sequence[Pod], message: str) -> None:
        """On one of the pods too: who waits for it looks there. Not a condition, for autoscalers
        would buy nodes for a gang that is not all there.
        """
        first = min(pods, key=lambda pod: pod.metadata.name, default=None)
        if self._recorder is not None and first is not None:
            self._recorder.normal(reference_to(POD, first), names.REASON_NOT_READY, message)

    def _mark_pods(
        self, pods: Sequence[Pod], unschedulable: UnschedulableMessage, now: str
    ) -> None:
        for pod in pods:
            waits = pod.status.phase == "Pending" and not self._cache.is_placed(pod)
            if waits and not self._is_marked(pod, unschedulable):
                self._mark_pod(pod, unschedulable.message, now)

    def _is_marked(self, pod: Pod, unschedulable: UnschedulableMessage) -> bool:
        """Whether the pod has the condition, or will when the watch has caught up."""
        if tells_of(pod, unschedulable):
            self._marked.pop(pod.metadata.uid, None)
            return True
        return unschedulable.is_told_by(self._marked.get(pod.metadata.uid, ""))

    def _mark_pod(self, pod: Pod, message: str, now: str) -> None:
        uid = pod.metadata.uid
        self._marked[uid] = message

        def ended(end: Ended) -> None:
            if not isinstance(end, Written) and self._marked.get(uid) == message:
                del self._marked[uid]

        self._updater.put(pod_condition(pod, unschedulable_condition(message, now), ended))
        if self._recorder is not None:
            said = shortened(message)
            self._recorder.warning(reference_to(POD, pod), names.REASON_UNSCHEDULABLE, said)

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
