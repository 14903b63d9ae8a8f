"""Runs the moves that `decide` chooses, one after another, until there is something to wait for."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.kinds import CONFIG_MAP, POD
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
)
from muster.client.events import Recorder, reference_to
from muster.client.informer import Informer
from muster.client.limits import Lane
from muster.client.write import Deletion, PatchType, Writer
from muster.runtime.reconciler import DONE, Result
from muster.services.binder.cluster_view import Create, Delete, Patch, Times, Write
from muster.services.binder.decide import (
    BindPod,
    Decider,
    Finish,
    GiveUp,
    Move,
    Nothing,
    Prepare,
    Wait,
    finished,
    is_bound,
    taken_back,
)
from muster.services.binder.gpu_users import restored_labels
from muster.services.binder.group_claims import given_up
from muster.services.binder.informer_view import InformerClusterView
from muster.services.binder.live_reads import LiveReads
from muster.services.binder.request_freshness import RequestFreshness
from muster.services.binder.reservation_gc import stale_reservation_deletes
from muster.services.binder.steps.gpu_sharing import CONFIG_MAP_LABEL
from muster.services.binder.steps.volumes import volume_claims

_REQUEUE_S = 1.0
"""Events bring us back sooner; this is for those that concern us without naming us."""
_PROMPT_ROUNDS = 16
"""Rounds of writes that an attempt makes as fast as their events come back. Whoever needs more has
somebody who writes against us, and goes on once in `_REQUEUE_S`, until the attempt's time is up."""


@dataclass(slots=True)
class _Progress:
    """What this process remembers of an attempt; the next one can do without."""

    uid: str
    began_s: float
    not_before_s: float = 0.0
    rounds: int = 0


class NotOurs(Exception):
    """What is to be written is somebody else's."""


class NotBound(Exception):
    """The server will not have the pod on the node."""


