"""The scheduler's configuration file: KAI's format, with room for kube-batch's and Volcano's.

    actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
    tiers:
    - plugins:
      - name: nodeplacement
        arguments: {gpu: binpack}
    queueDepthPerAction: {reclaim: 5}

Without `tiers` the plugins are KAI's. `placement: least-fragmentation` chooses nodes so that little
is fragmented; where nothing is said of it a file with `tiers` gets KAI's packing, as KAI reads it,
and others what the profile places by (`engine.profiles.known`). Names of actions and plugins are
kept as written; `engine.registry` knows what they stand for. Text in, values out: reading the file
is somebody else's work.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import yaml

from muster.api.defaulting import DEFAULT_ACTION_PRIORITIES
from muster.api.validation.no_effect import SCHEDULER, no_effect
from muster.api.validation.problems import Problem
from muster.api.yaml_text import read_yaml
from muster.engine.config.budgets import (
    DisruptionBudget,
    SearchBudgets,
    disruption_budget,
    search_budgets,
)
from muster.engine.config.defragmentation import Defragmentation, defragmentation
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.config.usage import usage_database
from muster.engine.config.utilisation import utilisation_settings
from muster.model.usage import UsageDatabase, UtilisationSettings

DEFAULT_ACTIONS = tuple(DEFAULT_ACTION_PRIORITIES)
DEFAULT_PLUGINS = (
    "predicates",
    "proportion",
    "priority",
    "elastic",
    "kubeflow",
    "ray",
    "nodeavailability",
    "gpusharingorder",
    "gpupack",
    "resourcetype",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "nodeplacement",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
)

PLACEMENTS = ("binpack", "least-fragmentation", "spread")
"""How nodes are chosen; the first where a file does not list its plugins."""
_PLACEMENT_PLUGIN = "nodeplacement"

_KEYS = (
    "actions",
    "tiers",
    "placement",
    "queueDepthPerAction",
    "usageDBConfig",
    "utilization",
    "scenarioSearchBudgets",
    "disruptionBudget",
    "defragmentation",
    "configurations",
)
# The ways in which the three systems switch off one hook of a plugin.
_SWITCH = re.compile(r"(disable|enabled?)[A-Z]\w*")


@dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin as configured. `arguments` still know where they stand in the file."""

    name: str
    where: str
    arguments: Reader
    switches: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class SchedulerConf:
    """A whole configuration file."""

    file: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginEntry, ...], ...]
    queue_depth: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    usage: UsageDatabase | None = None
    utilisation: UtilisationSettings | None = None
    disruption_budget: DisruptionBudget = field(default_factory=DisruptionBudget)
    defragmentation: Defragmentation | None = None
    search_budgets: SearchBudgets = field(default_factory=SearchBudgets)
    action_arguments: Mapping[str, Reader] = field(default_factory=lambda: MappingProxyType({}))
    no_effect: tuple[Problem, ...] = ()
    """What of it does nothing."""


def parse_conf(
    text: str, file: str = "scheduler.yaml", placement: str | None = None
) -> SchedulerConf:
    """The configuration that the text of a file holds; an empty file is the default. `placement`:
    how nodes are chosen where it says neither that nor its plugins; None: KAI's packing.
    """
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(file, f"is not YAML: {error}") from None
    root = Reader(document, file)
    root.allow_only(_KEYS)
    return SchedulerConf(
        file=file,
        actions=DEFAULT_ACTIONS if root.is_absent else _actions(root.key("actions")),
        tiers=_tiers(root, placement),
        queue_depth=_queue_depth(root.key("queueDepthPerAction")),
        usage=usage_database(root.key("usageDBConfig")),
        utilisation=utilisation_settings(root.key("utilization")),
        disruption_budget=disruption_budget(root.key("disruptionBudget")),
        defragmentation=defragmentation(root.key("defragmentation")),
        search_budgets=search_budgets(root.key("scenarioSearchBudgets")),
        action_arguments=_action_arguments(root.key("configurations")),
        no_effect=tuple(no_effect(SCHEDULER, document)),
    )


def plugin_list(plugins: Mapping[str, Mapping[str, object]], file: str) -> tuple[PluginEntry, ...]:
    """One tier from names and arguments that do not come from a file."""
    return tuple(
        PluginEntry(
            name=name,
            where=f"{file}: {name}",
            arguments=Reader(dict(arguments), file, f"{name}.arguments"),
        )
        for name, arguments in plugins.items()
    )


def _tiers(root: Reader, usual: str | None) -> tuple[tuple[PluginEntry, ...], ...]:
    """The plugins, told how nodes are chosen as far as they do not say so themselves."""
    written, placement = _written_tiers(root.key("tiers")), root.key("placement")
    tiers = written or (_default_tier(root.file),)
    strategy = None if written else usual
    if not placement.is_absent:
        strategy = placement.choice(PLACEMENTS)
    if strategy is None:
        return tiers
    return tuple(tuple(_placing(entry, strategy) for entry in tier) for tier in tiers)


def _placing(entry: PluginEntry, strategy: str) -> PluginEntry:
    if entry.name != _PLACEMENT_PLUGIN:
        return entry
    said = {name: value.value for name, value in entry.arguments.items()}
    told = {"gpu": strategy, "cpu": strategy, **said}
    return replace(entry, arguments=replace(entry.arguments, value=told))


def _default_tier(file: str) -> tuple[PluginEntry, ...]:
    return plugin_list({name: {} for name in DEFAULT_PLUGINS}, f"{file} (built-in default)")


def _actions(reader: Reader) -> tuple[str, ...]:
    names = tuple(name for name in re.split(r"[,\s]+", reader.text("")) if name)
    if not names:
        raise reader.wrong(f'must name at least one action, such as "{", ".join(DEFAULT_ACTIONS)}"')
    return names


def _written_tiers(reader: Reader) -> tuple[tuple[PluginEntry, ...], ...]:
    tiers = []
    for tier in reader.elements():
        tier.allow_only(("plugins",))
        tiers.append(tuple(_plugin(entry) for entry in tier.key("plugins").elements()))
    return tuple(tier for tier in tiers if tier)


def _plugin(reader: Reader) -> PluginEntry:
    switches: dict[str, bool] = {}
    for name, value in reader.items():
        if _SWITCH.fullmatch(name):
            switches[name] = value.flag()
        elif name not in ("name", "arguments"):
            raise value.wrong("unknown key; known are arguments, name and enable…/disable… flags")
    arguments = reader.key("arguments")
    arguments.allow_only(name for name, _ in arguments.items())
    return PluginEntry(
        name=reader.key("name").text(),
        where=reader.key("name").where,
        arguments=arguments,
        switches=MappingProxyType(switches),
    )


def _queue_depth(reader: Reader) -> Mapping[str, int]:
    depths = {}
    for action, depth in reader.items():
        depths[action] = depth.integer()
        if depths[action] <= 0:
            raise depth.wrong("must be at least 1; leave it out for no limit")
    return MappingProxyType(depths)


def _action_arguments(reader: Reader) -> Mapping[str, Reader]:
    """Volcano's `configurations`: a list of {name, arguments}, one per action."""
    found = {}
    for entry in reader.elements():
        entry.allow_only(("name", "arguments"))
        found[entry.key("name").text()] = entry.key("arguments")
    return MappingProxyType(found)
