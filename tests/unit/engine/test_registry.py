"""Names of configurations and what they stand for."""

import pytest

from muster.engine.config.conf import DEFAULT_PLUGINS, parse_conf
from muster.engine.config.reader import ConfigError
from muster.engine.registry import PLUGINS, build_policy


def test_every_known_plugin_can_be_built_without_arguments() -> None:
    entries = "".join(f"  - name: {name}\n" for name in PLUGINS if name != "gpuspread")
    policy = build_policy(parse_conf(f"actions: allocate\ntiers:\n- plugins:\n{entries}"))
    assert len(policy.plugins) == len(PLUGINS) - 1


def test_the_built_in_default_can_be_built() -> None:
    assert len(build_policy(parse_conf("")).plugins) == len(DEFAULT_PLUGINS)


@pytest.mark.parametrize(
    ("plugin", "error"),
    [
        (
            "{name: proportions}",
            'tiers[0].plugins[0].name: no plugin "proportions"; known are dynamic',
        ),
        (
            "{name: proportion, arguments: {kValue: much}}",
            'tiers[0].plugins[0].arguments.kValue: "much" is not a number',
        ),
        (
            "{name: nodeplacement, arguments: {gpu: pack}}",
            'tiers[0].plugins[0].arguments.gpu: "pack" is not one of binpack, spread',
        ),
        (
            "{name: minruntime, arguments: {defaultReclaimMinRuntime: soon}}",
            "tiers[0].plugins[0].arguments.defaultReclaimMinRuntime:",
        ),
        (
            "{name: priority, arguments: {order: up}}",
            "tiers[0].plugins[0].arguments.order: unknown key; known are none",
        ),
    ],
)
def test_a_wrong_name_or_argument_is_an_error_with_its_key(plugin: str, error: str) -> None:
    conf = parse_conf(f"actions: allocate\ntiers: [{{plugins: [{plugin}]}}]", "conf.yaml")
    with pytest.raises(ConfigError) as raised:
        build_policy(conf)
    assert str(raised.value).startswith(f"conf.yaml: {error}")


def test_a_queue_depth_for_an_action_that_does_not_run_is_an_error() -> None:
    conf = parse_conf("actions: allocate\nqueueDepthPerAction: {reclaim: 3}")
    with pytest.raises(ConfigError, match=r"queueDepthPerAction\.reclaim: is not one of"):
        build_policy(conf)