@dataclass(slots=True)
class BindRequestReconciler:
    """Brings one bind request to its end. That the pod is bound is noted on it by `bound`."""

    _requests: Informer[BindRequest]
    _cluster: InformerClusterView
    _decider: Decider
    _writer: Writer
    _clock: Clock
    _freshness: RequestFreshness
    _bound: Callable[[Key], None]
    _recorder: Recorder | None = None
    _progress: dict[Key, _Progress] = field(default_factory=dict, init=False)

    async def reconcile(self, key: Key) -> Result:
        request = self._requests.get(key)
        if request is None:
            self._progress.pop(key, None)
            return DONE
        early_s = self._progress_of(request).not_before_s - self._clock.monotonic_s()
        if early_s > 0:
            # Our own note of the failure comes back as an event; it is no reason to hurry.
            return Result(requeue_after_s=early_s)
        try:
            return await self._make(request, await self._next_move(request))
        except (ApiError, NotOurs, NotBound) as refused:
            if isinstance(refused, ApiError) and refused.is_passing:
                raise
            # No retry changes that answer: the attempt has failed.
            times = self._times(request)
            failed = self._decider.failed(request, str(refused), self._cluster, times)
            return await self._make(request, failed)

    async def _next_move(self, request: BindRequest) -> Move:
        """Decided on what we have before anything is read: an attempt whose time is up ends, also
        where reading fails each time.
        """
        move = self._decided(request)
        pod = self._cluster.pod(request.pod)
        if pod is None or not isinstance(move, BindPod | Prepare):
            return move
        is_refreshed = await self._cluster.native_groups.refresh(pod)
        if any(volume_claims(pod)):
            if not await self._cluster.knows_volume_claims_of(pod):
                until_s = self._clock.monotonic_s() + _REQUEUE_S
                return Wait("volume claims have not been seen", until_s)
        elif not is_refreshed:
            return move
        return self._decided(request)  # Anew, for what changed while we asked.

    def _decided(self, request: BindRequest) -> Move:
        return self._decider.next_move(request, self._cluster, self._times(request))

    def _times(self, request: BindRequest) -> Times:
        clock, progress = self._clock, self._progress_of(request)
        return Times(clock.monotonic_s(), progress.began_s, clock.now_s())

    def _progress_of(self, request: BindRequest) -> _Progress:
        key, uid = request.metadata.key, request.metadata.uid
        known = self._progress.get(key)
        if known is None or known.uid != uid:
            known = self._progress[key] = _Progress(uid, self._cluster.seen.at_s(uid))
        return known

    async def _make(self, request: BindRequest, move: Move) -> Result:
        match move:
            case Wait(_, until_s):
                left_s = max(until_s - self._clock.monotonic_s(), 0.0)
                return Result(requeue_after_s=min(left_s + 0.01, _REQUEUE_S))
            case Finish():
                self._bound(request.metadata.key)
                return DONE
            case Nothing():
                return DONE
            case BindPod() | Prepare() | GiveUp():
                return await self._act(request, move)

    async def _act(self, request: BindRequest, move: BindPod | Prepare | GiveUp) -> Result:
        if not await self._freshness.is_current(request):
            # Withdrawn, and perhaps there is another in its place: the watch will tell.
            return Result(requeue_after_s=_REQUEUE_S)
        match move:
            case BindPod(annotations):
                return await self._bind(request, annotations)
            case Prepare(writes):
                self._count_round(request)
                await self._write(writes)
                return Result(requeue_after_s=_REQUEUE_S)
            case GiveUp(why, writes, is_final, retry_after_s):
                await self._write(writes)
                self._record_failed_event(request, why, is_final)
                return self._given_up(request, is_final, retry_after_s)

    def _count_round(self, request: BindRequest) -> None:
        progress = self._progress_of(request)
        progress.rounds += 1
        if progress.rounds >= _PROMPT_ROUNDS:
            progress.not_before_s = self._clock.monotonic_s() + _REQUEUE_S

    def _given_up(self, request: BindRequest, is_final: bool, retry_after_s: float) -> Result:
        key, uid = request.metadata.key, request.metadata.uid
        if is_final:
            self._progress.pop(key, None)
            return DONE
        # The next attempt has all its time.
        begins_s = self._clock.monotonic_s() + retry_after_s
        self._progress[key] = _Progress(uid, begins_s, not_before_s=begins_s)
        return Result(requeue_after_s=retry_after_s)

    async def _bind(self, request: BindRequest, annotations: Mapping[str, str]) -> Result:
        pod = self._cluster.pod(request.pod)
        uid = pod.metadata.uid if pod else ""
        node = request.spec.selected_node
        try:
            await self._writer.bind(request.pod, node, uid=uid, annotations=annotations)
        except Conflict as conflict:
            # Bound by somebody, or on its way out: the next look, at a newer copy, will tell.
            if "already assigned" not in str(conflict):
                raise
        except ApiError as refused:
            if refused.is_passing:
                raise
            # KAI's words first.
            why = f"failed to bind pod <{request.pod}> to node <{node}>: {refused}"
            raise NotBound(why) from refused
        # The event that shows the pod on its node brings us back, to say so on the request.
        return DONE

    async def _write(self, writes: tuple[Write, ...]) -> None:
        for write in writes:
            await execute(write, self._writer)

    def _record_failed_event(self, request: BindRequest, why: str, is_final: bool) -> None:
        pod = self._cluster.pod(request.pod)
        if self._recorder is None or pod is None:
            return
        node = request.spec.selected_node
        then = "" if is_final else " (will be tried again)"
        text = f"Failed to bind pod {pod.key} to node {node}: {why}{then}"
        self._recorder.warning(reference_to(POD, pod), names.REASON_BINDING_ERROR, text)


@dataclass(frozen=True, slots=True)
class FinishReconciler:
    """Notes on a bind request that its pod is bound, behind the pods that wait to be; and on a pod
    that said it could not be.

    A note that is lost with this process is written by the next one, which sees the bound pod.
    When it could not be written for long, the name may be that of another request by now.
    """

    _requests: Informer[BindRequest]
    _cluster: InformerClusterView
    _writer: Writer
    _clock: Clock
    _freshness: RequestFreshness

    async def reconcile(self, key: Key) -> Result:
        request = self._requests.get(key)
        if request is not None and not request.is_over and is_bound(request, self._cluster):
            sent_s = self._clock.monotonic_s()
            with suppress(NotFound):
                written = await execute(finished(request), self._writer, Lane.BACKGROUND)
                if isinstance(written, BindRequest):
                    self._freshness.wrote(written, sent_s)
            await self._take_back(request)
        return DONE

    async def _take_back(self, request: BindRequest) -> None:
        pod = self._cluster.pod(request.pod)
        said = None if pod is None else taken_back(pod, self._clock.now_s())
        if said is not None:
            with suppress(NotFound, Conflict):
                await execute(said, self._writer)


