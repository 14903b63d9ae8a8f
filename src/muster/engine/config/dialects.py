"""The conf files of Volcano and kube-batch, read as they are.

Volcano and later kube-batch write tiers in YAML; a switch that is not there is on, and is written
`enableJobOrder: false`, or `disableJobOrder: true` as in kube-batch 0.4. The first kube-batch had a
flat map of strings (`plugin.gang.jobready: "true"`), where it is off. What is not known here is no
error, for the file may be another version's: it is a warning that says what is known or what to use
instead. An action that nobody knows is an error.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

import yaml

from muster.api.validation.problems import Problem, warning
from muster.api.yaml_text import read_yaml
from muster.engine.config.conf import PluginEntry, SchedulerConf
from muster.engine.config.profile import Profile
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.config.utilisation import utilisation_settings, volcano_metrics
from muster.model.usage import UtilisationSettings

_FLAT_SWITCHES = {
    "preemptable": ("Preemptable", "Reclaimable"),
    "joborder": ("JobOrder",),
    "taskorder": ("TaskOrder",),
    "jobready": ("JobReady", "JobPipelined"),
}
"""What the four switches of the flat map are called in tiers."""
_SWITCHED = ("gang", "priority", "drf")
"""Plugins that ask them; the others are on as they are."""
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_FLAT_ACTIONS, FLAT_PLUGINS = "allocate, preempt", "gang, priority, drf"
"""What a flat map that lists none has; this is not its built-in default."""
_SWITCH = re.compile(r"(disable|enabled?)([A-Z]\w*)")


def is_flat_key(key: str) -> bool:
    """Whether a flat map has such a key."""
    return key in ("actions", "plugins") or key.startswith("plugin.")


def switch_of(key: str) -> tuple[str, bool] | None:
    """Which switch a key beside a plugin's name is, and whether `true` switches it on."""
    found = _SWITCH.fullmatch(key)
    return None if found is None else (found[2], found[1] != "disable")


