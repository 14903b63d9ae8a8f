"""Default values, as object -> object. What a user wrote always wins.

Nothing here is written back to the cluster: a later version may choose better defaults.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from muster.api.duration import Duration
from muster.api.meta import StructT, replace
from muster.api.profiles import ProfileName
from muster.api.shard import (
    ActionConfig,
    PlacementStrategy,
    PluginConfig,
    ScenarioSearchBudgets,
    SchedulingShard,
    SchedulingShardSpec,
    UsageDBConfig,
    UsageParams,
)

BINPACK: Final = "binpack"
SPREAD: Final = "spread"
LEAST_FRAGMENTATION: Final = "least-fragmentation"
_PROFILE: Final = "profile"
"""The word in `args` of a shard for whose its defaults are."""

DEFAULT_PLUGIN_PRIORITIES: Final[Mapping[str, int]] = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
}
"""The plugins of a shard that changes nothing; higher ones are asked first."""

DEFAULT_ACTION_PRIORITIES: Final[Mapping[str, int]] = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}
"""The actions of a shard that changes nothing; higher ones run first."""

_SEARCH_ACTIONS: Final = {"default": Duration("5m")}
_SEARCH_GENERATORS: Final = {
    "default": Duration("2m"),
    "NodeLocalGreedy": Duration("30s"),
    "MultiNodeGang": Duration("2m"),
}


def defaulted_shard(shard: SchedulingShard) -> SchedulingShard:
    spec = shard.spec
    wanted = spec.placement_strategy or PlacementStrategy()
    is_ours = spec.args.get(_PROFILE) == ProfileName.MUSTER
    usual = LEAST_FRAGMENTATION if is_ours else BINPACK
    strategy = PlacementStrategy(gpu=wanted.gpu or usual, cpu=wanted.cpu or usual)
    spec = replace(
        spec,
        placement_strategy=strategy,
        go_mem_limit_ratio=0.9 if spec.go_mem_limit_ratio is None else spec.go_mem_limit_ratio,
        scenario_search_budgets=_budgets(spec.scenario_search_budgets or ScenarioSearchBudgets()),
        usage_db_config=_usage(spec.usage_db_config),
        plugins=_plugins(spec, strategy),
        actions=_actions(spec, strategy),
    )
    return replace(shard, spec=spec)


def _budgets(given: ScenarioSearchBudgets) -> ScenarioSearchBudgets:
    return ScenarioSearchBudgets(
        max_action_search_duration={**_SEARCH_ACTIONS, **given.max_action_search_duration},
        max_job_search_duration=given.max_job_search_duration or Duration("4m"),
        min_job_search_duration=given.min_job_search_duration or Duration("0s"),
        max_generator_search_duration={**_SEARCH_GENERATORS, **given.max_generator_search_duration},
    )


def _usage(given: UsageDBConfig | None) -> UsageDBConfig | None:
    if given is None:
        return None
    params = given.usage_params or UsageParams()
    half_life = params.half_life_period
    return replace(
        given,
        usage_params=replace(
            params,
            half_life_period=half_life if half_life is not None and half_life.ns > 0 else None,
            window_size="1w" if params.window_size is None else params.window_size,
            window_type=params.window_type or "sliding",
            fetch_interval=params.fetch_interval or Duration("1m"),
            staleness_period=params.staleness_period or Duration("5m"),
            wait_timeout=params.wait_timeout or Duration("1m"),
        ),
    )


def _plugins(spec: SchedulingShardSpec, strategy: PlacementStrategy) -> Mapping[str, PluginConfig]:
    arguments = _plugin_arguments(spec, strategy)
    packs = strategy.gpu == BINPACK
    switched = {"gpupack": packs, "gpusharingorder": packs, "gpuspread": not packs}
    merged = {
        name: PluginConfig(
            enabled=switched.get(name, True), priority=priority, arguments=arguments.get(name, {})
        )
        for name, priority in DEFAULT_PLUGIN_PRIORITIES.items()
    }
    for name, given in spec.plugins.items():
        base = merged.get(name, PluginConfig(enabled=True, priority=0, arguments={}))
        merged[name] = _changed(base, given)
    return merged


def _changed(base: StructT, given: StructT) -> StructT:
    """The base with what is given instead, field by field."""
    said = {name: getattr(given, name) for name in type(given).__struct_fields__}
    return replace(base, **{name: value for name, value in said.items() if value is not None})


def _plugin_arguments(
    spec: SchedulingShardSpec, strategy: PlacementStrategy
) -> Mapping[str, Mapping[str, str]]:
    """What other fields of the shard say to plugins."""
    proportion = {} if spec.k_value is None else {"kValue": _shortest(spec.k_value)}
    runtime = spec.min_runtime
    given = (
        ("defaultPreemptMinRuntime", runtime.preempt_min_runtime if runtime else None),
        ("defaultReclaimMinRuntime", runtime.reclaim_min_runtime if runtime else None),
    )
    return {
        "proportion": proportion,
        "minruntime": {name: text for name, text in given if text is not None},
        "nodeplacement": {"gpu": strategy.gpu or BINPACK, "cpu": strategy.cpu or BINPACK},
    }


def _shortest(number: float) -> str:
    """The shortest decimal, without an exponent: 1, not 1.0 or 1e+00."""
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _actions(spec: SchedulingShardSpec, strategy: PlacementStrategy) -> Mapping[str, ActionConfig]:
    consolidates = SPREAD not in (strategy.gpu, strategy.cpu)
    merged = {
        name: ActionConfig(enabled=consolidates if name == "consolidation" else True, priority=rank)
        for name, rank in DEFAULT_ACTION_PRIORITIES.items()
    }
    for name, given in spec.actions.items():
        merged[name] = _changed(merged.get(name, ActionConfig(enabled=True, priority=0)), given)
    return merged
