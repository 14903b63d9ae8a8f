"""What comes next for a bind request. Pure: the reconciler makes the writes.

The pod is bound when every preparation is ready. Preparations run in a fixed order; what one waits
for does not keep the ones after it from starting, so that a slow volume and a slow device are
awaited together. An attempt whose time is up writes nothing more to prepare: whatever its steps
still have to do, it is given up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.api import names
from muster.api.bindrequest import FAILED, PENDING, SUCCEEDED, BindRequest
from muster.api.conditions import condition
from muster.api.core import Node, Pod
from muster.api.kinds import BIND_REQUEST, POD
from muster.base.timefmt import rfc3339
from muster.model.cards import card_notes
from muster.services.binder.cluster_view import (
    BindAttempt,
    ClusterView,
    Failed,
    NeedsWrites,
    Patch,
    Preparation,
    State,
    Times,
    Waiting,
    Write,
)
from muster.services.binder.settings import BinderSettings


@dataclass(frozen=True, slots=True)
class BindPod:
    """All is prepared: put the pod on the node. The annotations travel with the binding."""

    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make these writes, then look again."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again when something changes, at the latest then."""

    why: str
    until_s: float


@dataclass(frozen=True, slots=True)
class Finish:
    """The pod is on a node: what is left is to say so on the request."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This attempt failed. `writes` undo it where it was the last one."""

    why: str
    writes: tuple[Write, ...]
    is_final: bool
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Nothing:
    """Not ours, or over."""


Move = BindPod | Prepare | Wait | Finish | GiveUp | Nothing


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides with these preparations, in this order."""

    preparations: Sequence[Preparation]
    settings: BinderSettings

    def next_move(self, request: BindRequest, cluster: ClusterView, times: Times) -> Move:
        """The next move for a request, judged by what is in the cluster now."""
        if request.is_over:
            return Nothing()
        pod, node = cluster.pod(request.pod), cluster.node(request.spec.selected_node)
        if pod is not None and not request.is_for(pod.metadata.uid):
            # Left over from an earlier pod of that name, whose end takes it along.
            return Nothing()
        if is_bound(request, cluster):
            return Finish()
        if pod is None and times.now_s < (until_s := times.began_s + self.settings.sight_s):
            # A request may be heard of before the pod it is about: the two are watched apart.
            return Wait(f"pod {request.pod} has not been seen", until_s)
        problem = self._problem(request, pod, node)
        if pod is None or node is None or problem:
            return self._given_up(FailedAttempt(request, pod, problem, times), cluster)
        return self._prepared(BindAttempt(request, pod, node, times), cluster)

    def failed(self, request: BindRequest, why: str, cluster: ClusterView, times: Times) -> GiveUp:
        """What follows when a write of the last move was refused."""
        return self._given_up(FailedAttempt(request, cluster.pod(request.pod), why, times), cluster)

    def _problem(self, request: BindRequest, pod: Pod | None, node: Node | None) -> str:
        if pod is None:
            return f"pod {request.pod} does not exist"
        ours = self.settings.names.scheduler
        if pod.spec.scheduler_name not in (ours, *self.settings.other_schedulers):
            return f"pod {request.pod} is not one of {ours}"
        if pod.metadata.deletion_timestamp or pod.has_ended:
            return f"pod {request.pod} has ended"
        if node is None:
            return f"node {request.spec.selected_node} does not exist"
        return ""

    def _prepared(self, attempt: BindAttempt, cluster: ClusterView) -> Move:
        states = {one.name: one.state(attempt, cluster) for one in self.preparations}
        failure = self._failure(attempt, states)
        if failure is not None:
            return self._given_up(failure, cluster)
        todo = [state.writes for state in states.values() if isinstance(state, NeedsWrites)]
        if todo:
            return Prepare(tuple(write for writes in todo for write in writes))
        waits = [state for state in states.values() if isinstance(state, Waiting)]
        if not waits:
            return BindPod(bind_annotations(attempt.request))
        first = min(waits, key=lambda wait: wait.until_s)
        return Wait(first.why, min(first.until_s, self._deadline_s(attempt)))

    def _deadline_s(self, attempt: BindAttempt) -> float:
        return attempt.times.began_s + self.settings.bind_timeout_s

    def _failure(self, attempt: BindAttempt, states: Mapping[str, State]) -> "FailedAttempt | None":
        """Why the attempt goes no further: a step failed, or the time of one, or of all, is up."""
        request, pod, times = attempt.request, attempt.pod, attempt.times
        for name, state in states.items():
            if isinstance(state, Failed):
                why = f"{step_failed(name, attempt)}{state.why}"
                return FailedAttempt(request, pod, why, times, state.writes)
        is_late = times.now_s >= self._deadline_s(attempt)
        for name, state in states.items():
            if isinstance(state, Waiting) and (is_late or times.now_s >= state.until_s):
                why = f"{step_failed(name, attempt)}gave up waiting: {state.why}"
                return FailedAttempt(request, pod, why, times)
        unready = [name for name, state in states.items() if isinstance(state, NeedsWrites)]
        if is_late and unready:
            took_s = self.settings.bind_timeout_s
            why = f"not prepared within {took_s:g} s: {', '.join(unready)}"
            return FailedAttempt(request, pod, why, times)
        return None

    def _given_up(self, failure: "FailedAttempt", cluster: ClusterView) -> GiveUp:
        """Counted; then tried again later, or undone when it was the last."""
        request = failure.request
        failures = max(request.status.failed_attempts, 0) + 1
        limit = request.spec.backoff_limit
        is_final = limit is None or failures >= limit
        status = _status(request, FAILED if is_final else PENDING, failure.why, failures)
        if is_final:
            writes = (*failure.writes, *self._undo(failure, cluster), status)
            return GiveUp(failure.why, writes, is_final=True)
        delay_s = self.settings.retries.delay_s(failures)
        return GiveUp(failure.why, (*failure.writes, status), is_final=False, retry_after_s=delay_s)

    def _undo(self, failure: "FailedAttempt", cluster: ClusterView) -> tuple[Write, ...]:
        if failure.pod is None:
            return ()
        attempt = BindAttempt(failure.request, failure.pod, Node(), failure.times)
        undone = [
            write for one in reversed(self.preparations) for write in one.undo(attempt, cluster)
        ]
        return (*undone, _condition(failure, failure.pod))


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed, and why. `writes` clear the way for the next."""

    request: BindRequest
    pod: Pod | None
    why: str
    times: Times
    writes: tuple[Write, ...] = ()


