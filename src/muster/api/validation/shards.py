"""Shards: strategies, windows, budgets and names that the scheduler will understand."""

import re
from typing import Final

from muster.api.defaulting import (
    BINPACK,
    DEFAULT_ACTION_PRIORITIES,
    LEAST_FRAGMENTATION,
    SPREAD,
)
from muster.api.duration import BadDuration, Duration
from muster.api.shard import (
    ScenarioSearchBudgets,
    SchedulingShard,
    SchedulingShardSpec,
    UsageDBConfig,
    UsageParams,
)
from muster.api.validation.problems import (
    Problem,
    Problems,
    given,
    is_label_value,
    unlike,
    warning,
)

_STRATEGIES: Final = (BINPACK, SPREAD, LEAST_FRAGMENTATION)
USAGE_CLIENTS: Final = ("prometheus", "embedded", "fake", "fake-with-history")
USAGE_WINDOWS: Final = ("sliding", "tumbling", "cron")
_SEARCHES: Final = ("default", "reclaim", "preempt", "consolidation")


def shard_problems(shard: SchedulingShard) -> Problems:
    """What the operator or the scheduler could not use."""
    spec = shard.spec
    if not is_label_value(spec.partition_label_value):
        message = f"{spec.partition_label_value!r} is no label value"
        fix = "use at most 63 letters, digits, -, _ and ."
        yield Problem("spec.partitionLabelValue", message, fix)
    yield from _strategy_problems(spec)
    yield from _number_problems(spec)
    yield from _min_runtime_problems(spec)
    if spec.scenario_search_budgets is not None:
        yield from _budget_problems(spec.scenario_search_budgets)
    if spec.usage_db_config is not None:
        yield from _usage_problems(spec.usage_db_config)


def pool_problems(shard: SchedulingShard, older: SchedulingShard) -> Problems:
    """Of two that claim the same nodes the older one has them."""
    if shard.spec.partition_label_value == older.spec.partition_label_value:
        mine, its = shard.metadata.name, older.metadata.name
        message = f"shard {mine} claims the same nodes as shard {its}"
        yield Problem("spec.partitionLabelValue", message, "give each shard its own value")


def _strategy_problems(spec: SchedulingShardSpec) -> Problems:
    for path, strategy in given("spec.placementStrategy", spec.placement_strategy, "gpu", "cpu"):
        yield from unlike(path, strategy, _STRATEGIES)


def _number_problems(spec: SchedulingShardSpec) -> Problems:
    if spec.k_value is not None and spec.k_value < 0:
        yield Problem("spec.kValue", f"{spec.k_value:g} is negative", "write 0 or more")
    if spec.go_mem_limit is not None and spec.go_mem_limit.nano <= 0:
        message = f"{spec.go_mem_limit} is not above 0"
        yield Problem("spec.goMemLimit", message, "write an amount like 2Gi, or leave it out")
    known = set(DEFAULT_ACTION_PRIORITIES) | set(spec.actions)
    for action, depth in sorted(spec.queue_depth_per_action.items()):
        path = f"spec.queueDepthPerAction[{action}]"
        if action not in known:
            fix = f"write one of {', '.join(sorted(known))}"
            yield Problem(path, f"there is no action {action}", fix)
        if depth < 0:
            yield Problem(path, f"{depth} is negative", "write 0 for no limit, or more")


def _min_runtime_problems(spec: SchedulingShardSpec) -> Problems:
    runtimes = ("preempt_min_runtime", "reclaim_min_runtime")
    for path, text in given("spec.minRuntime", spec.min_runtime, *runtimes):
        try:
            Duration(text)
        except BadDuration as error:
            yield Problem(path, str(error), "write a duration like 10m")


def _budget_problems(budgets: ScenarioSearchBudgets) -> Problems:
    path = "spec.scenarioSearchBudgets"
    for action in sorted(budgets.max_action_search_duration):
        yield from unlike(f"{path}.maxActionSearchDuration[{action}]", action, _SEARCHES)
    for where, budget in _budgets(path, budgets):
        if budget.ns < 0:
            yield Problem(where, f"{budget} is negative", "write 0 for no limit, or more")
    longest, shortest = budgets.max_job_search_duration, budgets.min_job_search_duration
    if longest is None or shortest is None or longest.ns == 0:
        return
    if shortest >= longest:
        message = f"{shortest} is not below maxJobSearchDuration {longest}"
        yield Problem(f"{path}.minJobSearchDuration", message, "write less, or 0 for the maximum")


def _budgets(path: str, budgets: ScenarioSearchBudgets) -> list[tuple[str, Duration]]:
    by_name = ("max_action_search_duration", "max_generator_search_duration")
    return [
        *(
            (f"{where}[{key}]", each)
            for where, many in given(path, budgets, *by_name)
            for key, each in sorted(many.items())
        ),
        *given(path, budgets, "max_job_search_duration", "min_job_search_duration"),
    ]


def _usage_problems(usage: UsageDBConfig) -> Problems:
    path = "spec.usageDBConfig"
    yield from unlike(f"{path}.clientType", usage.client_type, USAGE_CLIENTS)
    if usage.usage_params is not None:
        yield from _window_problems(f"{path}.usageParams", usage.usage_params)


def _window_problems(path: str, params: UsageParams) -> Problems:
    kind = params.window_type
    if kind is not None:
        yield from unlike(f"{path}.windowType", kind, USAGE_WINDOWS)
    if params.window_size == "":
        yield Problem(f"{path}.windowSize", "it is empty", "write a duration like 1w")
    if kind == "cron" and len(params.cron_string.split()) != 5:
        message = f"{params.cron_string!r} is no cron line"
        yield Problem(f"{path}.cronString", message, "write five fields, like 0 0 * * 1")
    if kind == "tumbling" and params.tumbling_window_start_time is None:
        message = "tumbling windows begin nowhere in particular"
        fix = "write when the first one began"
        yield warning(f"{path}.tumblingWindowStartTime", message, fix)
    for where, each in given(path, params, "fetch_interval", "staleness_period", "wait_timeout"):
        if each.ns <= 0:
            yield Problem(where, f"{each} is not above 0", "write more, like 1m")
    for where, each in given(path, params, "fetch_interval"):
        if 0 < each.seconds < 1:
            yield Problem(where, f"{each} is less than 1s", "write more, like 1m")
    for where, each in given(path, params, "half_life_period"):
        if 0 < each.seconds < 60:
            yield Problem(where, f"{each} is less than 1m", "write more, like 2d, or 0s for none")


def prometheus_duration_s(text: str) -> float | None:
    """A Prometheus duration (`1w2d`, falling units) in seconds, or None."""
    match = _PROMETHEUS.fullmatch(text) if text and len(text) <= 100 else None
    if text == "0" or match is None:
        return 0.0 if text == "0" else None
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True))


_PROMETHEUS: Final = re.compile(
    r"(?:([0-9]+)y)?(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?"
)
_UNITS_S: Final = (31_536_000.0, 604_800.0, 86_400.0, 3600.0, 60.0, 1.0, 0.001)
