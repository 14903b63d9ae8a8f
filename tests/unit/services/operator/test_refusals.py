"""What the operator takes, services can start with; what they could not, it names."""

from typing import Any

import pytest
import typer
from tests.unit.services.operator.test_desired import (
    all_of,
    container,
    desired_of,
    settings_of,
    shard_of,
)

from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.cli.commands import COMMANDS
from muster.cli.services import SERVICES
from muster.client.limits import Limits
from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_actions, build_policy
from muster.services.operator.decide import ineffective, usable_config, usable_shards
from muster.services.operator.scheduler_conf import scheduler_conf
from muster.services.operator.shard_args import SWITCHES, VALUES

Json = dict[str, Any]
_SERVICES = {service.name: service for service in SERVICES}
_TEXTS = (
    *(
        "",
        "0",
        "1",
        "-1",
        "3",
        "1.5",
        "nan",
        "inf",
        "many",
        "true",
        "True",
        "no",
        "1h",
        "-2s",
        "1x",
    ),
    *("needed", "always", "none", "kubernetes", "token", "volcano", "http://c:4318", "c:4318"),
)


def _starts(service: str, args: list[str]) -> bool:
    """Whether the service gets as far as having read all of its flags."""
    try:
        context = COMMANDS[service].load(service).make_context(service, [*args])
        flags = _SERVICES[service].flags
        given = {key: flag.value(context.params[key]) for key, flag in flags.items()}
        Limits(given["qps"], given["burst"])
    except (typer.BadParameter, ValueError):
        return False
    return True


# A collector's address is looked at when the first trace is made; a token has no file to be in; of
# another system the cluster must have the kinds.
_STRICTER = {("otlp-endpoint", text) for text in _TEXTS}
_STRICTER |= {("metrics-auth", "token"), ("debug-auth", "token"), ("profile", "volcano")}
_STRICTER |= {("qps", "nan"), ("qps", "inf")}


@pytest.mark.parametrize("name", sorted(SWITCHES | VALUES.keys()))
def test_a_shard_may_say_what_its_scheduler_can_start_with(name: str) -> None:
    for text in _TEXTS:
        usable, wrong = usable_shards([shard_of("a", args={name: text})], settings_of())
        if not usable:
            (problem,) = wrong["a"]
            assert problem.path == f"spec.args[{name}]"
            assert problem.fix
        if (name, text) not in _STRICTER and name not in SWITCHES:
            assert bool(usable) is _starts("scheduler", [f"--{name}={text}"]), text


def test_a_switch_is_on_or_off() -> None:
    for name in SWITCHES:
        usable, wrong = usable_shards([shard_of("a", args={name: "perhaps"})], settings_of())
        assert usable == []
        assert "true or false" in str(wrong["a"][0])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"plugins": {"nosuch": {"enabled": True}}}, "spec.plugins[nosuch]"),
        ({"plugins": {"nosuch": {"arguments": {"a": "b"}}}}, "spec.plugins[nosuch]"),
        ({"actions": {"fly": {}}}, "spec.actions[fly]"),
        ({"args": {"utilization": "{connectionString: x, idleGpus: {below: lots}}"}}, "spec: util"),
    ],
)
def test_a_conf_that_its_scheduler_would_refuse_is_never_written(spec: Json, field: str) -> None:
    usable, wrong = usable_shards([shard_of("a", **spec)], settings_of())
    assert usable == []
    assert [problem.path.startswith(field) for problem in wrong["a"]] == [True]


def test_what_is_switched_off_need_not_be_there() -> None:
    (usable,), wrong = usable_shards(
        [shard_of("a", plugins={"nosuch": {"enabled": False}})], settings_of()
    )
    assert wrong == {}
    conf = parse_conf(scheduler_conf(usable))
    assert build_policy(conf) is not None
    assert build_actions(conf)


def test_plugins_of_an_image_of_ones_own_are_its_business() -> None:
    own = settings_of({"scheduler": {"service": {"image": {"name": "mine", "tag": "1"}}}})
    usable, wrong = usable_shards([shard_of("a", plugins={"mine": {"enabled": True}})], own)
    assert wrong == {}
    assert [shard.metadata.name for shard in usable] == ["a"]


def test_a_shard_of_a_profile_that_there_is_not_is_named_and_harms_no_other() -> None:
    bad = shard_of("bad", partitionLabelValue="b", args={"profile": "nosuch", "utilization": "{}"})
    usable, wrong = usable_shards([shard_of("good"), bad], settings_of())
    assert [shard.metadata.name for shard in usable] == ["good"]
    assert [problem.path for problem in wrong["bad"]] == ["spec.args[profile]"]
    assert ineffective(from_builtins(Config, {}), [bad]) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"global": {"replicaCount": 999_999_999}},
        {"podGrouper": {"k8sClientConfig": {"qps": 0, "burst": 0}}},
        {"binder": {"maxConcurrentReconciles": 0}},
        {"binder": {"resourceReservation": {"allocationTimeout": -1}}},
        {"binder": {"resourceReservation": {"allocationTimeout": 0}}},
        {"nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 0}}},
        {"nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 5}}},
        {"admission": {"webhook": {"targetPort": 9443, "metricsPort": 9443}}},
        {"podGrouper": {"args": {"defaultPrioritiesConfigMapName": "half"}}},
        {"queueController": {"queueLabelToMetricLabel": "a"}},
    ],
    ids=str,
)
def test_a_config_is_refused_with_its_field_or_every_service_starts_with_it(spec: Json) -> None:
    problems = usable_config(
        from_builtins(Config, {"metadata": {"name": "kai-config"}, "spec": spec})
    )
    if problems:
        (section,) = spec
        assert all(one.path.startswith(f"spec.{section}.") and one.fix for one in problems)
        return
    for want in all_of(desired_of(spec, shard_of("default"))):
        if want.kind.kind == "Deployment":
            asked = container(want.body)
            ports = [one["containerPort"] for one in asked["ports"]]
            assert len(set(ports)) == len(ports), ports
            assert _starts(asked["command"][1], asked["args"]), asked["args"]
