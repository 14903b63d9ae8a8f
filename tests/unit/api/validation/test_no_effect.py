"""Configuration that does nothing is named, with where it stands and why."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.api.meta import Struct
from muster.api.shard import SchedulingShard
from muster.api.validation.no_effect import BINDER, NO_EFFECT, SCHEDULER, no_effect
from muster.api.validation.objects import problems
from muster.api.validation.problems import errors


def _paths(what: str, document: object) -> list[str]:
    return [problem.path for problem in no_effect(what, document)]


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"actions": "allocate"}, []),
        (None, []),
        ({"usageDBConfig": None, "configurations": []}, []),
        ({"usageDBConfig": {"clientType": "fake"}}, ["usageDBConfig.clientType"]),
        ({"usageDBConfig": {"clientType": "prometheus"}}, []),
        ({"configurations": [{"name": "enqueue"}]}, ["configurations"]),
        (
            {"tiers": [{"plugins": [{"name": "priority"}, {"name": "reflectjoborder"}]}]},
            ["tiers[0].plugins[1].name"],
        ),
        (
            {"tiers": [{"plugins": [{"name": "gang", "enabledJobReady": False}]}]},
            ["tiers[0].plugins[0].enabledJobReady"],
        ),
        (
            {"tiers": [{"plugins": [{"name": "x", "arguments": {"maxCelCacheEntries": 0}}]}]},
            ["tiers[0].plugins[0].arguments.maxCelCacheEntries"],
        ),
    ],
)
def test_scheduler_keys_without_effect_are_found(document: object, paths: list[str]) -> None:
    assert _paths(SCHEDULER, document) == paths


def test_binder_plugin_arguments_without_effect_are_found() -> None:
    devices = {"priority": 10, "arguments": {"bindTimeoutSeconds": "9"}}
    assert _paths(BINDER, {"dynamicresources": devices, "hamicore": {"enabled": True}}) == [
        "dynamicresources.priority",
        "dynamicresources.arguments.bindTimeoutSeconds",
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        (SchedulingShard, {"goMemLimitRatio": 0.5}, "spec.goMemLimitRatio"),
        (SchedulingShard, {"plugins": {"reflectjoborder": {"enabled": True}}}, "spec.plugins."),
        (Config, {"scheduler": {"GOGC": 100}}, "spec.scheduler.GOGC"),
    ],
)
def test_fields_without_effect_are_warnings(
    kind: type[Struct], spec: dict[str, Any], path: str
) -> None:
    name = {"name": "kai-config"}
    obj = from_builtins(kind, {"metadata": name, "spec": spec})
    (found,) = problems(obj)
    assert found.path.startswith(path)
    assert "has no effect" in found.message
    assert errors([found]) == []
    assert list(problems(from_builtins(kind, {"metadata": name, "spec": {}}))) == []


@pytest.mark.parametrize("kind", [SchedulingShard, Config])
def test_every_field_of_the_no_effect_table_exists(kind: type[Struct]) -> None:
    for pattern in NO_EFFECT[kind.__name__]:
        _, *steps = pattern.split(".")
        spec: Any = "x"
        for step in reversed(steps):
            spec = {step.partition("=")[0]: spec}
        with pytest.raises(ValueError, match=r"\$\.spec\."):
            from_builtins(kind, {"spec": _of_wrong_type(spec)})


def _of_wrong_type(value: Any) -> Any:
    """The same keys down to the last, which gets a list: no field of these takes that."""
    if isinstance(value, dict):
        return {key: _of_wrong_type(below) for key, below in value.items()}
    return [[]]
