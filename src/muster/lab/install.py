"""An installation in a laptop cluster: kinds, priority classes, queues and services.

ours = Installation()
async with Cluster(ClusterPlan(nodes=..., services=ours.services, webhooks=ours.webhooks), ...)
    await ours.install(cluster)          # before the services are needed
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import msgspec

from muster.api import kinds
from muster.api.crds import DEFINITIONS, manifest
from muster.api.names import DEFAULT_PARENT_QUEUE, DEFAULT_QUEUE, PRIORITY_CLASSES, Names
from muster.api.profiles import ProfileName
from muster.api.roles import Rights
from muster.api.volcano import DEFAULT_QUEUE as VOLCANO_DEFAULT_QUEUE
from muster.api.volcano import ROOT_QUEUE
from muster.base.clock import Clock
from muster.client.kinds import plain_kind, plainly
from muster.client.write import Writer
from muster.lab import reservation_pods
from muster.lab.hosting import ACCOUNT, NAMESPACE, HostedService, ensure
from muster.lab.virtual_loop import offload_here
from muster.lab.volcano_kinds import definitions
from muster.runtime.httpd import Httpd, Probes
from muster.runtime.parts import Phase
from muster.runtime.supervisor import Supervisor
from muster.services.admission import roles as admission_roles
from muster.services.admission import wiring as admission
from muster.services.admission.handler import AdmissionHandler
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.admission.webhooks import Registration, webhook_configurations
from muster.services.binder import roles as binder_roles
from muster.services.binder import wiring as binder
from muster.services.binder.settings import BinderSettings
from muster.services.podgrouper import roles as podgrouper_roles
from muster.services.podgrouper import wiring as podgrouper
from muster.services.podgroups import roles as podgroups_roles
from muster.services.podgroups import wiring as podgroups
from muster.services.queues import roles as queues_roles
from muster.services.queues import wiring as queues
from muster.services.reservation import roles as reservation_roles
from muster.services.scaleadjuster import roles as scaleadjuster_roles
from muster.services.scaleadjuster import wiring as scaleadjuster
from muster.services.scheduler import roles as scheduler_roles
from muster.services.scheduler import wiring as scheduler
from muster.services.scheduler.loop import SchedulingLoop
from muster.services.scheduler.options import Options, SchedulerServiceConfig
from muster.services.volcano import roles as volcano_roles
from muster.services.volcano import wiring as volcano
from muster.sim.apiserver.admission import Handler

_DEFINITION = plain_kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
_CLASS, _QUEUE = plainly(kinds.PRIORITY_CLASS), plainly(kinds.QUEUE)
_DIALECT_QUEUES = {
    ProfileName.VOLCANO: plainly(kinds.VOLCANO_QUEUE),
    ProfileName.KUBE_BATCH: plainly(kinds.KUBE_BATCH_QUEUE),
}
_WEBHOOKS = {
    f"{kind}WebhookConfiguration": plain_kind(
        "admissionregistration.k8s.io",
        "v1",
        f"{kind}WebhookConfiguration",
        f"{kind.lower()}webhookconfigurations",
        namespaced=False,
    )
    for kind in ("Mutating", "Validating")
}
_UNBOUNDED = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


_READY_WITHIN_S = 400.0
"""Long enough for the first lists of a slow server; who is not ready then never will be."""


class NotReady(Exception):
    """Services that do not get ready, and what each still misses."""


class ServiceHost(Protocol):
    """Where services run: a laptop cluster, or a real control plane."""

    @property
    def writer(self) -> Writer: ...

    @property
    def clock(self) -> Clock: ...

    async def start(self, service: HostedService) -> Supervisor: ...


@dataclass(frozen=True, slots=True)
class WebhookServer:
    """Where an API server outside this process finds our webhooks, on loopback."""

    port: int
    tls: ssl.SSLContext
    ca_bundle: str

    host = "127.0.0.1"


@dataclass(slots=True)
class Installation:
    """Our services with their settings; some may be left out."""

    names: Names = field(default_factory=Names)
    options: Options = field(default_factory=Options)
    conf_file: Path | None = None
    """The scheduler's; None: the built-in default."""
    cycle_log_folder: Path | None = None
    """Where the scheduler keeps its cycles; None: nowhere."""
    journal_folder: Path | None = None
    """Where it keeps what it decided, to be asked about; None: nowhere."""
    scheduler_pages: tuple[str, int] | None = None
    """Host and port of the scheduler's metrics and debug pages; None: nowhere."""
    usage_store: Path | None = None
    """Where the queue controller keeps past usage; None: nowhere."""
    usage_in_cluster: bool = False
    """Whether it keeps the days of it in the cluster, too."""
    reservation_image: str = "muster/reservation"
    hami_core: bool = False
    """Whether HAMi keeps pods that share a GPU to their part of its memory."""
    dialect: ProfileName = ProfileName.MUSTER
    """Whose kinds are served beside our own, with a scheduler of their own for them; of Volcano
    the controllers and webhooks too."""
    dialect_conf: Path | None = None
    """The conf of that scheduler; None: the default of its project."""
    without: Sequence[str] = ()
    webhook_server: WebhookServer | None = None
    """None: the API server is in this process, and asks without a network."""
    loop: SchedulingLoop | None = None
    """The scheduler's loop while it runs, for tests and the curious."""
    _handler: AdmissionHandler | None = None

    @property
    def services(self) -> list[HostedService]:
        known = self.names
        listed = (
            HostedService("podgrouper", self._podgrouper, podgrouper_roles.rights(known)),
            HostedService("podgroups", self._podgroups, podgroups_roles.rights(known)),
            HostedService("queues", self._queues, queues_roles.rights(known)),
            HostedService("admission", self._admission, admission_roles.rights()),
            HostedService("binder", self._binder, binder_roles.rights(known)),
            HostedService("scheduler", self._scheduler, self._scheduler_rights()),
            HostedService("scaleadjuster", self._scaleadjuster, scaleadjuster_roles.rights(known)),
            HostedService("reservation", self._reservation, reservation_roles.rights(known)),
            *self._dialect_services,
        )
        return [service for service in listed if service.name not in self.without]

    @property
    def webhooks(self) -> Mapping[tuple[str, str], Handler]:
        return {(self.names.namespace, "admission"): self._review}

    async def bring_up(self, home: ServiceHost) -> None:
        """Install and start everything; returns when all services are ready."""
        await self.install(home.writer)
        started = [await home.start(service) for service in self.services]
        await until_ready(started, home.clock)
        if "admission" not in self.without:
            await self.register_webhooks(home.writer)
        await self.default_queues(home.writer)

    async def install(self, writer: Writer) -> None:
        """What must be there before the services: kinds, classes, namespaces."""
        for definition in DEFINITIONS:
            await ensure(writer, _DEFINITION, manifest(definition))
        for body in () if self.dialect.speaks_kai else definitions(self.dialect.system):
            await ensure(writer, _DEFINITION, body)
        for name, value in PRIORITY_CLASSES.items():
            await ensure(writer, _CLASS, {"metadata": {"name": name}, "value": value})
        for name in (
            self.names.namespace,
            self.names.reservation_namespace,
            self.names.scale_adjust_namespace,
        ):
            await ensure(writer, NAMESPACE, {"metadata": {"name": name}})
        for namespace, account in (
            (self.names.reservation_namespace, self.names.reservation_service_account),
            (self.names.scale_adjust_namespace, self.names.scale_adjust_service_account),
        ):
            await ensure(writer, ACCOUNT, {"metadata": {"name": account}}, namespace)

    async def register_webhooks(self, writer: Writer) -> None:
        """Last: from here on, what we refuse or change depends on our being there."""
        for body in webhook_configurations(self._registration()):
            await ensure(writer, _WEBHOOKS[body["kind"]], body)

    async def default_queues(self, writer: Writer) -> None:
        """The two queues that work lands in when nobody says otherwise."""
        for name in (ROOT_QUEUE, VOLCANO_DEFAULT_QUEUE) if self.dialect in _DIALECT_QUEUES else ():
            body = {"metadata": {"name": name}, "spec": {"weight": 1}}
            await ensure(writer, _DIALECT_QUEUES[self.dialect], body)
        resources = {"cpu": _UNBOUNDED, "memory": _UNBOUNDED, "gpu": _UNBOUNDED}
        for name, above in (
            (DEFAULT_PARENT_QUEUE, {}),
            (DEFAULT_QUEUE, {"parentQueue": DEFAULT_PARENT_QUEUE}),
        ):
            spec = {"resources": resources, **above}
            await ensure(writer, _QUEUE, {"metadata": {"name": name}, "spec": spec})

    def _scheduler_rights(self) -> Rights:
        return scheduler_roles.rights(self.names, (self.names.scheduler_lease(self.options.shard),))

    async def _review(self, path: str, body: bytes) -> bytes:
        assert self._handler is not None, "the admission service has not been started"
        return msgspec.json.encode(self._handler.answer(path, msgspec.json.decode(body)))

    def _scheduler(self, supervisor: Supervisor) -> None:
        options = replace(self.options, names=self.names)
        if self.dialect.speaks_kai:
            options = replace(options, profile=self.dialect)
            self.loop = self._shown_scheduler(supervisor, options, self.conf_file)
        else:
            config = SchedulerServiceConfig(options, self.conf_file, offload=offload_here())
            self.loop = scheduler.build(supervisor, config)

    def _shown_scheduler(
        self, supervisor: Supervisor, options: Options, conf: Path | None
    ) -> SchedulingLoop:
        """The one that the installation is about: its pages are served, what it does is kept."""
        config = SchedulerServiceConfig(
            options,
            conf,
            self.cycle_log_folder,
            journal_folder=self.journal_folder,
            offload=offload_here(),
        )
        loop = scheduler.build(supervisor, config)
        if self.scheduler_pages is not None:
            shown = Probes(
                supervisor.health, supervisor.readiness, supervisor.registry, supervisor.debug
            )
            supervisor.add(Httpd(*self.scheduler_pages, shown), Phase.SERVING)
        return loop

    def _binder(self, supervisor: Supervisor) -> None:
        image, hami_core = self.reservation_image, self.hami_core
        others = () if self.dialect.speaks_kai else (self.dialect.system,)
        settings = BinderSettings(
            self.names, frozenset(others), reservation_image=image, hami_core=hami_core
        )
        binder.build(supervisor, binder.BinderServiceConfig(settings))

    def _podgrouper(self, supervisor: Supervisor) -> None:
        podgrouper.build(supervisor, podgrouper.PodGrouperServiceConfig(self.names))

    def _podgroups(self, supervisor: Supervisor) -> None:
        podgroups.build(supervisor, podgroups.PodGroupServiceConfig(self.names))

    def _queues(self, supervisor: Supervisor) -> None:
        config = queues.QueueServiceConfig(
            self.names,
            usage_store=self.usage_store,
            usage_in_cluster=self.usage_in_cluster,
            offload=offload_here(),
        )
        queues.build(supervisor, config)

    def _scaleadjuster(self, supervisor: Supervisor) -> None:
        scaleadjuster.build(
            supervisor, scaleadjuster.ScaleAdjusterServiceConfig(self.names, image="scaling")
        )

    def _volcano(self, supervisor: Supervisor) -> None:
        volcano.build(supervisor, volcano.VolcanoServiceConfig(self.names))

    def _reservation(self, supervisor: Supervisor) -> None:
        reservation_pods.build(supervisor, self.names)

    def _admission(self, supervisor: Supervisor) -> None:
        settings = AdmissionSettings(
            scheduler_name=self.names.scheduler,
            services_namespace=self.names.namespace,
            gpu_sharing=True,
            hami_core=self.hami_core,
            unknown_parent=UnknownQueue.WARN,
            queue_label=self.names.queue_label,
            unknown_queue=UnknownQueue.WARN,
        )
        server = self.webhook_server
        config = admission.AdmissionServiceConfig(settings, volcano=self._has_volcano)
        if server is not None:
            config = replace(config, host=server.host, port=server.port, tls=server.tls)
        self._handler = admission.build(supervisor, config)

    def _registration(self) -> Registration:
        if (server := self.webhook_server) is None:
            return Registration(self.names, volcano_scheduler=self._volcano_scheduler)
        url = f"https://{server.host}:{server.port}"
        return Registration(
            self.names,
            ca_bundle=server.ca_bundle,
            url=url,
            volcano_scheduler=self._volcano_scheduler,
        )

    @property
    def _volcano_scheduler(self) -> str:
        return volcano.VolcanoServiceConfig().scheduler_name if self._has_volcano else ""

    @property
    def _has_volcano(self) -> bool:
        return self.dialect is ProfileName.VOLCANO

    @property
    def _dialect_services(self) -> list[HostedService]:
        """The scheduler of the other dialect, and what else it takes."""
        if self.dialect.speaks_kai:
            return []
        known = replace(self.names, scheduler=self.dialect.system)
        name = f"{self.dialect}-scheduler"
        found = [HostedService(name, self._dialect_scheduler, scheduler_roles.rights(known))]
        if self._has_volcano:
            found.append(HostedService("volcano", self._volcano, volcano_roles.rights(known)))
        return found

    def _dialect_scheduler(self, supervisor: Supervisor) -> None:
        known = replace(self.names, scheduler=self.dialect.system)
        options = replace(self.options, names=known, profile=self.dialect)
        self._shown_scheduler(supervisor, options, self.dialect_conf)


async def until_ready(started: Sequence[Supervisor], clock: Clock) -> None:
    until_s = clock.monotonic_s() + _READY_WITHIN_S
    while waits := [one for one in started if one.readiness()]:
        if clock.monotonic_s() > until_s:
            missing = "; ".join(f"{one.name}: {', '.join(one.readiness())}" for one in waits)
            raise NotReady(f"not ready after {_READY_WITHIN_S:g} s: {missing}")
        await clock.sleep(0.05)
