"""Defaults fill what is absent and never what a user wrote."""

from typing import Any

import pytest

from muster.api.codec import builtins, from_builtins
from muster.api.config import Config
from muster.api.config_defaults import defaulted_config, names_of
from muster.api.defaulting import defaulted_shard
from muster.api.names import DEFAULT
from muster.api.shard import SchedulingShard

Json = dict[str, Any]


def _shard(**spec: Any) -> Json:
    shard = from_builtins(SchedulingShard, {"spec": spec})
    wire: Json = builtins(defaulted_shard(shard))["spec"]
    return wire


def _config(**spec: Any) -> Json:
    config = defaulted_config(from_builtins(Config, {"spec": spec}), "registry", "v1")
    wire: Json = builtins(config)["spec"]
    return wire


@pytest.mark.row(82)
def test_a_shard_bin_packs_by_default() -> None:
    spec = _shard()
    assert spec["placementStrategy"] == {"gpu": "binpack", "cpu": "binpack"}
    assert spec["plugins"]["gpupack"] == {"enabled": True, "priority": 300, "arguments": {}}
    assert spec["plugins"]["gpuspread"]["enabled"] is False
    assert spec["plugins"]["nodeplacement"]["arguments"] == {"gpu": "binpack", "cpu": "binpack"}
    assert all(action["enabled"] for action in spec["actions"].values())
    assert spec["scenarioSearchBudgets"]["maxActionSearchDuration"] == {"default": "5m0s"}
    assert "usageDBConfig" not in spec


@pytest.mark.row(82)
def test_a_shard_that_spreads_does_not_consolidate() -> None:
    spec = _shard(placementStrategy={"gpu": "spread"})
    assert spec["plugins"]["gpuspread"]["enabled"] is True
    assert spec["plugins"]["gpusharingorder"]["enabled"] is False
    assert spec["actions"]["consolidation"]["enabled"] is False
    assert _shard(placementStrategy={"cpu": "spread"})["plugins"]["gpupack"]["enabled"] is True


@pytest.mark.row(82)
def test_fields_of_a_shard_become_arguments_of_plugins() -> None:
    spec = _shard(kValue=0.00001, minRuntime={"reclaimMinRuntime": "1m"})
    assert spec["plugins"]["proportion"]["arguments"] == {"kValue": "0.00001"}
    assert spec["plugins"]["minruntime"]["arguments"] == {"defaultReclaimMinRuntime": "1m"}
    assert _shard(kValue=1)["plugins"]["proportion"]["arguments"] == {"kValue": "1"}


@pytest.mark.row(82)
def test_plugins_and_actions_of_a_shard_override_the_defaults() -> None:
    spec = _shard(
        plugins={
            "nodeplacement": {"arguments": {}},
            "elastic": {"enabled": False},
            "mine": {"arguments": {"a": "b"}},
        },
        actions={"reclaim": {"priority": 900}, "mine": {}},
    )
    assert spec["plugins"]["nodeplacement"] == {"enabled": True, "priority": 200, "arguments": {}}
    assert spec["plugins"]["elastic"] == {"enabled": False, "priority": 1300, "arguments": {}}
    assert spec["plugins"]["mine"] == {"enabled": True, "priority": 0, "arguments": {"a": "b"}}
    assert spec["actions"]["reclaim"] == {"enabled": True, "priority": 900}
    assert spec["actions"]["mine"] == {"enabled": True, "priority": 0}


def test_usage_parameters_have_defaults_and_a_half_life_of_zero_is_none() -> None:
    spec = _shard(
        usageDBConfig={"clientType": "prometheus", "usageParams": {"halfLifePeriod": "0s"}}
    )
    assert spec["usageDBConfig"]["usageParams"] == {
        "windowSize": "1w",
        "windowType": "sliding",
        "fetchInterval": "1m0s",
        "stalenessPeriod": "5m0s",
        "waitTimeout": "1m0s",
    }


