"""build(supervisor, config): the whole object graph of the pod grouper."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.api.core import ConfigMap, Pod
from muster.api.kinds import CONFIG_MAP, NAMESPACE, POD, POD_GROUP, PRIORITY_CLASS, TOPOLOGY
from muster.api.meta import Key
from muster.api.names import GROUPING_RULES_CONFIG_MAP, Names
from muster.base.backoff import Backoff
from muster.client.errors import ApiError
from muster.client.informer import Informer
from muster.client.kinds import plainly
from muster.client.read import Selection
from muster.client.write import Writer
from muster.runtime.controller import Pace, own_key
from muster.runtime.supervisor import Supervisor
from muster.services.podgrouper.catalog import Catalog
from muster.services.podgrouper.defaults import kind_defaults
from muster.services.podgrouper.groupers.workload import GroupingSettings
from muster.services.podgrouper.native_groups import NativeGroups
from muster.services.podgrouper.reading import LocalReads, OwnerReads
from muster.services.podgrouper.reconciler import PodGrouper, PodGrouperInformers
from muster.services.podgrouper.rule_store import RuleStore

_KARTA = ("run.ai/v1alpha1", "Karta")


@dataclass(frozen=True, slots=True)
class PodGrouperServiceConfig:
    names: Names = field(default_factory=Names)
    workers: int = 32
    finds_legacy_groups: bool = True
    knative_gangs: bool = True
    uses_kartas: bool = True
    defaults_config_map: Key | None = None
    rules_config_map: str = GROUPING_RULES_CONFIG_MAP
    """Empty: nobody may add rules."""
    rules_namespace: str = ""
    """Where it is; empty: our namespace."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Only pods with these labels are grouped."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Only pods in namespaces with these labels are grouped."""


def build(supervisor: Supervisor, config: PodGrouperServiceConfig) -> None:
    labels = ",".join(f"{key}={value}" for key, value in sorted(config.pod_labels.items()))
    fields = f"spec.schedulerName={config.names.scheduler}"
    pods = supervisor.informer(POD, Selection(labels=labels, fields=fields))
    groups = supervisor.informer(plainly(POD_GROUP))
    classes = supervisor.informer(PRIORITY_CLASS)
    topologies = supervisor.informer(TOPOLOGY)
    pods_in = pods.add_index(lambda pod: (pod.metadata.namespace,))
    groups_in = groups.add_index(lambda group: (str(group["metadata"]["namespace"]),))
    catalog = Catalog(supervisor.connection)
    rule_maps = _rule_maps(supervisor, config)
    settings = _settings_source(supervisor, config, rule_maps)

    async def reads(pod: Pod) -> LocalReads:
        if pod.spec.scheduling_group is not None:
            await native.begin()
        kartas = await _kartas(supervisor, catalog) if config.uses_kartas else []
        return LocalReads(pods_in, groups_in, classes, topologies, kartas)

    owners = OwnerReads(supervisor.reader, catalog)
    grouper = PodGrouper(
        PodGrouperInformers(pods, groups, reads, settings),
        owners,
        Writer(supervisor.connection, "muster-podgrouper"),
        supervisor.recorder,
    )
    controller = supervisor.controller(
        "podgrouper",
        grouper,
        Pace(workers=config.workers, backoff=Backoff(first_s=1.0, longest_s=60.0)),
    )
    native = NativeGroups(supervisor, catalog, owners, pods, controller)
    controller.watch(pods, own_key, _namespace_filter(supervisor, config))
    if rule_maps is not None:
        controller.watch(rule_maps, lambda _: list(pods.objects), _has_other_data)


def _settings_source(
    supervisor: Supervisor, config: PodGrouperServiceConfig, rule_maps: Informer[ConfigMap] | None
) -> Callable[[], GroupingSettings]:
    fixed = GroupingSettings(
        scheduler_name=config.names.scheduler,
        queue_label=config.names.queue_label,
        node_pool_label=config.names.node_pool_label,
        finds_legacy_groups=config.finds_legacy_groups,
        knative_gangs=config.knative_gangs,
        uses_kartas=config.uses_kartas,
    )
    shelf = RuleStore(supervisor.recorder, supervisor.log.child("podgrouper"))
    if rule_maps is not None:
        rule_maps.add_handler(shelf.put)
    wanted = config.defaults_config_map
    maps = _config_map(supervisor, wanted) if wanted else None

    def current() -> GroupingSettings:
        found = maps.get(wanted) if maps is not None and wanted is not None else None
        defaults = kind_defaults(found.data) if found else {}
        return replace(fixed, kind_defaults=defaults, rules=shelf.rules)

    return current


def _rule_maps(
    supervisor: Supervisor, config: PodGrouperServiceConfig
) -> Informer[ConfigMap] | None:
    if not config.rules_config_map:
        return None
    namespace = config.rules_namespace or config.names.namespace
    return _config_map(supervisor, Key(namespace, config.rules_config_map))


def _config_map(supervisor: Supervisor, key: Key) -> Informer[ConfigMap]:
    selection = Selection(namespace=key.namespace, fields=f"metadata.name={key.name}")
    return supervisor.informer(CONFIG_MAP, selection)


def _has_other_data(old: ConfigMap | None, new: ConfigMap | None) -> bool:
    return (old.data if old else {}) != (new.data if new else {})


async def _kartas(supervisor: Supervisor, catalog: Catalog) -> list[Any]:
    """Descriptions of kinds, where the cluster has any; not having the right to look is none."""
    try:
        kind = await catalog.find(*_KARTA)
    except ApiError:
        return []
    if kind is None:
        return []
    return list(supervisor.informer(kind).objects.values())


def _namespace_filter(supervisor: Supervisor, config: PodGrouperServiceConfig) -> Any:
    if not config.namespace_labels:
        return None
    namespaces = supervisor.informer(NAMESPACE)

    def matters(old: Pod | None, new: Pod | None) -> bool:
        names: Iterable[str] = {pod.metadata.namespace for pod in (old, new) if pod is not None}
        found = (namespaces.get(Key("", name)) for name in names)
        return any(
            one is not None and config.namespace_labels.items() <= one.metadata.labels.items()
            for one in found
        )

    return matters