def parse_dialect(
    text: str,
    profile: Profile,
    switches: Mapping[str, object],
    said: list[Problem],
    file: str = "scheduler.conf",
) -> SchedulerConf:
    """What a file says to a profile with tiers; an empty file is the profile's default.

    Warnings come into `said`, those about arguments when the plugins are made.
    """
    try:
        document = read_yaml(text) or read_yaml(profile.default_conf)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(file, f"is not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(file, "must be a mapping with the keys actions and tiers")
    return _Dialect(profile, switches, said, file).read(document)


class _Dialect:
    def __init__(
        self, profile: Profile, switches: Mapping[str, object], said: list[Problem], file: str
    ) -> None:
        self._profile, self._switches, self._file = profile, switches, file
        self._said = said

    def read(self, document: dict[object, object]) -> SchedulerConf:
        is_flat = isinstance(document.get("plugins"), str) or any(
            str(key).startswith("plugin.") for key in document
        )
        root = Reader(document, self._file, on_unknown=self._unknown)
        tiers = self._flat(document) if is_flat else self._tiers(root)
        actions = root.key("actions").text(_FLAT_ACTIONS if is_flat else "")
        return SchedulerConf(
            file=self._file,
            actions=self._actions(root.key("actions"), actions),
            tiers=tiers,
            action_arguments=self._arguments(root.key("configurations")),
            utilisation=self._utilisation(root),
        )

    def _actions(self, where: Reader, text: str) -> tuple[str, ...]:
        names = tuple(name for name in re.split(r"[,\s]+", text) if name)
        known = ", ".join(sorted(self._profile.actions))
        if not names:
            raise where.wrong(f"must name at least one action; known are {known}")
        for name in names:
            if name not in self._profile.actions:
                instead = self._profile.removed.get(name, f"known are {known}")
                raise where.wrong(f'no action "{name}"; {instead}')
        return names

    # -- tiers ---------------------------------------------------------------------------------

    def _tiers(self, root: Reader) -> tuple[tuple[PluginEntry, ...], ...]:
        for name, _ in root.items():
            if name not in self._profile.conf_keys:
                instead = self._profile.removed.get(
                    name, f"known are {', '.join(self._profile.conf_keys)}"
                )
                self._warn(name, "has no effect", instead)
        tiers = []
        for tier in root.key("tiers").elements():
            found = [self._plugin(each) for each in tier.key("plugins").elements()]
            entries = tuple(each for each in found if each is not None)
            self._check_shares(tier, entries)
            tiers.append(entries)
        if not any(tiers):
            inside = f"{self._file}: tiers["
            unknown = [str(one) for one in self._said if one.path.startswith(inside)][:3]
            raise root.key("tiers").wrong("; ".join(("must hold at least one plugin", *unknown)))
        return tuple(tier for tier in tiers if tier)

    def _plugin(self, reader: Reader) -> PluginEntry | None:
        name = reader.key("name").text()
        if name not in self._profile.plugins:
            known = f"known are {', '.join(sorted(self._profile.plugins))}"
            instead = self._profile.removed.get(name, known)
            self._warn(reader.key("name").path, f'no plugin "{name}"', instead)
            return None
        on: dict[str, bool] = {}
        for key, value in reader.items():
            switch = switch_of(key)
            if switch is not None and switch[0] in self._switches:
                on[f"enable{switch[0]}"] = value.flag() is switch[1]
            elif key not in ("name", "arguments"):
                known = ", ".join(f"enable{one}" for one in self._switches)
                self._warn(value.path, "no such switch", f"known are {known}")
        return PluginEntry(
            name, reader.key("name").where, reader.key("arguments"), MappingProxyType(on)
        )

    def _check_shares(self, tier: Reader, entries: tuple[PluginEntry, ...]) -> None:
        by_name = {entry.name: entry for entry in entries}
        is_tree = "drf" in by_name and by_name["drf"].switches.get("enableHierarchy", False)
        if is_tree and "proportion" in by_name:
            raise tier.wrong("drf with enableHierarchy and proportion exclude each other in a tier")

    def _arguments(self, reader: Reader) -> Mapping[str, Reader]:
        found = {}
        for entry in reader.elements():
            name, arguments = entry.key("name"), entry.key("arguments")
            known = self._profile.action_arguments.get(name.text(), {})
            if name.text() not in self._profile.actions:
                actions = ", ".join(sorted(self._profile.actions))
                self._warn(name.path, f'no action "{name.text()}"', f"known are {actions}")
            arguments.allow_only(known)
            for key, value in arguments.items():
                if known.get(key):
                    value.has_no_effect(known[key])
            found[name.text()] = arguments
        return MappingProxyType(found)

    def _utilisation(self, root: Reader) -> UtilisationSettings | None:
        """Where the real use of pods is read: our own key, or Volcano's `metrics`."""
        for key, read in (("utilization", utilisation_settings), ("metrics", volcano_metrics)):
            if key in self._profile.conf_keys and root.key(key).value:
                return read(root.key(key))
        return None

    # -- the flat map --------------------------------------------------------------------------

    def _flat(self, document: Mapping[object, object]) -> tuple[tuple[PluginEntry, ...], ...]:
        said = {str(key): str(value) for key, value in document.items()}
        if not isinstance(document.get("plugins", ""), str):
            problem = f'must be a text with commas, such as "{FLAT_PLUGINS}"'
            raise ConfigError(f"{self._file}: plugins", problem)
        listed = said.get("plugins", FLAT_PLUGINS)
        names = [name.strip() for name in listed.split(",") if name.strip()]
        entries = []
        for name in names:
            if name not in self._profile.plugins:
                known = f"known are {', '.join(sorted(self._profile.plugins))}"
                self._warn("plugins", f'no plugin "{name}"', known)
                continue
            where = f"{self._file}: plugins"
            entries.append(
                PluginEntry(name, where, Reader(None, self._file), self._flat_switches(name, said))
            )
        for key in said:
            plugin, _, switch = key.removeprefix("plugin.").partition(".")
            is_known = plugin in names and switch in _FLAT_SWITCHES
            if key not in ("actions", "plugins") and not is_known:
                switches = ", ".join(_FLAT_SWITCHES)
                self._warn(key, "has no effect", f"write plugin.NAME.SWITCH, one of {switches}")
        if not entries:
            known = ", ".join(sorted(self._profile.plugins))
            problem = f"must name at least one plugin; known are {known}"
            raise ConfigError(f"{self._file}: plugins", problem)
        if not any(entry.switches.get("enableJobReady") for entry in entries):
            fix = 'write plugin.gang.jobready: "true" if that is not meant'
            self._warn("plugin.gang.jobready", "off, so gangs may start in parts", fix)
        return (tuple(entries),)

    def _flat_switches(self, name: str, said: Mapping[str, str]) -> Mapping[str, bool]:
        on: dict[str, bool] = {}
        for switch, called in _FLAT_SWITCHES.items() if name in _SWITCHED else ():
            key = f"plugin.{name}.{switch}"
            value = said.get(key, "false")
            if value not in _TRUE + _FALSE:
                self._warn(key, f'"{value}" counts as false', "write true or false")
            for each in called:
                on[f"enable{each}"] = value in _TRUE
        return MappingProxyType(on)

    # -- warnings ------------------------------------------------------------------------------

    def _unknown(self, error: ConfigError) -> None:
        self._said.append(warning(error.where, error.problem, "remove it, or correct its name"))

    def _warn(self, path: str, message: str, fix: str) -> None:
        self._said.append(warning(f"{self._file}: {path}", message, fix))
