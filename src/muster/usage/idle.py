"""Which jobs hold GPUs that do no work. Pure.

A job is idle when all its running pods with GPUs are, and a pod is when every one of its GPUs was
measured over the whole time and never came to the threshold. Whatever is not known is not idle: a
GPU without a series, a time without samples, a pod that was started meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.model.usage import IdlePolicy
from muster.usage.samples import is_known


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A running pod with GPUs."""

    key: str
    """namespace/name"""
    job: str
    devices: int | None
    """None where it shares them: nobody measures whose work a shared GPU does."""
    created_s: float = 0.0


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What was measured of a pod's GPUs over the time after which it counts as idle."""

    peak_percent: float
    """The most that any of them came to."""
    series: int
    """How many of them were measured."""
    samples: float
    """Of the one that was measured least."""


def idle_jobs(
    pods: Iterable[GpuPod], readings: Mapping[str, GpuReading], policy: IdlePolicy, now_s: float
) -> frozenset[str]:
    """The jobs all of whose GPUs are idle."""
    busy: set[str] = set()
    idle: set[str] = set()
    for pod in pods:
        is_old = now_s - pod.created_s >= policy.after_s
        is_idle = is_old and _is_idle(pod, readings.get(pod.key), policy)
        (idle if is_idle else busy).add(pod.job)
    return frozenset(idle - busy)


def _is_idle(pod: GpuPod, reading: GpuReading | None, policy: IdlePolicy) -> bool:
    if reading is None or pod.devices is None or reading.series < pod.devices:
        return False
    is_idle = 0 <= reading.peak_percent < policy.below_percent
    return is_idle and is_known(reading.samples, policy.after_s, policy.resolution_s)
