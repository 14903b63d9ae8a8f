"""Unschedulable pods -> which scaling pods to make and which to delete.

A share of a GPU is asked for in an annotation, which no autoscaler reads. For pods that wait for
one, a scaling pod asks for whole GPUs in the usual way; when a node comes up it has done its work.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """What to write now, and when to look again (None: at the next event)."""

    delete: tuple[Key, ...] = ()
    create: tuple[Mapping[str, Any], ...] = ()
    requeue_after_s: float | None = None


def decide(
    pods: Iterable[Pod],
    scaling_pods: Sequence[Pod],
    now_s: float,
    last_gone_s: float | None,
    settings: ScaleAdjusterSettings,
) -> ScalingDecision:
    """`last_gone_s` is when a scaling pod was last deleted."""
    by_key = {pod.key: pod for pod in pods}
    gone = tuple(one.key for one in scaling_pods if not _is_needed(one, by_key))
    if gone:
        return ScalingDecision(delete=gone, requeue_after_s=COOL_DOWN_S)
    if last_gone_s is not None and now_s - last_gone_s < COOL_DOWN_S:
        return ScalingDecision(requeue_after_s=COOL_DOWN_S - (now_s - last_gone_s))
    waiting = sorted(
        (pod for pod in by_key.values() if _waits_for_share(pod, settings)), key=lambda pod: pod.key
    )
    return ScalingDecision(create=tuple(_new_scaling_pods(waiting, scaling_pods, settings)))


def gpus_needed(waiting: Sequence[Pod], settings: ScaleAdjusterSettings) -> int:
    """Whole GPUs that would hold all of the waiting shares."""
    return math.ceil(sum((_share(pod, settings) for pod in waiting), Decimal(0)))


def scaling_pod(pod: Pod, settings: ScaleAdjusterSettings) -> dict[str, Any]:
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
            "name": scaling_pod_name(pod.key),
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


def _new_scaling_pods(
    waiting: Sequence[Pod], scaling_pods: Sequence[Pod], settings: ScaleAdjusterSettings
) -> Iterable[dict[str, Any]]:
    need = gpus_needed(waiting, settings)
    asked = [_whole_gpus(one) for one in scaling_pods]
    made = {one.metadata.name for one in scaling_pods}
    for pod in waiting:
        name, devices = scaling_pod_name(pod.key), _devices(pod)
        if name in made or (need <= sum(asked) and devices <= max(asked, default=0)):
            continue
        made.add(name)
        asked.append(devices)
        yield scaling_pod(pod, settings)


def _is_needed(one: Pod, pods: Mapping[Key, Pod]) -> bool:
    if one.has_ended:
        return False
    labels, notes = one.metadata.labels, one.metadata.annotations
    name = notes.get(names.LABEL_SHARED_GPU_POD_NAME) or labels.get(
        names.LABEL_SHARED_GPU_POD_NAME, ""
    )
    namespace = labels.get(names.LABEL_SHARED_GPU_POD_NAMESPACE, "")
    pod = pods.get(Key(namespace, name))
    if pod is None:
        return False
    scheduled = pod.status.condition(names.CONDITION_POD_SCHEDULED)
    return scheduled is None or _is_unschedulable(pod)


def _waits_for_share(pod: Pod, settings: ScaleAdjusterSettings) -> bool:
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