def test_usage_parameters_of_a_shard_override_the_defaults() -> None:
    given = {"windowSize": "2d", "windowType": "tumbling", "halfLifePeriod": "1h0m0s"}
    spec = _shard(usageDBConfig={"clientType": "prometheus", "usageParams": given})
    assert given.items() <= spec["usageDBConfig"]["usageParams"].items()


@pytest.mark.row(81)
def test_an_empty_config_gets_every_default() -> None:
    spec = _config()
    assert spec["namespace"] == "kai-scheduler"
    assert spec["global"]["schedulerName"] == "kai-scheduler"
    assert spec["binder"]["service"]["image"] == {
        "repository": "registry",
        "name": "muster",
        "tag": "v1",
        "pullPolicy": "IfNotPresent",
    }
    assert spec["admission"]["gpuFractionRuntimeClassName"] == "nvidia"
    assert spec["scheduler"]["service"]["resources"]["requests"] == {
        "cpu": "250m",
        "memory": "512Mi",
    }
    assert "enabled" not in spec["numaPlacementExporter"]["service"]
    assert _config() == spec, "a second reading finds the same defaults"


@pytest.mark.row(81)
@pytest.mark.parametrize(
    ("spec", "path", "value"),
    [
        ({"global": {"replicaCount": 3}}, "binder.replicas", 3),
        ({"global": {"replicaCount": 3}, "binder": {"replicas": 2}}, "binder.replicas", 2),
        ({"global": {"imagesPullSecret": "s"}}, "global.additionalImagePullSecrets", ["s"]),
        ({"global": {"vpa": {"enabled": True}}}, "binder.vpa.enabled", True),
        (
            {"global": {"vpa": {"enabled": True}}, "binder": {"vpa": {"enabled": False}}},
            "binder.vpa",
            {"enabled": False},
        ),
        (
            {"scheduler": {"vpa": {"enabled": True}}},
            "scheduler.vpa.updatePolicy.updateMode",
            "InPlaceOrRecreate",
        ),
        (
            {"admission": {"gpuPodRuntimeClassName": "old"}},
            "admission.gpuFractionRuntimeClassName",
            None,
        ),
        (
            {"binder": {"cdiEnabled": True}},
            "binder.plugins.gpusharing.arguments.cdiEnabled",
            "true",
        ),
        (
            {"binder": {"volumeBindingTimeoutSeconds": 9}},
            "binder.plugins.volumebinding.arguments.bindTimeoutSeconds",
            "9",
        ),
        ({"binder": {"plugins": {"mine": {}}}}, "binder.plugins.mine.enabled", True),
        (
            {"binder": {"service": {"resources": {"requests": {"cpu": "1"}}}}},
            "binder.service.resources.requests",
            {"cpu": "1", "memory": "200Mi"},
        ),
        (
            {"numaPlacementExporter": {"nodeSelector": {"a": "b"}}},
            "numaPlacementExporter.nodeSelector",
            {"a": "b"},
        ),
        (
            {"numaPlacementExporter": {"service": {"enabled": False}}},
            "numaPlacementExporter.service.enabled",
            False,
        ),
    ],
)
def test_config_fields_override_the_defaults(spec: Json, path: str, value: object) -> None:
    found: Any = _config(**spec)
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    assert found == value


@pytest.mark.row(81)
def test_the_names_of_an_installation_come_from_its_config() -> None:
    spec = {
        "namespace": "batch",
        "global": {"schedulerName": "mine", "queueLabelKey": "example.com/queue"},
        "binder": {"resourceReservation": {"appLabel": "holder"}},
        "queueController": {"metricsNamespace": "mine"},
    }
    wire = {"metadata": {"name": "kai-config"}, "spec": spec}
    names = names_of(from_builtins(Config, wire))
    assert (names.namespace, names.scheduler, names.queue_label) == (
        "batch",
        "mine",
        "example.com/queue",
    )
    assert (names.reservation_app, names.metrics_prefix) == ("holder", "mine")
    assert names.node_pool_label == DEFAULT.node_pool_label
    assert names_of(Config()) == DEFAULT
