"""Unschedulable pods -> which scaling pods to make and which to delete.

A share of a GPU is asked for in an annotation, which no autoscaler reads. For pods that wait for
one, a scaling pod asks for whole GPUs in the usual way; when a node comes up it has done its work.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from muster.api import names
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.quantity import Quantity
from muster.model.gpu_request import Use, gpu_problem, shared_request, shared_units
from muster.model.records import GpuKind
from muster.numerics.axis import GPU_UNIT

COOL_DOWN_S = 60.0
"""After a scaling pod has gone, new nodes get this long to show what they changed."""
_LABEL_SIZE = 63
_NAME_SIZE = 253


@dataclass(frozen=True, slots=True)
class ScaleAdjusterSettings:
    scheduler_name: str
    namespace: str
    app: str
    service_account: str
    image: str
    gpu_memory_ratio: Decimal = Decimal("0.1")
    """What part of a GPU a request for GPU memory is taken for, the device not being known yet."""
    gpus_per_namespace_max: int = 256
    """Whole GPUs that scaling pods ask for on behalf of one namespace: autoscalers buy machines for
    them, and anybody who may create a pod may create a thousand."""
    command: tuple[str, ...] = ()
    """What scaling pods run; empty: what their image runs by itself."""


@dataclass(frozen=True, slots=True)
class ScalingPod:
    """That very scaling pod."""

    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class ScalingPast:
    """What was done before: when a scaling pod was last found needless, and which ones were."""

    last_gone_s: float | None = None
    told_to_go: Collection[str] = ()
    """Uids. Who does not go, because somebody refuses it, holds up nobody a second time."""


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """What to write now, and when to look again (None: at the next event)."""

    delete: tuple[ScalingPod, ...] = ()
    create: tuple[Mapping[str, Any], ...] = ()
    beyond: tuple[Key, ...] = ()
    """Of each namespace that may ask for no more, the first pod that nothing was asked for."""
    requeue_after_s: float | None = None


def decide(
    pods: Iterable[Pod],
    neighbours: Sequence[Pod],
    now_s: float,
    past: ScalingPast,
    settings: ScaleAdjusterSettings,
) -> ScalingDecision:
    """`neighbours` is whatever is in the namespace of scaling pods, also what is not ours.

    A pod that terminates is as good as gone, and may for ever be: its node may be dead.
    """
    by_key = {pod.key: pod for pod in pods}
    standing = [one for one in neighbours if is_scaling_pod(one, settings) and not _ends(one)]
    needed = [one for one in standing if _is_needed(one, by_key)]
    kept = {one.metadata.uid for one in needed}
    gone = tuple(
        ScalingPod(one.key, one.metadata.uid) for one in standing if one.metadata.uid not in kept
    )
    if any(one.uid not in past.told_to_go for one in gone):
        return ScalingDecision(delete=gone, requeue_after_s=COOL_DOWN_S)
    cooled_s = now_s if past.last_gone_s is None else past.last_gone_s + COOL_DOWN_S
    if now_s < cooled_s:
        # Of moments, not of durations: rounded, what is left of those may never come to nothing.
        return ScalingDecision(delete=gone, requeue_after_s=cooled_s - now_s)
    waiting = sorted(
        (pod for pod in by_key.values() if waits_for_share(pod, settings)), key=lambda pod: pod.key
    )
    names_taken = {one.metadata.name: one.metadata.uid for one in neighbours}
    asked = _Asked.by(needed)
    made = tuple(_new_scaling_pods(waiting, asked, names_taken, settings))
    return ScalingDecision(delete=gone, create=made, beyond=tuple(asked.beyond.values()))


def is_scaling_pod(pod: Pod, settings: ScaleAdjusterSettings) -> bool:
    """Whether a pod is one that a scale adjuster made; others are nobody's to delete."""
    labels = pod.metadata.labels
    return labels.get(names.LABEL_APP) == settings.app and all(
        labels.get(name)
        for name in (names.LABEL_SHARED_GPU_POD_NAME, names.LABEL_SHARED_GPU_POD_NAMESPACE)
    )


def gpus_needed(waiting: Sequence[Pod], settings: ScaleAdjusterSettings) -> int:
    """Whole GPUs that would hold all of the waiting shares."""
    return math.ceil(sum((_share(pod, settings) for pod in waiting), Decimal(0)))


def scaling_pod(pod: Pod, settings: ScaleAdjusterSettings, name: str = "") -> dict[str, Any]:
    """A pod that asks for as many whole GPUs as `pod` wants devices, where `pod` may run."""
    requests = {names.RESOURCE_NVIDIA_GPU: str(_devices(pod))}
    for resource in (names.RESOURCE_CPU, names.RESOURCE_MEMORY):
        amounts = [
            container.resources.requests[resource]
            for container in pod.spec.containers
            if resource in container.resources.requests
        ]
        if amounts:
            requests[resource] = str(sum(amounts, Quantity(0)))
    spec = {
        "restartPolicy": "OnFailure",
        "serviceAccountName": settings.service_account,
        "containers": [
            {
                "name": "scaling-pod",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                **({"command": list(settings.command)} if settings.command else {}),
                "resources": {
                    "requests": requests,
                    "limits": {names.RESOURCE_NVIDIA_GPU: str(_devices(pod))},
                },
            }
        ],
        **_where(pod),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name or scaling_pod_name(pod.key),
            "namespace": settings.namespace,
            "labels": {
                names.LABEL_APP: settings.app,
                names.LABEL_SHARED_GPU_POD_NAME: _label(pod.metadata.name),
                names.LABEL_SHARED_GPU_POD_NAMESPACE: pod.metadata.namespace,
            },
            # The label holds at most 63 characters; the whole name stands here.
            "annotations": {names.LABEL_SHARED_GPU_POD_NAME: pod.metadata.name},
        },
        "spec": spec,
    }


