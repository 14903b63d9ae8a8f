"""The condition on pods that wait, which autoscalers read: what was written, and what is."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.names import REASON_UNSCHEDULABLE
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.events import Recorder, reference_to
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.manifests import unschedulable_condition
from muster.services.scheduler.messages import (
    Telling,
    UnschedulableMessage,
    has_unschedulable_condition,
    shortened,
    told_by_pod,
)
from muster.services.scheduler.status_updater import Ended, StatusUpdater, Written, pod_condition


@dataclass(slots=True)
class PodMarks:
    """Says on pods why they wait; what they show is not repeated."""

    _cache: SchedulerCache
    _updater: StatusUpdater
    _clock: Clock
    _recorder: Recorder | None
    _written: dict[str, str] = field(default_factory=dict, init=False)
    """Messages of conditions that we wrote, by uid of the pod, until the watch shows them."""

    def forget_the_gone(self) -> None:
        self._written = {uid: one for uid, one in self._written.items() if self._cache.pod(uid)}

    def mark(
        self, pods: Iterable[Pod], unschedulable: UnschedulableMessage, is_due: bool = False
    ) -> Telling:
        """Returns what those told that are not written now; `is_due`: other numbers are reason
        enough to write.
        """
        found = Telling.ALL
        for pod in pods:
            if pod.status.phase != "Pending" or self._cache.is_placed(pod):
                continue
            told = self._told_by(pod, unschedulable)
            if told is Telling.NOTHING or (is_due and told is Telling.NUMBERS_ASIDE):
                self._mark(pod, unschedulable.message, is_new=told is Telling.NOTHING)
            elif told is Telling.NUMBERS_ASIDE:
                found = told
        return found

    def _told_by(self, pod: Pod, unschedulable: UnschedulableMessage) -> Telling:
        """What the pod tells, or will when the watch has caught up."""
        uid = pod.metadata.uid
        written = self._written.get(uid)
        if written is not None and not has_unschedulable_condition(pod, written):
            return unschedulable.told_in(written)
        self._written.pop(uid, None)
        return told_by_pod(pod, unschedulable)

    def _mark(self, pod: Pod, message: str, is_new: bool) -> None:
        uid = pod.metadata.uid
        self._written[uid] = message

        def ended(end: Ended) -> None:
            if not isinstance(end, Written) and self._written.get(uid) == message:
                del self._written[uid]

        now = rfc3339(self._clock.now_s())
        self._updater.put(pod_condition(pod, unschedulable_condition(message, now), ended))
        if self._recorder is not None and is_new:
            said = shortened(message)
            self._recorder.warning(reference_to(POD, pod), REASON_UNSCHEDULABLE, said)
