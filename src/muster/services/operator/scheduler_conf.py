"""The configuration file of a shard's scheduler, as KAI's operator writes it. Pure."""

from collections.abc import Mapping
from typing import Any

import yaml

from muster.api.codec import builtins
from muster.api.shard import ActionConfig, PluginConfig, SchedulingShard, UsageDBConfig
from muster.services.operator.objects import Json
from muster.services.operator.usage import EMBEDDED, KEPT


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
    text: str = yaml.safe_dump(conf, sort_keys=False, width=1000)
    return text


def names_no_address(usage: UsageDBConfig | None) -> bool:
    """Whether the shard leaves it to us where past usage is read."""
    return usage is not None and not (usage.connection_string or usage.connection_string_env_var)


def _in_order(entries: Mapping[str, ActionConfig] | Mapping[str, PluginConfig]) -> list[str]:
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
