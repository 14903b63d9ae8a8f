"""Says on pod groups that their GPUs do no work, and lets them be preempted where that is policy.

Only what was measured lately counts. When nothing is known any more (Prometheus is away, the
configuration changed, we have just been started), nobody is idle: marks are taken off, and nobody
is preempted for an idleness that was seen before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.api.duration import Duration
from muster.base.clock import Clock
from muster.model.records import GpuKind, TaskRecord
from muster.model.usage import IdlePolicy
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.reporter import Reporter
from muster.usage.idle import GpuPod, idle_jobs
from muster.usage.utilisation import Utilisation


@dataclass(slots=True)
class IdleGpus:
    """Told of every reading, and when there is none."""

    _cache: SchedulerCache
    _reporter: Reporter
    _clock: Clock
    _show: Callable[[Mapping[str, float]], None] = lambda _: None
    """Told how many GPUs each idle job holds."""

    def heard(self, reading: Utilisation | None, policy: IdlePolicy | None) -> None:
        self._cache.set_utilisation({} if reading is None else reading.pods)
        idle: frozenset[str] = frozenset()
        pods: list[GpuPod] = []
        if reading is not None and policy is not None:
            pods = [_gpu_pod(task) for task in self._cache.gpu_pods()]
            idle = idle_jobs(pods, reading.gpus, policy, self._clock.now_s())
        self._show({job: sum(one.devices or 0 for one in pods if one.job == job) for job in idle})
        for job in self._cache.jobs_marked_idle():
            if job not in idle:
                self._reporter.mark_idle(job, None)
        if policy is not None:
            since_s = self._clock.now_s() - policy.after_s
            for job in sorted(idle):
                self._reporter.mark_idle(job, since_s, _sentence(policy))
        may_go = policy is not None and policy.is_preemptible
        self._cache.make_preemptible(idle if may_go else frozenset())


def _gpu_pod(task: TaskRecord) -> GpuPod:
    is_alone = task.gpu.kind in (GpuKind.WHOLE, GpuKind.CLAIM)
    devices = task.gpu.devices if is_alone else None
    return GpuPod(f"{task.namespace}/{task.name}", task.job, devices, task.created_s)


def _sentence(policy: IdlePolicy) -> str:
    after = Duration(f"{round(policy.after_s)}s")
    said = f"its GPUs have been below {policy.below_percent:g}% for {after}"
    return f"{said}; it may be preempted" if policy.is_preemptible else said
