"""Case files of Volcano's format: what is in the cluster, which conf runs on it, what is expected.

A case has objects as Kubernetes has them. Its tiers name every switch that is on; all others are
off, as in the tests that the cases come from. What is in a tier and not among its plugins is not
there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.engine.config.conf import PluginEntry, SchedulerConf
from muster.engine.config.reader import Reader
from muster.engine.tiers.rules import SWITCHES

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table test."""

    id: str
    name: str
    actions: tuple[str, ...]
    objects: Mapping[str, Any]
    expected: Json
    conf: SchedulerConf


def read_cases(folder: Path) -> Iterator[Case]:
    """The cases of all files of a folder, in order."""
    for path in sorted(folder.glob("*.json")):
        for number, raw in enumerate(json.loads(path.read_text())):
            yield _case(raw, number)


def _case(raw: Json, number: int) -> Case:
    package = raw["Package"].rpartition("/")[2]
    actions = tuple(raw["Actions"])
    arguments = {
        each["Name"]: Reader(each["Arguments"], raw["Name"])
        for each in raw.get("Configurations") or []
    }
    tiers = tuple(
        tuple(_plugin(each, raw["Name"]) for each in tier if each["name"] in raw["Plugins"])
        for tier in raw.get("Tiers") or []
    )
    return Case(
        f"{package}.{raw['Test']}.{number}",
        raw["Name"],
        actions,
        raw["Input"],
        raw["Expect"],
        SchedulerConf(raw["Name"], actions, tiers, action_arguments=arguments),
    )


def _plugin(raw: Json, where: str) -> PluginEntry:
    on = {switch.replace("enabled", "enable") for switch, is_on in raw["enabled"].items() if is_on}
    switches = {f"enable{name}": f"enable{name}" in on for name in SWITCHES}
    arguments = Reader(raw.get("arguments") or {}, where, f"{raw['name']}.arguments")
    return PluginEntry(raw["name"], where, arguments, switches)
