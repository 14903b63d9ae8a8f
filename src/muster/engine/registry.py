"""From the names of a configuration to what they stand for.

A plugin is a class that takes its arguments as a Reader and refuses those it does not know; an
action is a function of a session. Which names there are is in `engine.config.known_names`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from muster.engine.config.conf import PluginEntry, SchedulerConf
from muster.engine.config.known_names import (
    ACTIONS,
    ACTIONS_GROUP,
    PLUGINS,
    PLUGINS_GROUP,
    known_names,
)
from muster.engine.config.profile import Profile
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.config.settings import EngineSettings
from muster.engine.config.switches import silenced
from muster.engine.hooks import Plugin
from muster.engine.policy import Policy
from muster.engine.tiers.rules import SWITCHES

Action = Callable[[Any], None]


class _Factory(Protocol):
    def __call__(self, arguments: Reader) -> Plugin: ...


def build_policy(
    conf: SchedulerConf, settings: EngineSettings | None = None, profile: Profile | None = None
) -> Policy:
    """The policy that a configuration describes. A ConfigError names the key that is wrong."""
    known = known_names(profile.plugins if profile else PLUGINS, PLUGINS_GROUP)
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
        defragmentation=conf.defragmentation,
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
    known = known_names(profile.actions if profile else ACTIONS, ACTIONS_GROUP)
    where = f"{conf.file}: actions"
    return tuple((name, _loaded(name, known, where, "action")) for name in conf.actions)


def _plugin(entry: PluginEntry, known: Mapping[str, str]) -> Plugin:
    factory: _Factory = _loaded(entry.name, known, entry.where, "plugin")
    return factory(entry.arguments)


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
