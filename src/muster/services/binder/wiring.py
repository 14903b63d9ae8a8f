"""build(supervisor, config): the whole object graph of the binder."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.api.bindrequest import BindRequest
from muster.api.core import Pod
from muster.api.devices import ResourceClaim
from muster.api.kinds import (
    BIND_REQUEST,
    CONFIG_MAP,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RESOURCE_CLAIM,
    STORAGE_CLASS,
)
from muster.api.meta import Key
from muster.client.informer import Informer
from muster.client.read import Selection
from muster.client.write import Writer
from muster.model.gpu_request import gpu_groups_of
from muster.runtime.controller import Controller, Pace, own_key
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.supervisor import Supervisor
from muster.services.binder.cluster_view import Preparation
from muster.services.binder.decide import Decider
from muster.services.binder.group_claims import groups_with
from muster.services.binder.informer_view import BinderInformers, InformerClusterView
from muster.services.binder.live_reads import LiveReads
from muster.services.binder.native_groups import NativeGroupCache, group_of
from muster.services.binder.reconciler import (
    BindRequestReconciler,
    FinishReconciler,
    GroupClaimReconciler,
    ReservationGcReconciler,
)
from muster.services.binder.request_freshness import RequestFreshness
from muster.services.binder.settings import BinderSettings
from muster.services.binder.steps.devices import AllocateDevices, named_claims, owning_pods
from muster.services.binder.steps.gpu_sharing import CONFIG_MAP_LABEL, ShareGpu
from muster.services.binder.steps.reserve_gpu import ReserveGpu
from muster.services.binder.steps.volumes import BindVolumes, volume_claims

_NOTES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class BinderServiceConfig:
    settings: BinderSettings = field(default_factory=BinderSettings)
    workers: int = 32
    """Nobody waits while holding one, so they may be many."""
    watches_claims: bool = True


def build(supervisor: Supervisor, config: BinderServiceConfig) -> None:
    settings = config.settings
    NoEffectReport(supervisor).show(settings.no_effect)
    informers = _informers(supervisor, config)
    reader, clock = supervisor.reader, supervisor.clock
    cluster = InformerClusterView(informers, NativeGroupCache(reader), reader, clock)
    freshness = RequestFreshness(informers.requests, reader, clock)
    live = LiveReads(reader, settings.names)
    writer = Writer(supervisor.connection, "muster-binder")
    finisher = supervisor.controller(
        "bound",
        FinishReconciler(informers.requests, cluster, writer, clock, freshness),
        # Few at once, so that pods which wait to be bound do not wait for notes about others.
        Pace(workers=_NOTES_AT_ONCE),
    )
    reconciler = BindRequestReconciler(
        informers.requests,
        cluster,
        Decider(preparations(settings), settings),
        writer,
        clock,
        freshness,
        finisher.queue.add,
        supervisor.recorder,
    )
    pace = Pace(workers=config.workers, backoff=settings.retries)
    _watch(supervisor.controller("binder", reconciler, pace), informers, cluster)
    if informers.claims is not None:
        claims = supervisor.controller("group claims", GroupClaimReconciler(cluster, live, writer))
        _watch_group_claims(claims, informers, informers.claims, cluster)
    sweeper = supervisor.controller("reservations", ReservationGcReconciler(cluster, live, writer))
    sweeper.watch(informers.pods, gpu_groups_of)
    sweeper.watch(informers.reservation_pods, gpu_groups_of)
    sweeper.watch(informers.requests, lambda request: request.spec.selected_gpu_groups)


def _watch(
    binder: Controller[Key], informers: BinderInformers, cluster: InformerClusterView
) -> None:
    """Requests are looked at when they, their pods or what their pods wait for changes."""
    requests_of = informers.requests.add_index(lambda request: (request.pod,))

    def about(pods: Iterable[Key]) -> Iterable[Key]:
        return [key for pod in pods for key in _keys(requests_of.get(pod))]

    binder.watch(informers.requests, own_key, _needs_work)
    for pods in informers.bound_pods:
        binder.watch(pods, lambda pod: about((pod.key,)))
    binder.watch(informers.reservation_pods, lambda pod: _waiting_for(pod, cluster))
    with_volume = [pods.add_index(volume_claims) for pods in informers.bound_pods]
    binder.watch(
        informers.volume_claims,
        lambda claim: about(
            pod.key for users in with_volume for pod in users.get(claim.metadata.key)
        ),
    )
    if informers.claims is not None:
        with_claim = [pods.add_index(named_claims) for pods in informers.bound_pods]
        binder.watch(
            informers.claims,
            lambda claim: about(
                [
                    *owning_pods(claim),
                    *(pod.key for users in with_claim for pod in users.get(claim.metadata.key)),
                ]
            ),
        )


def preparations(settings: BinderSettings) -> list[Preparation]:
    """In the order in which they must be through, under the names by which they are skipped."""
    named: tuple[tuple[str, Preparation], ...] = (
        ("volumebinding", BindVolumes(settings)),
        ("dynamicresources", AllocateDevices()),
        ("", ReserveGpu(settings)),
        ("gpusharing", ShareGpu(settings)),
    )
    return [step for name, step in named if name not in settings.skipped_steps]


def _watch_group_claims(
    controller: Controller[Key],
    informers: BinderInformers,
    claims: Informer[ResourceClaim],
    cluster: InformerClusterView,
) -> None:
    """Claims that PodGroups hold are looked at when such a group's pods change."""
    held_by = claims.add_index(groups_with)

    def of_pod(pod: Pod | None) -> Iterable[Key]:
        group = group_of(pod) if pod is not None else None
        return [claim.metadata.key for claim in held_by.get(group)] if group is not None else ()

    controller.watch(claims, own_key, lambda _, new: new is not None and bool(groups_with(new)))
    controller.watch(informers.pods, of_pod)
    controller.watch(informers.requests, lambda request: of_pod(cluster.pod(request.pod)))


def _informers(supervisor: Supervisor, config: BinderServiceConfig) -> BinderInformers:
    known = config.settings.names

    def of(scheduler: str) -> Informer[Pod]:
        return supervisor.informer(POD, Selection(fields=f"spec.schedulerName={scheduler}"))

    claims = (
        supervisor.informer(RESOURCE_CLAIM, is_optional=True) if config.watches_claims else None
    )
    return BinderInformers(
        requests=supervisor.informer(BIND_REQUEST),
        pods=of(known.scheduler),
        reservation_pods=supervisor.informer(POD, Selection(known.reservation_namespace)),
        nodes=supervisor.informer(NODE),
        config_maps=supervisor.informer(CONFIG_MAP, Selection(labels=CONFIG_MAP_LABEL)),
        claims=claims,
        volume_claims=supervisor.informer(PERSISTENT_VOLUME_CLAIM),
        persistent_volumes=supervisor.informer(PERSISTENT_VOLUME),
        storage_classes=supervisor.informer(STORAGE_CLASS),
        other_pods=tuple(map(of, sorted(config.settings.other_schedulers))),
    )


def _needs_work(old: BindRequest | None, new: BindRequest | None) -> bool:
    """Whether to look at a request: what has come to its end is looked at when it goes."""
    return new is None or not new.is_over


def _keys(requests: Iterable[BindRequest]) -> Iterable[Key]:
    return [request.metadata.key for request in requests if not request.is_over]


def _waiting_for(pod: Pod, cluster: InformerClusterView) -> Iterable[Key]:
    """Requests that wait for a device which this reservation pod holds."""
    return [key for group in gpu_groups_of(pod) for key in _keys(cluster.requests_for(group))]
