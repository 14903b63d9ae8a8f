"""What running pods asked for and leave unused, so that others may run on it. Pure.

A node has spare CPU and memory where its pods were seen, over the whole time, never to come near
what they ask for. Nothing is taken from a pod of which anything is not known: one that is young,
that was not measured at every moment or in every container. Nothing is ever taken from a guaranteed
pod, which was promised all of what it asks for. So a node without data has nothing to spare.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model.usage import OvercommitPolicy
from muster.usage.samples import is_known

_STEPS: Final = 20
"""Spare room is told in so many parts of a node: smaller changes are not worth a write."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of CPU and memory."""

    cpu_milli: int = 0
    memory_bytes: int = 0

    def __bool__(self) -> bool:
        return self.cpu_milli > 0 or self.memory_bytes > 0


@dataclass(frozen=True, slots=True)
class PeakUse:
    """The most that a pod came to of one resource."""

    most: float
    """Cores, or bytes."""
    samples: float
    """How many moments are known."""
    containers: float
    """How many containers were measured at the moment at which the fewest were."""


@dataclass(frozen=True, slots=True)
class PodPeaks:
    """What was measured of a pod; None where nothing was."""

    cpu: PeakUse | None = None
    memory: PeakUse | None = None


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that holds room on a node."""

    key: str
    """namespace/name"""
    node: str
    asked: Amounts
    on_spare: Amounts = Amounts()
    """What it asks for of what others leave."""
    containers: int = 1
    is_guaranteed: bool = False
    started_s: float | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node should say that it has to spare."""

    amounts: Amounts
    held: Amounts
    """How much of it is given already."""


def offers(
    nodes: Mapping[str, Amounts],
    pods: Iterable[HeldPod],
    peaks: Mapping[str, PodPeaks],
    policy: OvercommitPolicy | None,
    now_s: float,
) -> dict[str, Offer]:
    """By node, of those in `nodes` (with what each has in all).

    No offer is less than what is held of it: who runs there runs on, and a kubelet that is started
    again takes him back. Without a policy nothing more is offered.
    """
    left: dict[str, list[int]] = {name: [0, 0] for name in nodes}
    held: dict[str, list[int]] = {name: [0, 0] for name in nodes}
    for pod in pods:
        if pod.node not in nodes:
            continue
        held[pod.node][0] += pod.on_spare.cpu_milli
        held[pod.node][1] += pod.on_spare.memory_bytes
        if policy is not None:
            unused = _unused(pod, peaks.get(pod.key, PodPeaks()), policy, now_s)
            left[pod.node][0] += unused.cpu_milli
            left[pod.node][1] += unused.memory_bytes
    most = 0.0 if policy is None else policy.most_part
    return {
        name: Offer(
            Amounts(
                max(held[name][0], _in_steps(left[name][0], has.cpu_milli, most)),
                max(held[name][1], _in_steps(left[name][1], has.memory_bytes, most)),
            ),
            Amounts(*held[name]),
        )
        for name, has in nodes.items()
    }


def _unused(pod: HeldPod, peaks: PodPeaks, policy: OvercommitPolicy, now_s: float) -> Amounts:
    is_young = pod.started_s is None or now_s - pod.started_s < policy.over_s
    if pod.is_guaranteed or is_young:
        return Amounts()
    cpu = _known(peaks.cpu, pod.containers, policy)
    memory = _known(peaks.memory, pod.containers, policy)
    return Amounts(
        _left(pod.asked.cpu_milli, None if cpu is None else cpu * 1000, policy.margin_part),
        _left(pod.asked.memory_bytes, memory, policy.margin_part),
    )


def _known(peak: PeakUse | None, containers: int, policy: OvercommitPolicy) -> float | None:
    """The most that was used; None where some of it may not have been seen."""
    if peak is None or peak.most < 0 or peak.containers < containers:
        return None
    return peak.most if is_known(peak.samples, policy.over_s, policy.resolution_s) else None


def _left(asked: int, most_used: float | None, margin: float) -> int:
    """The margin is a part of what was asked for, so that it is there for a pod that did nothing
    yet, too."""
    if most_used is None:
        return 0
    return max(0, int(asked - most_used - margin * asked))


def _in_steps(left: int, has: int, most_part: float) -> int:
    step = max(1, has // _STEPS)
    return min(left, int(has * most_part)) // step * step
