"""What must be there before the operator, and the operator itself. Pure.

`muster install` writes these objects, `deploy/` holds them as files: both come from here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from muster.api import kinds, names
from muster.api.codec import builtins
from muster.api.config import Config
from muster.api.crds import DEFINITIONS, manifest
from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.services.operator import roles
from muster.services.operator.guards import guards, service
from muster.services.operator.objects import (
    ACCOUNT,
    CONFIG_MAP,
    DEFINITION,
    NAMESPACE,
    Json,
    Wanted,
    kept,
    wanted,
    whole,
)
from muster.services.operator.pods import Process, deployment
from muster.services.operator.rbac import access
from muster.services.operator.settings import Installation, Release, Settings

OLDEST_KUBERNETES: Final = (1, 33)
_SECTION: Final = "operator"
_UNBOUNDED: Final = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


@dataclass(frozen=True, slots=True)
class Choices:
    """What whoever installs decides."""

    release: Release = field(default_factory=Release)
    config: Config = field(default_factory=Config)
    replicas: int = 1
    makes_defaults: bool = False
    """Whether the operator makes the first Config, shard and queues itself: for those who can only
    apply files, where these kinds do not exist yet."""


def definitions() -> list[Wanted]:
    """The kinds. They stay when the product goes: all queues and pod groups would go with them."""
    return [Wanted(DEFINITION, manifest(each), is_kept=False) for each in DEFINITIONS]


def operator_objects(choices: Choices) -> list[Wanted]:
    """The namespaces, and in the first of them the operator with its rights."""
    settings = _settings(choices)
    known, name = settings.names, names.OPERATOR_DEPLOYMENT
    process = Process(name, _SECTION, name, _SECTION, _flags(choices, settings))
    installation = Installation(settings)
    port = process.metrics_port
    return [
        *(kept(NAMESPACE, each) for each in _namespaces(settings)),
        wanted(ACCOUNT, name, known.namespace),
        *access(_SECTION, roles.rights(known, choices.makes_defaults), Key(known.namespace, name)),
        deployment(process, settings),
        *guards(process, installation),
        service(process, known.namespace, {"http-metrics": (port, port)}),
    ]


def removed(choices: Choices) -> list[Wanted]:
    """What whoever uninstalls takes away, beside what the operator made."""
    marker = defaults_marker(_settings(choices).names.namespace)
    return [*definitions(), *operator_objects(choices), marker]


def defaults(config: Config, profile: ProfileName = ProfileName.KAI) -> Iterator[Wanted]:
    """The first Config, shard and queues: made where there are none, the user's from then on."""
    shard: Json = {} if profile is ProfileName.KAI else {"args": {"profile": profile.value}}
    spec: Json = {"namespace": names.DEFAULT.namespace, **builtins(config.spec)}
    yield kept(whole(kinds.CONFIG), names.DEFAULT.config, spec=spec)
    yield kept(whole(kinds.SCHEDULING_SHARD), names.DEFAULT_SHARD, spec=shard)
    resources = dict.fromkeys(("cpu", "memory", "gpu"), _UNBOUNDED)
    queue = whole(kinds.QUEUE)
    yield kept(queue, names.DEFAULT_PARENT_QUEUE, spec={"resources": resources})
    above = {"parentQueue": names.DEFAULT_PARENT_QUEUE}
    yield kept(queue, names.DEFAULT_QUEUE, spec={**above, "resources": resources})


def defaults_marker(namespace: str) -> Wanted:
    """Says that an operator has made the defaults, which are not made again while it is there."""
    return wanted(CONFIG_MAP, names.DEFAULTS_CONFIG_MAP, namespace, app=names.SERVICE_OPERATOR)


def _settings(choices: Choices) -> Settings:
    """With a section for the operator, of which Config says nothing."""
    settings = Settings.of(choices.config, choices.release)
    # What the user wrote of any one service is not about this one.
    usual = Settings.of(Config(), choices.release).section("podGroupController")
    own = {"service": usual["service"], "replicas": choices.replicas}
    spec = {**settings.spec, _SECTION: own}
    return Settings(spec, settings.given, settings.names, settings.image)


def _namespaces(settings: Settings) -> tuple[str, ...]:
    known = settings.names
    return known.namespace, known.reservation_namespace, known.scale_adjust_namespace


def _flags(choices: Choices, settings: Settings) -> list[str]:
    return [
        f"--namespace={settings.names.namespace}",
        *(["--make-defaults"] if choices.makes_defaults else []),
        "--metrics-bind-address=:8080",
        "--leader-elect",
    ]
