"""Condition first, then eviction; events with the numbers; disruption budgets are obeyed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from muster.api import names
from muster.api.core import Pod
from muster.api.kinds import POD, POD_GROUP
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.client.errors import ApiError, NotFound, Throttled, Unreachable
from muster.client.events import Recorder, reference_to
from muster.client.write import Deletion, Writer
from muster.engine.plan import Evict
from muster.model.status import TaskStatus
from muster.services.scheduler.cache import Assumption, SchedulerCache
from muster.services.scheduler.manifests import disruption_condition
from muster.services.scheduler.messages import eviction_annotations, eviction_message
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.resync import Resync


@dataclass(frozen=True, slots=True)
class Evictor:
    """Removes the victims of one beneficiary after another."""

    _cache: SchedulerCache
    _writer: Writer
    _resync: Resync
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _recorder: Recorder | None

    async def evict_for(self, actor: str, victims: Iterable[Evict]) -> tuple[list[Evict], str]:
        """Those that went, and why the rest did not (empty when all did).

        The first refusal ends it: the beneficiary cannot start without all of them, so nobody else
        is made to leave for nothing.
        """
        gone: list[Evict] = []
        sizes = Counter(evict.job for evict in victims)
        for evict in victims:
            pod = self._cache.pod(evict.task)
            if pod is None or pod.has_ended:
                continue  # It has left by itself.
            self._cache.assume(evict.task, Assumption(TaskStatus.RELEASING, evict.node))
            why = await self._evict(pod, evict)
            if why:
                self._log.info("eviction refused", pod=str(pod.key), actor=actor, why=why)
                return gone, why
            self._record_evicted_event(pod, evict, sizes[evict.job])
            gone.append(evict)
        return gone, ""

    async def _evict(self, pod: Pod, evict: Evict) -> str:
        """Empty when the pod is on its way out, else why not."""
        text = eviction_message(pod, evict)
        try:
            if self._options.marks_evicted_pods:
                condition = disruption_condition(text, rfc3339(self._clock.now_s()))
                await self._writer.set_condition(POD, pod.key, condition, uid=pod.metadata.uid)
            deletion = Deletion(uid=pod.metadata.uid)
            if self._options.evicts_by_deletion:
                await self._writer.delete(POD, pod.key, deletion)
            else:
                await self._writer.evict(pod.key, deletion)
        except NotFound:
            return ""
        except Throttled as budget:
            # Nothing but the budget's own change makes this worth another try.
            self._cache.forget(evict.task, triggers_cycle=False)
            return f"a disruption budget does not allow it now: {budget}"
        except (ApiError, Unreachable) as trouble:
            self._resync.enqueue(evict.task)
            return str(trouble)
        return ""

    def _record_evicted_event(self, pod: Pod, evict: Evict, gang_size: int) -> None:
        group = self._cache.pod_group(evict.job)
        if group is None:
            return
        self._meters.evicted(group, self._options.pool_name, evict.action)
        if self._recorder is not None:
            self._recorder.normal(
                reference_to(POD_GROUP, group),
                names.REASON_EVICT,
                eviction_message(pod, evict),
                eviction_annotations(evict, gang_size),
            )
