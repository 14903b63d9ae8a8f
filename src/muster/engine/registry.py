"""One table from the names of configurations to what they stand for.

KAI's names are kept. Everything is found as `module:attribute`, the way Python entry points are
written, so that a user's plugin (group `muster.plugins`) or action (group `muster.actions`) is a
package to install and a name to configure. A plugin is a class that takes its arguments as a
Reader and refuses those it does not know; an action is a function of a session.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from muster.engine.config.conf import PluginEntry, SchedulerConf
from muster.engine.config.profile import Profile
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.config.settings import EngineSettings
from muster.engine.config.switches import silenced
from muster.engine.hooks import Plugin
from muster.engine.policy import Policy
from muster.engine.tiers.rules import SWITCHES

_HERE = "muster.engine"
_SAYS_NOTHING = f"{_HERE}.plugins.accepted:Accepted"

PLUGINS: Mapping[str, str] = {
    "dynamicresources": f"{_HERE}.plugins.dynamic_resources.plugin:DynamicResources",
    "elastic": f"{_HERE}.plugins.elastic:Elastic",
    "gpupack": f"{_HERE}.plugins.gpu_order:GpuPack",
    "gpusharingorder": f"{_HERE}.plugins.gpu_order:GpuSharingOrder",
    "gpuspread": f"{_HERE}.plugins.gpu_order:GpuSpread",
    "kubeflow": f"{_HERE}.plugins.task_order:Kubeflow",
    "minruntime": f"{_HERE}.plugins.min_runtime:MinRuntime",
    "nodeavailability": f"{_HERE}.plugins.node_order:NodeAvailability",
    "nodeplacement": f"{_HERE}.plugins.node_order:NodePlacement",
    "nominatednode": f"{_HERE}.plugins.nominated_node:NominatedNode",
    "numa": f"{_HERE}.plugins.numa.plugin:Numa",
    "podaffinity": f"{_HERE}.plugins.pod_affinity:PodAffinity",
    "predicates": f"{_HERE}.plugins.predicates.plugin:Predicates",
    "priority": f"{_HERE}.plugins.priority:Priority",
    "proportion": f"{_HERE}.plugins.fair_share.plugin:FairShare",
    "ray": f"{_HERE}.plugins.task_order:Ray",
    "reflectjoborder": _SAYS_NOTHING,
    "resourcetype": f"{_HERE}.plugins.node_order:ResourceType",
    "sg-multinodegang": _SAYS_NOTHING,
    "sg-nodelocalgreedy": _SAYS_NOTHING,
    "snapshot": _SAYS_NOTHING,
    "subgrouporder": f"{_HERE}.plugins.sub_group_order:SubGroupOrder",
    "taskorder": f"{_HERE}.plugins.task_order:TaskPriority",
    "topology": f"{_HERE}.plugins.topology.plugin:Topology",
    "utilization": f"{_HERE}.plugins.utilisation:UtilisationScore",
}
"""Plugins by the name that configurations use."""

ACTIONS: Mapping[str, str] = {
    "allocate": f"{_HERE}.actions.allocate:execute",
    "consolidation": f"{_HERE}.actions.consolidate:execute",
    "preempt": f"{_HERE}.actions.preempt:execute",
    "reclaim": f"{_HERE}.actions.reclaim:execute",
    "stalegangeviction": f"{_HERE}.actions.evict_stale_gangs:execute",
}
"""Actions by the name that configurations use."""

Action = Callable[[Any], None]


class _Factory(Protocol):
    def __call__(self, arguments: Reader) -> Plugin: ...


def build_policy(
    conf: SchedulerConf, settings: EngineSettings | None = None, profile: Profile | None = None
) -> Policy:
    """The policy that a configuration describes. A ConfigError names the key that is wrong."""
    known = _known(profile.plugins if profile else PLUGINS, "muster.plugins")
    return Policy(
        written=conf,
        actions=conf.actions,
        action_arguments=conf.action_arguments,
        plugins=tuple(
            (tier, _plugin(each, known))
            for tier, entries in enumerate(conf.tiers)
            for entry in entries
            for each in _with_companion(entry, entries, profile)
        ),
        settings=settings or EngineSettings(),
        queue_depth=_queue_depth(conf),
        disruption_budget=conf.disruption_budget,
        search_budgets=conf.search_budgets,
        silenced={
            entry.name: _silenced(entry, profile)
            for entries in conf.tiers
            for entry in entries
            if entry.switches or profile
        },
    )


def _with_companion(
    entry: PluginEntry, tier: Sequence[PluginEntry], profile: Profile | None
) -> Iterable[PluginEntry]:
    yield entry
    other = profile.companions.get(entry.name) if profile else None
    if other is not None and all(each.name != other for each in tier):
        yield PluginEntry(other, entry.where, Reader(None, entry.where))


def _silenced(entry: PluginEntry, profile: Profile | None) -> frozenset[str]:
    if profile is None or not profile.is_tiered:
        return silenced(entry.switches, entry.where)
    unsaid = {f"enable{name}": False for name in profile.off_unless_said}
    said = {switch.replace("enabled", "enable"): on for switch, on in entry.switches.items()}
    quiet = profile.always_silent.get(entry.name, ())
    return silenced({**unsaid, **said}, entry.where, SWITCHES) | frozenset(quiet)


def build_actions(
    conf: SchedulerConf, profile: Profile | None = None
) -> tuple[tuple[str, Action], ...]:
    """The actions of a configuration, in order, with their names."""
    known = _known(profile.actions if profile else ACTIONS, "muster.actions")
    where = f"{conf.file}: actions"
    return tuple((name, _loaded(name, known, where, "action")) for name in conf.actions)


def _plugin(entry: PluginEntry, known: Mapping[str, str]) -> Plugin:
    factory: _Factory = _loaded(entry.name, known, entry.where, "plugin")
    return factory(entry.arguments)


def _known(ours: Mapping[str, str], group: str) -> dict[str, str]:
    """Our names and those of installed packages; an installed one cannot replace ours."""
    installed = {point.name: point.value for point in entry_points(group=group)}
    return {**installed, **ours}


def _loaded(name: str, known: Mapping[str, str], where: str, kind: str) -> Any:
    if name not in known:
        raise ConfigError(where, f'no {kind} "{name}"; known are {", ".join(sorted(known))}')
    module, _, attribute = known[name].partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(where, f'{kind} "{name}" cannot be loaded: {error}') from error


def _queue_depth(conf: SchedulerConf) -> Mapping[str, int]:
    for action in conf.queue_depth:
        if action not in conf.actions:
            where = f"{conf.file}: queueDepthPerAction.{action}"
            raise ConfigError(where, f"is not one of the actions {', '.join(conf.actions)}")
    return conf.queue_depth
