"""What a cycle found out -> conditions, annotations and events, in line with the status updater."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.api import names
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.podgroup import PodGroup, SchedulingCondition
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.errors import Conflict
from muster.client.events import Recorder, reference_to
from muster.engine.cycle import CycleResult
from muster.engine.plan import Stamp
from muster.model.reasons import Reason, Refusal
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.manifests import unschedulable_condition
from muster.services.scheduler.messages import (
    UnschedulableMessage,
    has_unschedulable_condition,
    may_clear_conditions,
    not_ready_message,
    scheduling_conditions,
    stale_message,
    unschedulable_message,
)
from muster.services.scheduler.options import Options
from muster.services.scheduler.pending_patches import GroupPatch
from muster.services.scheduler.status_updater import (
    Dropped,
    Ended,
    StatusUpdater,
    Update,
    Written,
    pod_condition,
)

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
    _marked: dict[str, str] = field(default_factory=dict, init=False)
    """Messages of conditions that we wrote on pods, by uid, until the watch shows them."""

    def report(self, result: CycleResult) -> None:
        stamps: dict[str, list[Stamp]] = {}
        for stamp in result.plan.stamps:
            stamps.setdefault(stamp.job, []).append(stamp)
        for job, listed in stamps.items():
            self._stamp(job, listed)
        nominated = {nomination.job for nomination in result.plan.nominations}
        self._marked = {
            uid: message for uid, message in self._marked.items() if self._cache.pod(uid)
        }
        for job, refusals in result.explanation.refusals.items():
            if job not in nominated:
                self._report_refusal(job, refusals)
        for job in self._cache.jobs_with_conditions():
            if job not in result.explanation.refusals:
                self._clear(job)

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

    def _report_refusal(self, job: str, refusals: Sequence[Refusal]) -> None:
        group = self._cache.pod_group(job)
        if group is None:
            return
        pods, unschedulable = self._cache.pods_of(job), unschedulable_message(refusals)
        if all(refusal.reason is Reason.TOO_FEW_TASKS for refusal in refusals):
            message = not_ready_message(group, unschedulable.message)
            self._record_event(group, names.REASON_NOT_READY, message)
            self._tell_first(pods, message)
            return
        now = rfc3339(self._clock.now_s())
        has_begun = any(self._cache.is_placed(pod) for pod in pods)
        # Of one that has begun nothing is said; but what was said before must stay true.
        if not has_begun or group.status.scheduling_conditions:
            self._report_unschedulable(group, unschedulable, now)
        if group.marks_unschedulable:
            self._mark_pods(pods, unschedulable, now)

    def _tell_first(self, pods: Sequence[Pod], message: str) -> None:
        """On one of the pods too: who waits for it looks there. Not a condition, for autoscalers
        would buy nodes for a gang that is not all there.
        """
        first = min(pods, key=lambda pod: pod.metadata.name, default=None)
        if self._recorder is not None and first is not None:
            self._recorder.normal(reference_to(POD, first), names.REASON_NOT_READY, message)

    def _report_unschedulable(
        self, group: PodGroup, unschedulable: UnschedulableMessage, now: str
    ) -> None:
        conditions = scheduling_conditions(group, self._options.pool_name, unschedulable, now)
        if conditions is not None:
            self._put_conditions(group, conditions)
            self._record_event(group, names.REASON_UNSCHEDULABLE, unschedulable.message)

    def _mark_pods(
        self, pods: Sequence[Pod], unschedulable: UnschedulableMessage, now: str
    ) -> None:
        for pod in pods:
            waits = pod.status.phase == "Pending" and not self._cache.is_placed(pod)
            if waits and not self._is_marked(pod, unschedulable.message):
                self._mark_pod(pod, unschedulable.message, now)

    def _is_marked(self, pod: Pod, message: str) -> bool:
        """Whether the pod has the condition, or will when the watch has caught up."""
        if has_unschedulable_condition(pod, message):
            self._marked.pop(pod.metadata.uid, None)
            return True
        return self._marked.get(pod.metadata.uid) == message

    def _mark_pod(self, pod: Pod, message: str, now: str) -> None:
        uid = pod.metadata.uid
        self._marked[uid] = message

        def ended(end: Ended) -> None:
            if not isinstance(end, Written) and self._marked.get(uid) == message:
                del self._marked[uid]

        self._updater.put(pod_condition(pod, unschedulable_condition(message, now), ended))
        if self._recorder is not None:
            self._recorder.warning(reference_to(POD, pod), names.REASON_UNSCHEDULABLE, message)

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
