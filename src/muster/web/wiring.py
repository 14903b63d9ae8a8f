"""build(supervisor, config): the whole object graph of `muster web`. There is no writer in it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.api.meta import ApiObject
from muster.base.offload import Offload, in_thread
from muster.client.limits import Limits
from muster.engine.config.conf import parse_conf
from muster.engine.warm import warm_up
from muster.foresight.situation import Rules
from muster.model.build import Identity, Priorities, aliases_of
from muster.model.snapshot import ClusterSnapshot
from muster.runtime.page_access import Gate, KubernetesGate, PageAuth, TokenGate
from muster.runtime.parts import Phase
from muster.runtime.supervisor import Supervisor
from muster.services.podgrouper.groupers.workload import GroupingSettings
from muster.services.scheduler.cache import SchedulerCache, SchedulerInformers
from muster.services.scheduler.conf_file import ConfFile
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.options import Options
from muster.services.scheduler.wiring import active_policy, watched_informers
from muster.web.handlers import Handlers
from muster.web.live import LiveCluster, NotReady
from muster.web.server import NeedsGate, WebServer, gate_for
from muster.web.submission import Surroundings

_REVIEWS: Final = Limits(per_s=5.0, burst=10, in_flight=4)
"""Of questions to the API server about who asks: strangers cause them."""


@dataclass(frozen=True, slots=True)
class WebConfig:
    options: Options = field(default_factory=Options)
    conf_file: Path | None = None
    """The scheduler's configuration; None: the built-in default."""
    host: str = "127.0.0.1"
    api_port: int = 8090
    auth: str = ""
    """Who may ask from other machines: kubernetes, or token; empty: nobody."""
    api_token_file: Path | None = None
    journal_folder: Path | None = None
    """Where the scheduler keeps its journal; None: no history."""
    why_budget_s: float = 1.0
    offload: Offload = in_thread


@dataclass(frozen=True, slots=True)
class _Watched:
    """The cluster, from local copies."""

    cache: SchedulerCache
    informers: SchedulerInformers
    conf: ConfFile
    options: Options

    def snapshot(self, now_s: float) -> ClusterSnapshot:
        if not all(one.has_synced for one in (self.informers.pods, self.informers.nodes)):
            raise NotReady("the cluster is still being read")
        return self.cache.snapshot(now_s)

    def rules(self) -> tuple[Rules, str]:
        active = self.conf.current()
        return Rules(active.policy, active.actions), self.conf.text

    def surroundings(self) -> Surroundings:
        informers, names = self.informers, self.options.names
        topologies = list(informers.topologies.objects.values())
        classes = list(informers.priority_classes.objects.values())
        groups: dict[str, dict[str, Mapping[str, Any]]] = {}
        for key, group in informers.pod_groups.objects.items():
            groups.setdefault(key.namespace, {})[key.name] = _plain(group)
        return Surroundings(
            Priorities.of(classes),
            aliases_of(topologies),
            groups,
            frozenset(one.metadata.name for one in classes),
            {
                one.metadata.name: [level.node_label for level in one.spec.levels]
                for one in topologies
            },
            GroupingSettings(
                scheduler_name=names.scheduler,
                queue_label=names.queue_label,
                node_pool_label=names.node_pool_label,
            ),
            Identity(names, self.options.stuck_after_s),
        )


def build(supervisor: Supervisor, config: WebConfig) -> WebServer:
    """Raises `NeedsGate` where others could ask, and nobody would judge them."""
    options, log = config.options, supervisor.log.child("web")
    gate = gate_for(config.host, _gate(supervisor, config))
    informers = watched_informers(supervisor, options)
    cache = SchedulerCache(informers, options, supervisor.clock)

    def parsed(text: str, file: str) -> ActivePolicy:
        return active_policy(parse_conf(text, file), options)

    conf = ConfFile(config.conf_file, parsed, log, config.offload)
    warm_up(lambda what: log.info("compiling kernels", what=what))
    # A token is good for ten minutes: no key has to outlive the process.
    cluster = LiveCluster(
        _Watched(cache, informers, conf, options),
        supervisor.clock,
        config.offload,
        config.journal_folder,
        secrets.token_bytes(32),
    )
    handlers = Handlers(cluster, config.why_budget_s)
    server = WebServer(config.host, config.api_port, handlers, log, gate)
    supervisor.add(server, Phase.SERVING)
    return server


def _gate(supervisor: Supervisor, config: WebConfig) -> Gate | None:
    if not config.auth:
        return None
    if config.auth == PageAuth.KUBERNETES:
        return KubernetesGate(supervisor.connection.with_limits(_REVIEWS))
    if config.auth == PageAuth.TOKEN and config.api_token_file is not None:
        return TokenGate(config.api_token_file)
    raise NeedsGate("--auth: write kubernetes, or token with --api-token-file")


def _plain(thing: ApiObject) -> Mapping[str, Any]:
    found: Mapping[str, Any] = msgspec.to_builtins(thing)
    return found
