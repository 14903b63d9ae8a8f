"""No field of Config or of a shard is read in vain: it changes something, or is said not to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import inspect
from tests.unit.services.operator.test_desired import (
    EVERYTHING,
    RELEASE,
    Json,
    all_of,
    shard_of,
)

from muster.api.affinity import Affinity, Toleration
from muster.api.autoscaling import VPA
from muster.api.codec import from_builtins
from muster.api.config import Config, ConfigSpec
from muster.api.core import ResourceRequirements
from muster.api.duration import Duration
from muster.api.profiles import ProfileName
from muster.api.quantity import Quantity
from muster.api.security import PodSecurityContext, SecurityContext
from muster.api.shard import SchedulingShardSpec
from muster.api.validation.no_effect import CONFIG, SHARD, no_effect
from muster.services.operator.decide import desired, missing_dependencies, usable_shards
from muster.services.operator.settings import Installation, Settings

_SAMPLES: Mapping[type, Sequence[Any]] = {
    inspect.BoolType: (True, False),
    inspect.IntType: (7,),
    inspect.FloatType: (0.25,),
    inspect.StrType: ("other",),
    inspect.DateTimeType: ("2026-01-01T00:00:00Z",),
    Duration: ("7s",),
    Quantity: ("7Gi",),
    Affinity: ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}},),
    ResourceRequirements: ({"requests": {"cpu": "7"}},),
    SecurityContext: ({"runAsUser": 7},),
    PodSecurityContext: ({"runAsUser": 7},),
    Toleration: ({"key": "other"},),
    VPA: ({"enabled": True}, {"enabled": False}),
}
"""By type, values of which at least one is another than the default."""


def _leaves(kind: inspect.Type, path: str) -> Iterator[tuple[str, Sequence[Any]]]:
    match kind:
        case inspect.UnionType():
            for one in kind.types:
                if not isinstance(one, inspect.NoneType):
                    yield from _leaves(one, path)
        case inspect.DictType():
            yield from _leaves(kind.value_type, f"{path}.other")
        case inspect.VarTupleType():
            (found,) = _leaves(kind.item_type, path)
            yield path, [[value] for value in found[1]]
        case inspect.StructType() | inspect.CustomType() if kind.cls in _SAMPLES:
            yield path, _SAMPLES[kind.cls]
        case inspect.StructType():
            for field in kind.fields:
                yield from _leaves(field.type, f"{path}.{field.encode_name}")
        case _:
            yield path, _SAMPLES[type(kind)]


def _with(document: Json, path: str, value: Any) -> Json:
    key, _, rest = path.partition(".")
    below = document.get(key, {})
    return {**document, key: _with(below, rest, value) if rest else value}


def _made(config: Json, shard: Json) -> object:
    """All that follows from both."""
    given = from_builtins(Config, {"metadata": {"name": "kai-config"}, **config})
    settings = Settings.of(given, RELEASE)
    usable, wrong = usable_shards([shard_of("default", **shard["spec"])], settings, EVERYTHING)
    profiles = frozenset({ProfileName.VOLCANO})
    installation = Installation(settings, usable, ["lease"], profiles, EVERYTHING, "Q0E=")
    bodies = [(one.kind.full_name, one.body) for one in all_of(desired(installation))]
    return bodies, wrong, missing_dependencies(installation)


_GUARDED = {"service": {"enabled": True, "podDisruptionBudget": {"enabled": True}}}
_SECTIONS = (
    *("admission", "binder", "podGrouper", "podGroupController", "queueController", "scheduler"),
    *("nodeScaleAdjuster", "dashboard"),
)
_BARE: Json = {"spec": {}}
_CONFIGS: tuple[Json, ...] = (
    _BARE,
    {
        "spec": {
            "global": {"replicaCount": 2},
            "prometheus": {"enabled": True},
            **dict.fromkeys(_SECTIONS, _GUARDED),
        }
    },
)
"""What must be there for some fields to matter."""
_USAGE: Json = {"clientType": "prometheus", "connectionString": "http://here"}
_SHARDS: tuple[Json, ...] = ({"spec": {"usageDBConfig": _USAGE}},)


def _check(
    spec: type, what: str, documents: Sequence[Json], made: Callable[[Json], object]
) -> None:
    silent, untrue, looked_at = [], [], 0
    usual = [made(document) for document in documents]
    for path, values in _leaves(inspect.type_info(spec), "spec"):
        looked_at += 1
        is_said = any(list(no_effect(what, _with(_BARE, path, value))) for value in values)
        changes = any(
            made(_with(document, path, value)) != before
            for document, before in zip(documents, usual, strict=True)
            for value in values
        )
        silent += [] if is_said or changes else [path]
        untrue += [path] if is_said and changes else []
    assert silent == [], "they change nothing, and nobody says so"
    assert untrue == [], "they are said to change nothing, and do"
    assert looked_at > 20


def test_every_field_of_config_changes_something_or_is_said_not_to() -> None:
    _check(ConfigSpec, CONFIG, _CONFIGS, lambda config: _made(config, _SHARDS[0]))


def test_every_field_of_a_shard_changes_something_or_is_said_not_to() -> None:
    _check(SchedulingShardSpec, SHARD, _SHARDS, lambda shard: _made(_BARE, shard))
