"""What a cycle found out -> conditions, annotations and events, in line with the status updater."""

from collections.abc import Sequence

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.api.podgroup import PodGroup
from muster.base.clock import Clock
from muster.base.moment import rfc3339
from muster.client.events import Recorder, reference_to
from muster.engine.cycle import CycleResult
from muster.engine.plan import Stamp
from muster.model.reasons import Reason, Refusal
from muster.services.scheduler.bodies import unschedulable_condition
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.options import Options
from muster.services.scheduler.status_updater import StatusUpdater, Update
from muster.services.scheduler.texts import (
    Unscheduled,
    holds_something,
    may_clear_conditions,
    says_unschedulable,
    scheduling_conditions,
    unscheduled,
)

_STAMPS = {
    "last start": names.ANNOTATION_LAST_START,
    "last eviction": names.ANNOTATION_LAST_EVICTION,
    "stale since": names.ANNOTATION_STALE_SINCE,
}


class Reporter:
    """Says on pods and pod groups what became of them. Nothing is written that is said already."""

    def __init__(
        self,
        cache: SchedulerCache,
        updater: StatusUpdater,
        options: Options,
        clock: Clock,
        recorder: Recorder | None,
    ) -> None:
        self._cache = cache
        self._updater = updater
        self._options = options
        self._clock = clock
        self._recorder = recorder

    def report(self, result: CycleResult) -> None:
        stamps: dict[str, list[Stamp]] = {}
        for stamp in result.plan.stamps:
            stamps.setdefault(stamp.job, []).append(stamp)
        for job, listed in stamps.items():
            self._stamp(job, listed)
        nominated = {nomination.job for nomination in result.plan.nominations}
        for job, refusals in result.explanation.refusals.items():
            if job not in nominated:
                self._refused(job, refusals)
        for job in {bind.job for bind in result.plan.binds}:
            self._placed(job)

    def _stamp(self, job: str, stamps: Sequence[Stamp]) -> None:
        group = self._cache.pod_group(job)
        if group is None:
            return
        have = group.metadata.annotations
        notes: dict[str, str | None] = {}
        for stamp in stamps:
            key = _STAMPS[stamp.what]
            wanted = None if stamp.at_s is None else rfc3339(stamp.at_s)
            if have.get(key) != wanted:
                notes[key] = wanted
        if notes:
            patch = {"metadata": {"annotations": notes}}
            self._updater.put(Update(POD_GROUP, group.key, "annotations", patch))

    def _refused(self, job: str, refusals: Sequence[Refusal]) -> None:
        group = self._cache.pod_group(job)
        if group is None:
            return
        pods, said = self._cache.pods_of(job), unscheduled(refusals)
        if all(refusal.reason is Reason.TOO_FEW_TASKS for refusal in refusals):
            self._say(group, names.REASON_NOT_READY, said.message)
            return
        if holds_something(pods):
            return
        now = rfc3339(self._clock.now_s())
        conditions = scheduling_conditions(group, self._options.pool_name, said, now)
        if conditions is not None:
            patch = {"status": {"schedulingConditions": conditions}}
            self._updater.put(Update(POD_GROUP, group.key, "conditions", patch, "status"))
            self._say(group, names.REASON_UNSCHEDULABLE, said.message)
        if group.marks_unschedulable:
            self._mark(pods, said, now)

    def _mark(self, pods: Sequence[Pod], said: Unscheduled, now: str) -> None:
        for pod in pods:
            waits = not pod.spec.node_name and pod.status.phase == "Pending"
            if not waits or says_unschedulable(pod, said.message):
                continue
            patch = {"status": {"conditions": [unschedulable_condition(said.message, now)]}}
            self._updater.put(Update(POD, pod.key, "condition", patch, "status", merges_lists=True))
            if self._recorder is not None:
                about = reference_to(POD, pod)
                self._recorder.warning(about, names.REASON_UNSCHEDULABLE, said.message)

    def _placed(self, job: str) -> None:
        group = self._cache.pod_group(job)
        if group is not None and may_clear_conditions(group, self._cache.pods_of(job)):
            patch = {"status": {"schedulingConditions": None}}
            self._updater.put(Update(POD_GROUP, group.key, "conditions", patch, "status"))

    def _say(self, group: PodGroup, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.normal(reference_to(POD_GROUP, group), reason, message)