_PLUGINS = {
    "volumes": "volumebinding",
    "dynamic_resources": "dynamicresources",
    "gpu_sharing": "gpusharing",
}
"""Preparations by KAI's names of them."""


def step_failed(name: str, attempt: BindAttempt) -> str:
    """What KAI says first of a preparation that failed."""
    groups = attempt.request.spec.selected_gpu_groups
    if name == "reserve_gpu" and groups:
        return f"failed to reserve GPUs for pod <{attempt.pod.key}> in gpu group <{groups[0]}>: "
    return f"plugin {_PLUGINS[name]} failed in PreBind: " if name in _PLUGINS else ""


def is_bound(request: BindRequest, cluster: ClusterView) -> bool:
    """Whether the pod that the request is about is on a node."""
    pod = cluster.pod(request.pod)
    return pod is not None and request.is_for(pod.metadata.uid) and bool(pod.spec.node_name)


def finished(request: BindRequest) -> Write:
    """What is said on a request whose pod is bound."""
    return _status(request, SUCCEEDED, "")


def taken_back(pod: Pod, now_s: float) -> Write | None:
    """What is said on a pod that is bound after all, and shows that it could not be."""
    failed = pod.status.condition(names.CONDITION_POD_BOUND)
    if failed is None or failed.status != "False" or not pod.spec.node_name:
        return None
    text = f"Pod bound successfully to node {pod.spec.node_name}"
    bound = condition(names.CONDITION_POD_BOUND, True, names.REASON_BOUND, text, rfc3339(now_s))
    patch = {"status": {"conditions": [bound]}}
    return Patch(POD, pod.key, patch, "status", merges_lists=True, uid=pod.metadata.uid)


def bind_annotations(request: BindRequest) -> Mapping[str, str]:
    """What the pod learns by being bound, in the same write."""
    kind = request.spec.received_resource_type
    found = {names.ANNOTATION_RECEIVED_RESOURCE_TYPE: kind} if kind else {}
    found |= card_notes(request.metadata.annotations)
    if request.spec.predicted_numa_zones:
        found[names.ANNOTATION_NUMA_PREDICTED] = _zones(request)
    return found


def _status(request: BindRequest, phase: str, reason: str, attempts: int | None = None) -> Patch:
    status: dict[str, Any] = {"phase": phase, "reason": reason}
    if attempts is not None:
        status["failedAttempts"] = attempts
    meta = request.metadata
    # By its version, and not its uid, which the status subresource of a custom kind ignores.
    return Patch(BIND_REQUEST, meta.key, {"status": status}, "status", meta.resource_version)


def _condition(failure: FailedAttempt, pod: Pod) -> Patch:
    """Why the pod is not bound, and since when: the scheduler lets others go first for a while."""
    node = failure.request.spec.selected_node
    kind, reason = names.CONDITION_POD_BOUND, names.REASON_BINDING_ERROR
    why = f"Failed to bind pod {pod.key} to node {node}: {failure.why}"
    failed = condition(kind, False, reason, why, rfc3339(failure.times.wall_s))
    patch = {"status": {"conditions": [failed]}}
    return Patch(POD, pod.key, patch, "status", merges_lists=True, uid=pod.metadata.uid)


def _zones(request: BindRequest) -> str:
    """JSON of the predicted zones, as the exporter on the node writes what it observes."""
    zones = [
        {"zone": zone.zone, "amount": {name: str(amount) for name, amount in zone.amount.items()}}
        for zone in request.spec.predicted_numa_zones
    ]
    return msgspec.json.encode(zones).decode()
