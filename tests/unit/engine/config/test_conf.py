"""The configuration file: defaults, parsed sections, and errors that name file and key."""

import pytest

from muster.engine.config.budgets import DisruptionLimits
from muster.engine.config.conf import DEFAULT_ACTIONS, DEFAULT_PLUGINS, parse_conf
from muster.engine.config.reader import ConfigError, Reader

WHOLE = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: proportion
    arguments: {kValue: "2.5"}
  - name: priority
    disableJobOrder: true
- plugins:
  - name: nodeplacement
    arguments: {gpu: spread}
queueDepthPerAction: {reclaim: 5}
usageDBConfig:
  clientType: prometheus
  connectionString: http://metrics
  usageParams: {halfLifePeriod: 12h, windowSize: 1w}
scenarioSearchBudgets:
  maxActionSearchDuration: {reclaim: 10s}
disruptionBudget:
  maxEvictedPerRequested: 2
  queues: {research: {maxEvictedPerHour: 16}}
"""


def test_an_empty_file_is_the_built_in_default() -> None:
    conf = parse_conf("")
    assert conf.actions == DEFAULT_ACTIONS
    assert [entry.name for tier in conf.tiers for entry in tier] == list(DEFAULT_PLUGINS)
    assert conf.disruption_budget.is_off


def test_missing_tiers_get_the_default_plugins() -> None:
    conf = parse_conf("actions: allocate")
    assert conf.actions == ("allocate",)
    assert [entry.name for entry in conf.tiers[0]] == list(DEFAULT_PLUGINS)


def test_every_section_of_a_configuration_is_parsed() -> None:
    conf = parse_conf(WHOLE)
    assert conf.actions == ("allocate", "reclaim")
    assert [[entry.name for entry in tier] for tier in conf.tiers] == [
        ["proportion", "priority"],
        ["nodeplacement"],
    ]
    assert conf.tiers[0][0].arguments.key("kValue").number() == 2.5
    assert conf.tiers[0][1].switches == {"disableJobOrder": True}
    assert conf.queue_depth == {"reclaim": 5}
    assert conf.usage is not None
    assert conf.usage.window.half_life_s == 12 * 3600
    assert conf.disruption_budget.overall == DisruptionLimits(per_requested=2)
    assert conf.disruption_budget.queues["research"] == DisruptionLimits(per_hour=16)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("actions: ''", "scheduler.yaml: actions: must name at least one action"),
        ("tiers: []", "scheduler.yaml: actions: must name at least one action"),
        ("actions: [", "scheduler.yaml: is not YAML"),
        ("- a", "scheduler.yaml: must be a mapping, not a list"),
        ("actoins: allocate", "scheduler.yaml: actoins: unknown key; known are actions,"),
        ("actions: a\ntiers: x", "scheduler.yaml: tiers: must be a list, not a string"),
        (
            "actions: a\ntiers: [{plugins: [{arguments: {}}]}]",
            "scheduler.yaml: tiers[0].plugins[0].name: is required",
        ),
        (
            "actions: a\ntiers: [{plugins: [{name: x, options: {}}]}]",
            "scheduler.yaml: tiers[0].plugins[0].options: unknown key",
        ),
        (
            "actions: a\nqueueDepthPerAction: {allocate: many}",
            'scheduler.yaml: queueDepthPerAction.allocate: "many" is not a number',
        ),
        (
            "actions: a\nscenarioSearchBudgets: {maxJobSearchDuration: soon}",
            'scheduler.yaml: scenarioSearchBudgets.maxJobSearchDuration: "soon" is not a duration',
        ),
        (
            "actions: a\nscenarioSearchBudgets: {maxJobSearchDuration: 1s, "
            "minJobSearchDuration: 2s}",
            "minJobSearchDuration: must be shorter than maxJobSearchDuration",
        ),
        (
            "actions: a\nscenarioSearchBudgets: {maxActionSearchDuration: {allocate: 1s}}",
            "maxActionSearchDuration.allocate: unknown key; known are consolidation, default,",
        ),
        (
            "actions: a\nusageDBConfig: {clientType: prometheus}",
            "usageDBConfig: give exactly one of connectionString and connectionStringEnvVar",
        ),
        (
            "actions: a\nusageDBConfig: {clientType: sqlite}",
            'usageDBConfig.clientType: "sqlite" is not one of prometheus, embedded, fake',
        ),
        (
            "actions: a\ndisruptionBudget: {maxEvictedPerCycle: -1}",
            "disruptionBudget.maxEvictedPerCycle: must not be negative",
        ),
    ],
)
def test_a_configuration_error_names_its_file_and_key(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_conf(text)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("2d", 172800), ("1w", 604800), ("500ms", 0.5), ("-1s", -1)],
)
def test_durations_may_have_days_and_weeks(text: str, seconds: float) -> None:
    assert Reader(text, "scheduler.yaml").duration_s() == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "1x", "1h 30m"])
def test_other_text_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match=f'"{text}" is not a duration'):
        Reader(text, "scheduler.yaml").duration_s()


def _strategies(text: str) -> dict[str, object]:
    (found,) = (
        entry.arguments.value
        for tier in parse_conf(text).tiers
        for entry in tier
        if entry.name == "nodeplacement"
    )
    assert isinstance(found, dict)
    return found


_LISTED = (
    "actions: allocate\ntiers: [{plugins: [{name: nodeplacement, arguments: {gpu: spread}}]}]\n"
)


@pytest.mark.parametrize(
    ("text", "strategies"),
    [
        ("actions: allocate", {}),
        (
            "actions: allocate\nplacement: least-fragmentation",
            {"gpu": "least-fragmentation", "cpu": "least-fragmentation"},
        ),
        ("actions: allocate\nplacement: spread", {"gpu": "spread", "cpu": "spread"}),
        (_LISTED, {"gpu": "spread"}),
        (f"{_LISTED}placement: binpack", {"gpu": "spread", "cpu": "binpack"}),
    ],
)
def test_placement_is_what_a_plugin_does_not_say_itself(
    text: str, strategies: dict[str, object]
) -> None:
    assert _strategies(text) == strategies


def test_an_unknown_placement_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"placement: .*least-fragmentation"):
        parse_conf("actions: allocate\nplacement: tight")