def scaling_pod_name(key: Key) -> str:
    """`<namespace>-<pod>`, with a hash where that would be ambiguous or too long."""
    plain = f"{key.namespace}-{key.name}"
    if "-" not in key.namespace and len(plain) <= _NAME_SIZE:
        return plain
    digest = hashlib.sha256(f"{key.namespace}/{key.name}".encode()).hexdigest()[:8]
    return f"{plain[: _NAME_SIZE - 9].rstrip('.-')}-{digest}"


@dataclass(slots=True)
class _Asked:
    """What scaling pods ask for."""

    served: set[Key] = field(default_factory=set)
    gpus: list[int] = field(default_factory=list)
    by_namespace: Counter[str] = field(default_factory=Counter)
    beyond: dict[str, Key] = field(default_factory=dict)
    """By namespace: the first pod for which it may ask no more."""

    @classmethod
    def by(cls, scaling_pods: Iterable[Pod]) -> "_Asked":
        asked = cls()
        for one in scaling_pods:
            asked.add(served(one), _whole_gpus(one))
        return asked

    def add(self, pod: Key, gpus: int) -> None:
        self.served.add(pod)
        self.gpus.append(gpus)
        self.by_namespace[pod.namespace] += gpus

    def may_add(self, pod: Key, gpus: int, most: int) -> bool:
        if self.by_namespace[pod.namespace] + gpus <= most:
            return True
        self.beyond.setdefault(pod.namespace, pod)
        return False


def _new_scaling_pods(
    waiting: Sequence[Pod],
    asked: _Asked,
    names_taken: Mapping[str, str],
    settings: ScaleAdjusterSettings,
) -> Iterable[dict[str, Any]]:
    need = gpus_needed(waiting, settings)
    for pod in waiting:
        devices = _devices(pod)
        is_enough = need <= sum(asked.gpus) and devices <= max(asked.gpus, default=0)
        if pod.key in asked.served or is_enough:
            continue
        if not asked.may_add(pod.key, devices, settings.gpus_per_namespace_max):
            continue
        asked.add(pod.key, devices)
        yield scaling_pod(pod, settings, _free_name(scaling_pod_name(pod.key), names_taken))


def _free_name(wanted: str, names_taken: Mapping[str, str]) -> str:
    """Another name where one that terminates, or a stranger, has it: told apart by its uid."""
    name = wanted
    while name in names_taken:
        digest = hashlib.sha256(f"{name}/{names_taken[name]}".encode()).hexdigest()[:8]
        name = f"{wanted[: _NAME_SIZE - 9].rstrip('.-')}-{digest}"
    return name


def _ends(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def served(one: Pod) -> Key:
    """The pod that a scaling pod stands for."""
    labels, notes = one.metadata.labels, one.metadata.annotations
    name = notes.get(names.LABEL_SHARED_GPU_POD_NAME) or labels.get(
        names.LABEL_SHARED_GPU_POD_NAME, ""
    )
    return Key(labels.get(names.LABEL_SHARED_GPU_POD_NAMESPACE, ""), name)


def _is_needed(one: Pod, pods: Mapping[Key, Pod]) -> bool:
    if one.has_ended:
        return False
    pod = pods.get(served(one))
    if pod is None:
        return False
    scheduled = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return scheduled is None or _is_unschedulable(pod)


def waits_for_share(pod: Pod, settings: ScaleAdjusterSettings) -> bool:
    return (
        pod.spec.scheduler_name == settings.scheduler_name
        and not pod.spec.node_name
        and not pod.has_ended
        and _is_unschedulable(pod)
        and _share(pod, settings) > 0
    )


def _is_unschedulable(pod: Pod) -> bool:
    scheduled = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return (
        scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == names.REASON_UNSCHEDULABLE
    )


def _share(pod: Pod, settings: ScaleAdjusterSettings) -> Decimal:
    """GPUs that the pod's shares add up to; 0 for what no node could ever give."""
    if gpu_problem(pod.metadata.annotations, {}):
        return Decimal(0)
    gpu = shared_request(pod.metadata.annotations)
    if gpu.kind is GpuKind.MEMORY:
        return settings.gpu_memory_ratio * gpu.devices
    return Decimal(shared_units(gpu, Use.SCALING, 0)) / GPU_UNIT


def _devices(pod: Pod) -> int:
    return max(1, shared_request(pod.metadata.annotations).devices)


def _whole_gpus(pod: Pod) -> int:
    gpus = (
        container.resources.requests.get(names.RESOURCE_NVIDIA_GPU)
        for container in pod.spec.containers
    )
    return sum(amount.value for amount in gpus if amount)


def _where(pod: Pod) -> dict[str, Any]:
    """Where the pod may run, copied so that the right kind of node is added."""
    wishes = {
        "affinity": pod.spec.affinity,
        "tolerations": pod.spec.tolerations,
        "nodeSelector": pod.spec.node_selector,
    }
    found: dict[str, Any] = {key: msgspec.to_builtins(wish) for key, wish in wishes.items() if wish}
    return found


def _label(name: str) -> str:
    return name[:_LABEL_SIZE].rstrip(".-_")
