"""The configuration file of a shard's scheduler, as KAI's operator writes it. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from muster.api.codec import builtins
from muster.api.shard import ActionConfig, PluginConfig, SchedulingShard, UsageDBConfig
from muster.api.validation.problems import Problem
from muster.engine.config.conf import parse_conf
from muster.engine.config.known_names import (
    ACTIONS,
    ACTIONS_GROUP,
    PLUGINS,
    PLUGINS_GROUP,
    known_names,
)
from muster.engine.config.reader import ConfigError
from muster.services.operator.objects import Json
from muster.services.operator.usage import EMBEDDED, KEPT
from muster.services.operator.utilization import UTILIZATION, utilization

_Entries = Mapping[str, ActionConfig | PluginConfig]


def scheduler_conf(shard: SchedulingShard, usage_address: str = "") -> str:
    """The file of a shard that has its defaults; `usage_address` where it names none itself."""
    spec = shard.spec
    conf: Json = {
        "actions": ", ".join(_in_order(spec.actions)),
        "tiers": [
            {"plugins": [_plugin(name, spec.plugins[name]) for name in _in_order(spec.plugins)]}
        ],
    }
    # No limit is the absence of one.
    if depths := {action: depth for action, depth in spec.queue_depth_per_action.items() if depth}:
        conf["queueDepthPerAction"] = depths
    if spec.scenario_search_budgets is not None:
        conf["scenarioSearchBudgets"] = builtins(spec.scenario_search_budgets)
    if spec.usage_db_config is not None:
        conf["usageDBConfig"] = _usage(spec.usage_db_config, usage_address)
    if wanted := utilization(shard, usage_address):
        conf[UTILIZATION] = wanted
    text: str = yaml.safe_dump(conf, sort_keys=False, width=1000)
    return text


def name_problems(shard: SchedulingShard) -> Iterator[Problem]:
    """Plugins and actions that the scheduler of this image does not have."""
    tables: tuple[tuple[str, _Entries, Mapping[str, str], str], ...] = (
        ("plugin", shard.spec.plugins, PLUGINS, PLUGINS_GROUP),
        ("action", shard.spec.actions, ACTIONS, ACTIONS_GROUP),
    )
    for word, given, ours, group in tables:
        known = known_names(ours, group) if given else ours
        for name, entry in sorted(given.items()):
            if name not in known and entry.enabled is not False:
                fix = f"known: {', '.join(sorted(known))}"
                yield Problem(f"spec.{word}s[{name}]", f"there is no {word} {name}", fix)


def conf_problems(shard: SchedulingShard, usage_address: str) -> Iterator[Problem]:
    """What the scheduler would say of its file, of a shard that has its defaults."""
    try:
        parse_conf(scheduler_conf(shard, usage_address), "spec")
    except ConfigError as error:
        yield Problem(error.where, error.problem, "its scheduler could not start with that")


def names_no_address(usage: UsageDBConfig | None) -> bool:
    """Whether the shard leaves it to us where past usage is read."""
    return usage is not None and not (usage.connection_string or usage.connection_string_env_var)


def _in_order(entries: _Entries) -> list[str]:
    """Those that are on: the highest priority first, equal ones by name."""
    rows: list[tuple[int, str]] = [
        (-(entry.priority or 0), name) for name, entry in entries.items() if entry.enabled
    ]
    return [name for _, name in sorted(rows)]


def _plugin(name: str, entry: PluginConfig) -> Json:
    return {"name": name, "arguments": dict(entry.arguments)} if entry.arguments else {"name": name}


def _usage(usage: UsageDBConfig, address: str) -> Json:
    found: dict[str, Any] = builtins(usage)
    if usage.client_type == EMBEDDED:
        return {**found, "connectionString": KEPT}
    if names_no_address(usage) and address:
        found["connectionString"] = address
    return found
