"""What a cycle found out -> phases and conditions of groups of Volcano and kube-batch.

What a group shows already is not written again. Its phase follows from its pods: Running when as
many as its minimum have nodes, Completed when all have ended; Inqueue once it was let in; Unknown
when some run and the rest finds no room.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from muster.api import kinds, volcano
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.base.timefmt import rfc3339
from muster.client.events import reference_to
from muster.engine.cycle import CycleResult
from muster.model.public_reasons import Why
from muster.services.scheduler.batch_objects import BatchPodGroup, event_subject
from muster.services.scheduler.cache import NotCached
from muster.services.scheduler.messages import (
    Telling,
    UnschedulableMessage,
    unschedulable_message,
)
from muster.services.scheduler.reporter import Reporter
from muster.services.scheduler.status_updater import Update

_HAS_PHASES = frozenset((kinds.VOLCANO_POD_GROUP,))


@dataclass(slots=True)
class BatchReporter(Reporter):
    """Writes the status of groups, and conditions of their pods; or events alone, where they have
    no status."""

    kind: Kind[Any] = kinds.VOLCANO_POD_GROUP
    has_status: bool = True
    _told: dict[str, str] = field(default_factory=dict, init=False)
    """By job without a status: what the newest event of it said."""

    def report(self, result: CycleResult) -> None:
        explanation, admitted = result.explanation, frozenset(result.plan.admitted)
        now = rfc3339(self._clock.now_s())
        told, self._told = self._told, {}
        outdated: dict[str, tuple[list[Pod], UnschedulableMessage]] = {}
        self._marks.forget_the_gone()
        for group in self._cache.batch_groups():
            job = str(group.key)
            pods = self._cache.pods_of(job)
            why = explanation.why(job)
            if self.has_status and group.is_real:
                self._report_group(group, pods, why, job in admitted, now)
            elif why and event_subject(self.kind, group) is not None:
                self._told[job] = unschedulable_message(why).message
                if self._told[job] != told.get(job):
                    self.back_off(job, volcano.UNSCHEDULABLE, self._told[job])
            if why and self.has_status:
                message = unschedulable_message(why)
                if self._marks.mark(pods, message) is Telling.NUMBERS_ASIDE:
                    outdated[job] = (pods, message)
        self._outdated.keep(outdated, self._clock.monotonic_s())
        for job in self._outdated.due(self._clock.monotonic_s()):
            self._marks.mark(*outdated[job], is_due=True)

    def back_off(self, job: str, reason: str, message: str) -> None:
        """One warning on what makes the job a job, and nothing else: it is tried again anyway."""
        group = self._cache.pod_group(job)
        about = event_subject(self.kind, group) if isinstance(group, BatchPodGroup) else None
        if about is None:
            raise NotCached(f"job {job} has neither a pod group nor a disruption budget")
        if self._recorder is not None:
            self._recorder.warning(about, reason, message)

    def mark_idle(self, job: str, since_s: float | None, said: str = "") -> None:
        """These groups have no place to show it."""

    def _report_group(
        self,
        group: BatchPodGroup,
        pods: list[Pod],
        why: Why | None,
        is_admitted: bool,
        now: str,
    ) -> None:
        before = group.batch.status
        wanted = self._status(group, pods, bool(why), is_admitted)
        condition = _condition(why, wanted["phase"])
        is_shown = condition is None or any(
            (shown.type, shown.status, shown.reason, shown.message) == tuple(condition.values())
            for shown in before.conditions
        )
        have = {
            "phase": before.phase,
            "running": before.running,
            "succeeded": before.succeeded,
            "failed": before.failed,
        }
        if have == wanted and is_shown:
            return
        patch: dict[str, Any] = {"status": dict(wanted)}
        if not is_shown and condition is not None:
            stamped = {**condition, "lastTransitionTime": now, "transitionID": group.metadata.uid}
            patch["status"]["conditions"] = [stamped]
            if self._recorder is not None and condition["type"] == volcano.UNSCHEDULABLE:
                about = reference_to(self.kind, group.batch)
                self._recorder.warning(about, volcano.UNSCHEDULABLE, condition["message"])
        self._updater.put(
            Update(self.kind, group.key, "status", patch, "status", uid=group.metadata.uid)
        )

    def _status(
        self, group: BatchPodGroup, pods: list[Pod], is_refused: bool, is_admitted: bool
    ) -> dict[str, Any]:
        phases = Counter(pod.status.phase for pod in pods)
        ended = phases["Succeeded"] + phases["Failed"]
        placed = ended + sum(self._cache.is_placed(pod) for pod in pods)
        minimum, phase = group.batch.spec.min_member, group.batch.status.phase
        if phases["Running"] and is_refused and placed < minimum:
            phase = volcano.UNKNOWN
        elif pods and placed >= max(minimum, 1):
            is_done = ended == len(pods) and self.kind in _HAS_PHASES
            phase = volcano.COMPLETED if is_done else volcano.RUNNING
        elif is_admitted and self.kind in _HAS_PHASES:
            phase = volcano.INQUEUE
        elif phase != volcano.INQUEUE:
            phase = volcano.PENDING
        return {
            "phase": phase,
            "running": phases["Running"],
            "succeeded": phases["Succeeded"],
            "failed": phases["Failed"],
        }


def _condition(why: Why | None, phase: str) -> dict[str, str] | None:
    if why:
        return {
            "type": volcano.UNSCHEDULABLE,
            "status": "True",
            "reason": volcano.REASON_NOT_ENOUGH_RESOURCES,
            "message": unschedulable_message(why).message,
        }
    if phase == volcano.RUNNING:
        return {
            "type": volcano.SCHEDULED,
            "status": "True",
            "reason": "tasks in gang are ready to be scheduled",
            "message": "",
        }
    return None
