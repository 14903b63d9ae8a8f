"""Keys that the scheduler accepts are read, or reported as without effect."""

import dataclasses
from typing import Any

import pytest

from muster.api.validation.no_effect import NO_EFFECT, SCHEDULER
from muster.engine.config.conf import SchedulerConf, parse_conf
from muster.engine.registry import build_actions, build_policy

_READ_BY_THE_SERVICE = {"usage", "utilisation"}
"""Not by the engine."""


class _Watched:
    """A configuration that notes which of its fields are read."""

    def __init__(self, conf: SchedulerConf) -> None:
        self.conf = conf
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self.conf, name)


def test_every_field_of_a_configuration_is_read_or_listed_without_effect() -> None:
    watched: Any = _Watched(parse_conf("actions: allocate\nqueueDepthPerAction: {allocate: 1}"))
    build_policy(watched)
    build_actions(watched)
    fields = {field.name for field in dataclasses.fields(SchedulerConf)} - {"file", "no_effect"}
    assert fields - watched.read - _READ_BY_THE_SERVICE == set()


@pytest.mark.parametrize("key", [key for key in NO_EFFECT[SCHEDULER] if "." not in key])
def test_every_key_of_the_no_effect_table_is_accepted_and_reported(key: str) -> None:
    given = {"configurations": "[{name: allocate, arguments: {a: b}}]"}
    (found,) = parse_conf(f"actions: allocate\n{key}: {given[key]}").no_effect
    assert found.path == key