@dataclass(frozen=True, slots=True)
class ReservationGcReconciler:
    """Keeps reservations and their users in step, group by group; and gives users back the labels
    that say so, where somebody took them.

    Pods and reservation pods are watched apart, and what two watches show may never have been so
    at one time. Whatever is to be deleted is therefore read first, and decided upon again.
    """

    _cluster: InformerClusterView
    _live: LiveReads
    _writer: Writer

    async def reconcile(self, group: str) -> Result:
        for pod in self._cluster.users(group):
            restored = restored_labels(pod, self._cluster.live_request(pod))
            if restored is not None:
                with suppress(NotFound, Conflict):
                    await execute(restored, self._writer)
        seen = stale_reservation_deletes([group], self._cluster)
        if not seen:
            return DONE
        live = await self._live.gpu_group(group, self._cluster)
        for delete in stale_reservation_deletes([group], live):
            await execute(delete, self._writer)
        return DONE


@dataclass(frozen=True, slots=True)
class GroupClaimReconciler:
    """Gives up claims of PodGroups of which no pod found a place where the devices are.

    Devices that are given up may be used by a pod of which we have not heard, so its pods are read
    before.
    """

    _cluster: InformerClusterView
    _live: LiveReads
    _writer: Writer

    async def reconcile(self, key: Key) -> Result:
        claim = self._cluster.claim(key)
        if claim is None or given_up(claim, self._cluster) is None:
            return DONE
        live = await self._live.native_groups_in(key.namespace)
        write = given_up(claim, live)
        if write is not None:
            with suppress(NotFound):
                await execute(write, self._writer)
        return DONE


async def execute(write: Write, writer: Writer, lane: Lane = Lane.NORMAL) -> object:
    """Make a write. One that was made before is as good as made. Returns what a patch made."""
    match write:
        case Create(kind, body):
            namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
            if kind is CONFIG_MAP:
                return await _own_config_map(Key(namespace, name), body, writer)
            with suppress(AlreadyExists):
                return await writer.create(kind, body, namespace)
        case Patch(kind, key, patch, subresource, version, merges_lists, uid):
            if version:
                metadata = {**patch.get("metadata", {}), "resourceVersion": version}
                patch = {**patch, "metadata": metadata}
            how = PatchType.STRATEGIC if merges_lists else PatchType.MERGE
            return await writer.patch(
                kind, key, patch, how, uid=uid, subresource=subresource, lane=lane
            )
        case Delete(kind, key, uid, grace_s, version):
            with suppress(NotFound, Conflict):
                await writer.delete(kind, key, Deletion(uid, version, grace_s=grace_s))
    return None


async def _own_config_map(key: Key, body: Mapping[str, Any], writer: Writer) -> object:
    """One may be there from an earlier pod of the same name, which our copy does not show.

    The pod's author names it, and may name any of the namespace: only one that bears our label is
    taken over. Another would get the pod as its owner, and go with it.
    """
    with suppress(AlreadyExists):
        return await writer.create(CONFIG_MAP, body, key.namespace)
    label = CONFIG_MAP_LABEL.replace("~", "~0").replace("/", "~1")
    owners = body["metadata"]["ownerReferences"]
    ours = [
        {"op": "test", "path": f"/metadata/labels/{label}", "value": "true"},
        {"op": "add", "path": "/metadata/ownerReferences", "value": owners},
        {"op": "add", "path": "/data", "value": body["data"]},
    ]
    try:
        return await writer.patch(CONFIG_MAP, key, ours, PatchType.JSON)
    except (Invalid, BadRequest) as error:
        raise NotOurs(
            f"config map {key.name} is not ours to write; annotate the pod with another "
            f"{names.ANNOTATION_SHARED_GPU_CONFIG_MAP}, or with none"
        ) from error
