"""Config, shards and what the cluster serves in; every object that is to be, out. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from muster.api import names
from muster.api.codec import builtins
from muster.api.config import Config
from muster.api.config_defaults import images_of_kai
from muster.api.defaulting import defaulted_shard
from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.api.validation.configs import config_problems
from muster.api.validation.no_effect import CONFIG, SHARD, no_effect
from muster.api.validation.problems import (
    DNS_LABEL_MAX,
    Problem,
    Severity,
    is_dns_label,
    warning,
)
from muster.api.validation.shards import pool_problems, shard_problems
from muster.services.admission.webhooks import Registration, webhook_configurations
from muster.services.operator import flags
from muster.services.operator.clashes import (
    config_clashes,
    dashboard_name,
    names_of_ours,
    scheduler_name,
    shard_clashes,
    shard_names,
)
from muster.services.operator.dialects import (
    conf_source,
    first_queues,
    profile_of,
    profile_problems,
    without_effect,
)
from muster.services.operator.guards import guards, monitor, service
from muster.services.operator.journal import journal_problems, journal_volume
from muster.services.operator.objects import (
    CONFIG_MAP,
    MUTATING,
    NAMESPACE,
    POLICY,
    PRIORITY_CLASS,
    PROMETHEUS,
    VALIDATING,
    Json,
    Wanted,
    kept,
    wanted,
)
from muster.services.operator.pods import METRICS, Process, deployment
from muster.services.operator.prometheus import usage_address, usage_prometheus
from muster.services.operator.rbac import own_pod_policy, service_access
from muster.services.operator.scheduler_conf import (
    conf_problems,
    name_problems,
    names_no_address,
    scheduler_conf,
)
from muster.services.operator.settings import VOLCANO_SECTION, Installation, Settings
from muster.services.operator.shard_args import arg_problems
from muster.services.operator.usage import usage_problems, usage_volume
from muster.services.operator.utilization import utilization_problems

_SECTIONS: Final = {
    names.SERVICE_ADMISSION: "admission",
    names.SERVICE_BINDER: "binder",
    names.SERVICE_DASHBOARD: "dashboard",
    names.SERVICE_POD_GROUPER: "podGrouper",
    names.SERVICE_POD_GROUP_CONTROLLER: "podGroupController",
    names.SERVICE_QUEUE_CONTROLLER: "queueController",
    names.SERVICE_SCALE_ADJUSTER: "nodeScaleAdjuster",
    names.SERVICE_SCHEDULER: "scheduler",
    names.SERVICE_VOLCANO_CONTROLLERS: VOLCANO_SECTION,
}
"""Where Config speaks of each service; of the last one it does not."""


@dataclass(frozen=True, slots=True)
class Desired:
    """What is to be, by whom it belongs to."""

    config: tuple[Wanted, ...]
    """Owned by Config, or kept for ever."""
    webhooks: tuple[Wanted, ...] = ()
    """Owned by Config; made only once somebody answers them."""
    shards: dict[str, tuple[Wanted, ...]] = field(default_factory=dict)
    """Owned by the shard of that name."""


def desired(installation: Installation) -> Desired:
    settings = installation.settings
    enabled = [name for name in _SECTIONS if _is_enabled(installation, name)]
    config = [
        *_kept(settings),
        *first_queues(installation.profiles),
        *service_access(settings, enabled, installation.leases),
        *usage_prometheus(installation),
    ]
    for process in _processes(installation, enabled):
        config += [deployment(process, settings), *guards(process, installation)]
        config += _services(process, installation)
    if names.SERVICE_BINDER in enabled and POLICY.full_name in installation.served:
        config += own_pod_policy(settings)
    schedules = names.SERVICE_SCHEDULER in enabled
    return Desired(
        tuple(config),
        tuple(_webhooks(installation)) if names.SERVICE_ADMISSION in enabled else (),
        {
            shard.metadata.name: tuple(_shard(shard, installation)) if schedules else ()
            for shard in installation.shards
        },
    )


def usable_shards(
    shards: Iterable[SchedulingShard], settings: Settings, served: frozenset[str] = frozenset()
) -> tuple[list[SchedulingShard], dict[str, list[Problem]]]:
    """Shards with their defaults, and what is wrong with the others. Warnings stop nobody."""
    usable: list[SchedulingShard] = []
    wrong: dict[str, list[Problem]] = {}
    owners: dict[str, SchedulingShard] = {}
    taken = {*names_of_ours(settings)}
    for shard in sorted(shards, key=lambda one: one.metadata.age_order):
        first = owners.setdefault(shard.spec.partition_label_value, shard)
        found = [*_problems_of(shard, settings, served)]
        if first is not shard:
            found += pool_problems(shard, first)
        called = shard_names(shard, settings)
        found += shard_clashes(called, taken)
        taken.update(called)
        whole = defaulted_shard(shard)
        if not found and profile_of(shard).speaks_kai:
            found = [*conf_problems(whole, usage_address(settings))]
        if found:
            wrong[shard.metadata.name] = found
        else:
            usable.append(whole)
    return usable, wrong


def _problems_of(
    shard: SchedulingShard, settings: Settings, served: frozenset[str]
) -> Iterator[Problem]:
    yield from profile_problems(shard, served)
    yield from journal_problems(shard)
    yield from usage_problems(shard)
    yield from utilization_problems(shard, usage_address(settings))
    yield from (one for one in shard_problems(shard) if one.severity is Severity.ERROR)
    yield from _name_problems(shard, settings)
    is_our_image = settings.section("scheduler")["service"]["image"]["name"] == settings.image
    if is_our_image and profile_of(shard).speaks_kai:
        yield from name_problems(shard)
    usage = shard.spec.usage_db_config
    is_asked = usage is not None and usage.client_type == "prometheus"
    if is_asked and names_no_address(usage) and not usage_address(settings):
        fix = "write the address here, or spec.prometheus.externalPrometheusUrl in Config"
        path = "spec.usageDBConfig.connectionString"
        yield Problem(path, "nothing says where past usage is", fix)
    yield from arg_problems(shard)


def _name_problems(shard: SchedulingShard, settings: Settings) -> Iterator[Problem]:
    name, own = scheduler_name(settings, shard), shard.metadata.name
    if not is_dns_label(name):
        most = DNS_LABEL_MAX - (len(name) - len(own))
        why = f"its Service would be called {name}, which is no DNS label"
        fix = f"give it a name of at most {most} lower-case letters, digits and -"
        yield Problem("metadata.name", why, fix)


def usable_config(config: Config) -> list[Problem]:
    """What is wrong with Config."""
    found = [one for one in config_problems(config) if one.severity is Severity.ERROR]
    return found or [*config_clashes(config)]


def ineffective(config: Config, shards: Iterable[SchedulingShard]) -> list[Problem]:
    """What of Config and shards does nothing."""
    found = [*no_effect(CONFIG, {"spec": builtins(config.spec)})]
    why, fix = "has no effect: it is an image of KAI", "remove it, or name an image of muster"
    found += [warning(path, why, fix) for path in images_of_kai(config)]
    for shard in shards:
        found += no_effect(SHARD, {"spec": builtins(shard.spec)})
        found += without_effect(shard)
    return found


def missing_dependencies(installation: Installation) -> list[str]:
    """What Config asks for and the cluster cannot give."""
    prometheus = installation.settings.prometheus
    manages = prometheus["enabled"] and not prometheus.get("externalPrometheusUrl")
    lacks = PROMETHEUS.full_name not in installation.served
    return ["prometheus operator"] if manages and lacks else []


def _is_enabled(installation: Installation, service_name: str) -> bool:
    if service_name == names.SERVICE_VOLCANO_CONTROLLERS:
        return ProfileName.VOLCANO in installation.profiles
    section = installation.settings.section(_SECTIONS[service_name])
    enabled: bool = section["service"]["enabled"]
    return enabled


def _kept(settings: Settings) -> Iterator[Wanted]:
    known = settings.names
    for namespace in (known.reservation_namespace, known.scale_adjust_namespace):
        yield kept(NAMESPACE, namespace)
    for name, value in names.PRIORITY_CLASSES.items():
        yield kept(PRIORITY_CLASS, name, value=value)


def _processes(installation: Installation, enabled: list[str]) -> Iterator[Process]:
    """Every service but the schedulers, which belong to shards."""
    settings = installation.settings
    webhook = settings.section("admission")["webhook"]
    certificate = {"secret": {"secretName": names.SECRET_WEBHOOK_TLS}}
    metrics = settings.section("queueController")["controllerService"]["metrics"]
    rows = {
        names.SERVICE_ADMISSION: Process(
            names.SERVICE_ADMISSION,
            "admission",
            names.SERVICE_ADMISSION,
            "admission",
            flags.admission_flags(settings, installation.profiles),
            webhook["metricsPort"],
            {"webhook": webhook["targetPort"]},
            {flags.CERTIFICATES: certificate},
        ),
        names.SERVICE_BINDER: replace(
            _plain(names.SERVICE_BINDER, flags.binder_flags(settings, installation.profiles)),
            metrics_port=settings.section("binder")["metricsPort"],
        ),
        names.SERVICE_POD_GROUPER: _plain(
            names.SERVICE_POD_GROUPER, flags.pod_grouper_flags(settings)
        ),
        names.SERVICE_POD_GROUP_CONTROLLER: _plain(
            names.SERVICE_POD_GROUP_CONTROLLER, flags.pod_group_controller_flags(settings)
        ),
        names.SERVICE_QUEUE_CONTROLLER: replace(
            _plain(names.SERVICE_QUEUE_CONTROLLER, flags.queue_controller_flags(settings)),
            metrics_port=metrics["targetPort"],
            folders=usage_volume(),
        ),
        names.SERVICE_SCALE_ADJUSTER: _plain(
            names.SERVICE_SCALE_ADJUSTER, flags.scale_adjuster_flags(settings)
        ),
        names.SERVICE_VOLCANO_CONTROLLERS: _plain(
            names.SERVICE_VOLCANO_CONTROLLERS, flags.volcano_flags(settings)
        ),
    }
    return (process for name, process in rows.items() if name in enabled)


def _plain(name: str, args: list[str]) -> Process:
    """A service whose command, account and Deployment have one name."""
    return Process(name, name, name, _SECTIONS[name], args)


def _services(process: Process, installation: Installation) -> Iterator[Wanted]:
    settings = installation.settings
    namespace, port = settings.names.namespace, process.metrics_port
    ports, monitored = {"http-metrics": (port, port)}, "http-metrics"
    if process.name == names.SERVICE_ADMISSION:
        webhook = settings.section("admission")["webhook"]
        ports = {"webhook": (webhook["port"], webhook["targetPort"]), METRICS: (port, port)}
        monitored = METRICS
    if process.name == names.SERVICE_QUEUE_CONTROLLER:
        given = settings.section("queueController")["controllerService"]["metrics"]
        ports, monitored = {given["name"]: (given["port"], port)}, given["name"]
    yield service(process, namespace, ports)
    yield from monitor(process.name, monitored, installation)


def _shard(shard: SchedulingShard, installation: Installation) -> Iterator[Wanted]:
    settings = installation.settings
    name, namespace = scheduler_name(settings, shard), settings.names.namespace
    ports = settings.section("scheduler")["schedulerService"]
    conf = conf_source(shard, flags.CONF_FILE)
    if profile_of(shard).speaks_kai:
        text = scheduler_conf(shard, usage_address(settings))
        yield wanted(CONFIG_MAP, name, namespace, data={flags.CONF_FILE: text})
        conf = {"configMap": {"name": name}}
    process = Process(
        name,
        "scheduler",
        names.SERVICE_SCHEDULER,
        "scheduler",
        flags.scheduler_flags(settings, shard, installation.shards),
        ports["targetPort"],
        # Not file by file: only a whole directory follows the ConfigMap while the scheduler runs.
        files={flags.CONF: conf} if conf is not None else {},
        folders=journal_volume(shard),
    )
    yield deployment(process, settings)
    yield from guards(process, installation)
    listed = {"http-metrics": (ports["port"], ports["targetPort"])}
    yield service(process, namespace, listed, type=ports["type"])
    yield from monitor(name, "http-metrics", installation)
    if _is_enabled(installation, names.SERVICE_DASHBOARD) and profile_of(shard).speaks_kai:
        yield from _dashboard(shard, installation, {"configMap": {"name": name}})


def _dashboard(shard: SchedulingShard, installation: Installation, conf: Json) -> Iterator[Wanted]:
    """Of one shard: it sees the nodes, and goes by the rules, of that scheduler."""
    settings = installation.settings
    name = dashboard_name(shard)
    port = settings.section("dashboard")["port"]
    process = Process(
        name,
        "web",
        names.SERVICE_DASHBOARD,
        "dashboard",
        flags.dashboard_flags(settings, shard),
        ports={"http": port},
        files={flags.CONF: conf},
    )
    yield deployment(process, settings)
    yield from guards(process, installation)
    metrics = process.metrics_port
    listed = {"http": (port, port), "http-metrics": (metrics, metrics)}
    yield service(process, settings.names.namespace, listed)
    yield from monitor(name, "http-metrics", installation)


def _webhooks(installation: Installation) -> Iterator[Wanted]:
    settings, admission = installation.settings, installation.settings.section("admission")
    everywhere = settings.everywhere
    registration = Registration(
        settings.names,
        ca_bundle=installation.ca_bundle,
        port=admission["webhook"]["port"],
        namespace_labels=everywhere.get("namespaceLabelSelector", {}),
        pod_labels=everywhere.get("podLabelSelector", {}),
        needs_queue_label=admission["queueLabelSelector"],
        protects_queues=admission["protectQueues"],
        volcano_scheduler=ProfileName.VOLCANO
        if ProfileName.VOLCANO in installation.profiles
        else "",
    )
    silenced = {
        settings.section(section)["webhooks"]["webhookConfigurationNamePrefix"]
        for section in ("queueController", "podGroupController")
        if not settings.section(section)["webhooks"]["enableValidation"]
    }
    kinds = {kind.kind: kind for kind in (MUTATING, VALIDATING)}
    for body in webhook_configurations(registration):
        name: str = body["metadata"]["name"]
        if not any(name.startswith(prefix) for prefix in silenced):
            yield wanted(
                kinds[body["kind"]],
                name,
                app=names.SERVICE_ADMISSION,
                webhooks=body["webhooks"],
            )
