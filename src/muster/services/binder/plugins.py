"""The binder's `--plugins`, as KAI writes it: JSON of names to {enabled, priority, arguments}.

A plugin of KAI's is a preparation of ours, and its arguments are settings. What must be ready
before what is fixed here, so priorities only have to make sense.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from muster.api.codec import Unreadable, builtins, decode
from muster.api.config_defaults import DEFAULT_VOLUME_TIMEOUT_S, binder_plugins
from muster.api.shard import PluginConfig
from muster.api.validation.no_effect import BINDER, no_effect
from muster.services.binder.settings import BinderSettings

_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "volumebinding": ("bindTimeoutSeconds",),
    "dynamicresources": ("bindTimeoutSeconds",),
    "gpusharing": ("cdiEnabled",),
    "hamicore": (),
}
"""Plugins that there are, and the arguments that they take."""
_FLAGS: Final = {"true": True, "false": False}


class BadPlugins(ValueError):
    """The text names a plugin or an argument that there is not, or a value that cannot be."""


def with_plugins(settings: BinderSettings, text: str) -> BinderSettings:
    """The settings with what the text changes; raises BadPlugins."""
    try:
        given = decode(dict[str, PluginConfig], text.encode() or b"{}")
    except Unreadable as problem:
        raise BadPlugins(f"{problem}: write JSON of names to {{enabled, arguments}}") from None
    plain = {name: builtins(plugin) for name, plugin in given.items()}
    plugins = binder_plugins(plain)
    enabled = {name for name, plugin in plugins.items() if plugin["enabled"]}
    _check(plugins, enabled)
    return replace(
        settings,
        no_effect=tuple(no_effect(BINDER, plain)),
        skipped_steps=frozenset(_ARGUMENTS) - enabled,
        hami_core="hamicore" in enabled,
        bind_timeout_s=_timeout_s(_arguments(plugins, "volumebinding")),
        uses_cdi=_flag(_arguments(plugins, "gpusharing").get("cdiEnabled", "false")),
    )


def _check(plugins: Mapping[str, Any], enabled: set[str]) -> None:
    for name in sorted(enabled):
        if name not in _ARGUMENTS:
            raise BadPlugins(f"no plugin {name!r}; there are {', '.join(_ARGUMENTS)}")
        for argument in _arguments(plugins, name):
            if argument not in _ARGUMENTS[name]:
                known = ", ".join(_ARGUMENTS[name]) or "none"
                raise BadPlugins(f"{name}.arguments.{argument}: unknown; known are {known}")
    sharing = plugins["gpusharing"]
    if "hamicore" in enabled and (
        not sharing["enabled"] or sharing["priority"] <= plugins["hamicore"]["priority"]
    ):
        raise BadPlugins("hamicore: needs gpusharing enabled, with a higher priority than its own")


def _arguments(plugins: Mapping[str, Any], name: str) -> Mapping[str, str]:
    found: Mapping[str, str] = plugins[name].get("arguments") or {}
    return found


def _timeout_s(arguments: Mapping[str, str]) -> float:
    text = arguments.get("bindTimeoutSeconds", str(DEFAULT_VOLUME_TIMEOUT_S))
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise BadPlugins(f"volumebinding.arguments.bindTimeoutSeconds: {text!r}: write seconds")
    return float(text)


def _flag(text: str) -> bool:
    if text not in _FLAGS:
        raise BadPlugins(f"gpusharing.arguments.cdiEnabled: {text!r}: write true or false")
    return _FLAGS[text]
