"""build(supervisor, config): the whole object graph of the admission service."""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.api.kinds import NAMESPACE, POD_GROUP, QUEUE, VOLCANO_POD_GROUP, VOLCANO_QUEUE
from muster.api.meta import Key
from muster.api.queue import Queue
from muster.client.informer import Informer
from muster.runtime.connections import ServingLimits, Tls
from muster.runtime.parts import Phase
from muster.runtime.serving_certificate import CertificateFiles, ServingCertificate
from muster.runtime.supervisor import Supervisor
from muster.services.admission.handler import AdmissionHandler
from muster.services.admission.server import AdmissionServer
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_queues import Queues
from muster.services.admission.volcano.cluster import VolcanoCluster


@dataclass(frozen=True, slots=True)
class AdmissionServiceConfig:
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)
    host: str = ""
    """Where to listen; empty: nowhere, the handler is called in process."""
    port: int = 9443
    tls: CertificateFiles | ssl.SSLContext | None = None
    """Files are read again when they change."""
    limits: ServingLimits = field(default_factory=ServingLimits)
    volcano: bool = False
    """Whether to serve Volcano's kinds too."""


def build(supervisor: Supervisor, config: AdmissionServiceConfig) -> AdmissionHandler:
    # An old list of queues costs a warning; an admission that nobody reaches costs every pod.
    supervisor.needs_news = False
    queues, groups = supervisor.informer(QUEUE), supervisor.informer(POD_GROUP)
    groups_by_queue = groups.add_index(lambda group: (group.spec.queue,))

    def known_queues() -> Queues:
        return _ByName(queues)

    def groups_in(queue: str) -> list[str]:
        return [str(group.key) for group in groups_by_queue.get(queue)]

    handler = AdmissionHandler(
        config.settings,
        supervisor.connection.rand,
        known_queues,
        groups_in,
        _volcano(supervisor) if config.volcano else None,
    )
    if config.host:
        tls = _tls(supervisor, config.tls)
        server = AdmissionServer(handler, config.host, config.port, tls, config.limits)
        supervisor.add(server, Phase.SERVING)
    return handler


def _volcano(supervisor: Supervisor) -> VolcanoCluster:
    queues = supervisor.informer(VOLCANO_QUEUE, is_optional=True)
    groups = supervisor.informer(VOLCANO_POD_GROUP, is_optional=True)
    namespaces = supervisor.informer(NAMESPACE)
    below = queues.add_index(lambda queue: (queue.spec.parent,))
    inside = groups.add_index(lambda group: (group.spec.queue,))

    def annotations_of(name: str) -> Mapping[str, str]:
        found = namespaces.get(Key("", name))
        return found.metadata.annotations if found is not None else {}

    return VolcanoCluster(
        queue_of=lambda name: queues.get(Key("", name)),
        children_of=below.get,
        groups_in=lambda name: [str(group.key) for group in inside.get(name)],
        annotations_of=annotations_of,
    )


@dataclass(frozen=True, slots=True)
class _ByName(Mapping[str, Queue]):
    """The local copy itself, by name: a review reads a few of many queues."""

    _queues: Informer[Queue]

    def __getitem__(self, name: str) -> Queue:
        return self._queues.objects[Key("", name)]

    def __iter__(self) -> Iterator[str]:
        return (key.name for key in self._queues.objects)

    def __len__(self) -> int:
        return len(self._queues.objects)


def _tls(supervisor: Supervisor, given: CertificateFiles | ssl.SSLContext | None) -> Tls | None:
    match given:
        case None:
            return None
        case ssl.SSLContext():
            return lambda: given
        case CertificateFiles():
            log = supervisor.log.child("admission")
            return ServingCertificate(given, supervisor.clock, log).context
