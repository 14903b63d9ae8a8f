"""What pods really use, from Prometheus: GPUs as DCGM exporter tells of them, CPU and memory as the
kubelets' cAdvisor does.

Both name pods by the labels `namespace` and `pod`, or `exported_namespace` and `exported_pod` where
Prometheus scrapes exporters without `honor_labels`. Whoever Prometheus scrapes can tell of any pod
so. Of two tellings the one that makes a pod busier, or less known, counts: nobody is made idle, or
given less room, by what somebody else exports in his name.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster.model.cluster_objects import PodUtilisation
from muster.model.usage import UtilisationSettings
from muster.usage.idle import GpuReading
from muster.usage.overcommit import PeakUse, PodPeaks
from muster.usage.prometheus import Prometheus, Series

_BY: Final = "namespace, pod, exported_namespace, exported_pod"
_LATELY: Final = "5m"
_NONE: Final[Mapping[str, PodUtilisation]] = MappingProxyType({})
_NO_READINGS: Final[Mapping[str, GpuReading]] = MappingProxyType({})
_NO_PEAKS: Final[Mapping[str, PodPeaks]] = MappingProxyType({})
_HOW_WELL_KNOWN: Final = ("series", "samples", "containers")
"""How the names of questions end that ask for that: of two answers the lesser counts."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """By pod (namespace/name); who is not in it was not measured."""

    at_s: float
    pods: Mapping[str, PodUtilisation] = field(default_factory=lambda: _NONE)
    gpus: Mapping[str, GpuReading] = field(default_factory=lambda: _NO_READINGS)
    peaks: Mapping[str, PodPeaks] = field(default_factory=lambda: _NO_PEAKS)


@dataclass(frozen=True, slots=True)
class PrometheusUtilisation:
    """A source of `Utilisation`."""

    prometheus: Prometheus
    settings: UtilisationSettings

    async def read(self, now_s: float) -> Utilisation:
        questions = expressions(self.settings)
        answers = await asyncio.gather(
            *(self.prometheus.vector(text, now_s) for text in questions.values())
        )
        found = {
            name: _by_pod(answer, min if name.endswith(_HOW_WELL_KNOWN) else max)
            for name, answer in zip(questions, answers, strict=True)
        }
        return Utilisation(now_s, _pods(found), _readings(found), _peaks(found))

    async def close(self) -> None:
        await self.prometheus.close()


def expressions(settings: UtilisationSettings) -> dict[str, str]:
    """PromQL by what it asks for."""
    metrics = settings.metrics
    questions = {
        "gpu": f"avg by ({_BY}) (avg_over_time({metrics.gpu}[{_LATELY}]))",
        "gpu_memory": f"sum by ({_BY}) ({metrics.gpu_memory})",
        "cpu": f"sum by ({_BY}) (rate({metrics.cpu}[{_LATELY}]))",
        "memory": f"sum by ({_BY}) ({metrics.memory})",
    }
    policy = settings.idle
    if policy is not None:
        gpu = f"({metrics.gpu}) >= 0"  # NaN is no measurement, nor is less than nothing.
        over = f"[{round(policy.after_s * 1000)}ms:{round(policy.resolution_s * 1000)}ms]"
        questions |= {
            "peak": f"max by ({_BY}) (max_over_time(({gpu}){over}))",
            "series": f"count by ({_BY}) ({gpu})",
            "samples": f"min by ({_BY}) (count_over_time(({gpu}){over}))",
        }
    spare = settings.overcommit
    if spare is not None:
        over = f"[{round(spare.over_s * 1000)}ms:{round(spare.resolution_s * 1000)}ms]"
        for name, used in (("cpu", f"rate({metrics.cpu}[{_LATELY}])"), ("memory", metrics.memory)):
            questions |= {
                f"{name} peak": f"max_over_time((sum by ({_BY}) ({used})){over})",
                f"{name} samples": f"count_over_time((sum by ({_BY}) ({used})){over})",
                f"{name} containers": f"min_over_time((count by ({_BY}) ({used})){over})",
            }
    return questions


def _by_pod(answer: Series, of_two: Callable[[float, float], float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in answer:
        namespace = labels.get("exported_namespace") or labels.get("namespace")
        pod = labels.get("exported_pod") or labels.get("pod")
        if namespace and pod:
            key = f"{namespace}/{pod}"
            found[key] = of_two(found[key], value) if key in found else value
    return found


def _pods(found: Mapping[str, Mapping[str, float]]) -> Mapping[str, PodUtilisation]:
    names = ("gpu", "gpu_memory", "cpu", "memory")
    return {
        pod: PodUtilisation(
            gpu=_part(found["gpu"].get(pod)),
            gpu_memory_mib=found["gpu_memory"].get(pod),
            cpu_cores=found["cpu"].get(pod),
            memory_bytes=found["memory"].get(pod),
        )
        for pod in sorted({pod for name in names for pod in found[name]})
    }


def _part(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _readings(found: Mapping[str, Mapping[str, float]]) -> Mapping[str, GpuReading]:
    peaks, series, samples = (found.get(name, {}) for name in ("peak", "series", "samples"))
    return {
        pod: GpuReading(peak, int(series[pod]), samples[pod])
        for pod, peak in peaks.items()
        if pod in series and pod in samples
    }


def _peaks(found: Mapping[str, Mapping[str, float]]) -> Mapping[str, PodPeaks]:
    cpu, memory = _peak_uses(found, "cpu"), _peak_uses(found, "memory")
    return {pod: PodPeaks(cpu.get(pod), memory.get(pod)) for pod in cpu.keys() | memory.keys()}


def _peak_uses(found: Mapping[str, Mapping[str, float]], name: str) -> dict[str, PeakUse]:
    samples, containers = (found.get(f"{name} {what}", {}) for what in ("samples", "containers"))
    return {
        pod: PeakUse(most, samples[pod], containers[pod])
        for pod, most in found.get(f"{name} peak", {}).items()
        if pod in samples and pod in containers
    }
