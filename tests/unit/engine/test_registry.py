"""Names of configurations and what they stand for."""

import pytest

from muster.engine.config.conf import DEFAULT_PLUGINS, parse_conf
from muster.engine.config.known_names import PLUGINS
from muster.engine.config.reader import ConfigError
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.numerics.axis import QUEUE_RESOURCES
from muster.testing import make


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


def _shares_with(arguments: str) -> list[float]:
    """GPUs of two queues of equal weight that want all of eight, of which one used more."""
    wanting = [make.gang(name, 8, gpu=1, queue=name) for name in ("busy", "returns")]
    world = ClusterRecords(
        nodes=(make.node("n", gpu=8),),
        queues=(
            make.queue("busy", usage={"gpu": 0.75}),
            make.queue("returns", usage={"gpu": 0.25}),
        ),
        jobs=tuple(one.job for one in wanting),
        tasks=tuple(task for one in wanting for task in one.tasks),
    )
    plugin = f"{{name: proportion, arguments: {{{arguments}}}}}"
    policy = build_policy(parse_conf(f"actions: allocate\ntiers: [{{plugins: [{plugin}]}}]"))
    snapshot = snapshot_of(world)
    shares = Session(snapshot, policy, make.NOW_S).policy.queue_shares()
    assert shares is not None
    gpu, rows = QUEUE_RESOURCES.index("gpu"), snapshot.queues.row
    return [shares.fair_share[rows[name], gpu] / make.gpus(1) for name in ("busy", "returns")]


@pytest.mark.row(33)
@pytest.mark.parametrize(
    ("arguments", "shares"),
    [
        ("", [2, 6]),
        ("kValue: 0", [4, 4]),
        ("kValue: 1", [2, 6]),
        ('kValue: "2"', [0, 8]),
        ("kValue: -3", [4, 4]),
    ],
)
def test_how_strongly_past_use_counts_is_an_argument(arguments: str, shares: list[float]) -> None:
    """Weights of a half each, less what was used beyond it, times the argument."""
    assert _shares_with(arguments) == shares
