"""A configuration as flat fields, so that two of them can be laid side by side.

Where the record of past use is kept is left out: its address may hold a password.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from muster.engine.config.conf import SchedulerConf


def told(conf: SchedulerConf) -> dict[str, str]:
    """By field, as a file writes it. Plugins by name: their order is a field of its own."""
    found = {"actions": ", ".join(conf.actions)}
    for at, tier in enumerate(conf.tiers):
        found[f"tiers[{at}]"] = ", ".join(entry.name for entry in tier)
        for entry in tier:
            found |= _flat(entry.name, entry.arguments.value)
            found |= _flat(entry.name, entry.switches)
    found |= _flat("queueDepthPerAction", conf.queue_depth)
    found |= _flat("disruptionBudget", conf.disruption_budget)
    found |= _flat("scenarioSearchBudgets", conf.search_budgets)
    found |= _flat("utilization", conf.utilisation)
    for action, arguments in conf.action_arguments.items():
        found |= _flat(f"configurations.{action}", arguments.value)
    return found


def differences(running: Mapping[str, str], other: Mapping[str, str]) -> list[dict[str, Any]]:
    """Fields that are other; None: it says nothing of it."""
    return [
        {"field": name, "running": running.get(name), "file": other.get(name)}
        for name in [*running, *(name for name in other if name not in running)]
        if running.get(name) != other.get(name)
    ]


def _flat(name: str, value: Any) -> dict[str, str]:
    return dict(_fields(name, value))


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if is_dataclass(value) and not isinstance(value, type):
        value = {field: getattr(value, field) for field in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields(f"{name}.{key}", inner)
    elif value is not None:
        yield name, str(value)
