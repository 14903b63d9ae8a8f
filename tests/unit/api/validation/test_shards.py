"""Each rule about shards accepts and refuses."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.shard import SchedulingShard
from muster.api.validation.shards import (
    pool_problems,
    prometheus_duration_s,
    shard_problems,
)

pytestmark = pytest.mark.row(82)

Json = dict[str, Any]


def _shard(**spec: Any) -> SchedulingShard:
    return from_builtins(SchedulingShard, {"metadata": {"name": "s"}, "spec": spec})


def _usage(client: str = "prometheus", **params: Any) -> Json:
    return {"usageDBConfig": {"clientType": client, "usageParams": params}}


def _budgets(**budgets: Any) -> Json:
    return {"scenarioSearchBudgets": budgets}


_PARAMS = "spec.usageDBConfig.usageParams"
_BUDGETS = "spec.scenarioSearchBudgets"
_WRONG: list[tuple[Json, str, str]] = [
    ({"partitionLabelValue": "a b"}, "spec.partitionLabelValue", "no label value"),
    ({"placementStrategy": {"gpu": "pack"}}, "spec.placementStrategy.gpu", "'pack'"),
    ({"placementStrategy": {"cpu": "pack"}}, "spec.placementStrategy.cpu", "'pack'"),
    ({"kValue": -1}, "spec.kValue", "negative"),
    ({"goMemLimit": 0}, "spec.goMemLimit", "not above 0"),
    ({"queueDepthPerAction": {"dance": 1}}, "spec.queueDepthPerAction[dance]", "no action dance"),
    ({"queueDepthPerAction": {"reclaim": -1}}, "spec.queueDepthPerAction[reclaim]", "negative"),
    (
        {"minRuntime": {"preemptMinRuntime": "soon"}},
        "spec.minRuntime.preemptMinRuntime",
        "not a duration",
    ),
    (
        {"minRuntime": {"reclaimMinRuntime": "5"}},
        "spec.minRuntime.reclaimMinRuntime",
        "not a duration",
    ),
    (
        _budgets(maxActionSearchDuration={"allocate": "1m"}),
        f"{_BUDGETS}.maxActionSearchDuration[allocate]",
        "unknown value 'allocate'",
    ),
    (
        _budgets(maxGeneratorSearchDuration={"x": "-1s"}),
        f"{_BUDGETS}.maxGeneratorSearchDuration[x]",
        "negative",
    ),
    (
        _budgets(maxJobSearchDuration="1m", minJobSearchDuration="1m"),
        f"{_BUDGETS}.minJobSearchDuration",
        "not below",
    ),
    (_usage("oracle"), "spec.usageDBConfig.clientType", "'oracle'"),
    (_usage(windowType="round"), f"{_PARAMS}.windowType", "'round'"),
    (_usage(windowSize=""), f"{_PARAMS}.windowSize", "empty"),
    (_usage(windowType="cron", cronString="daily"), f"{_PARAMS}.cronString", "no cron line"),
    (_usage(windowType="tumbling"), f"{_PARAMS}.tumblingWindowStartTime", "begin nowhere"),
    (_usage(fetchInterval="0s"), f"{_PARAMS}.fetchInterval", "not above 0"),
    (_usage(fetchInterval="1ms"), f"{_PARAMS}.fetchInterval", "less than 1s"),
    (_usage(halfLifePeriod="1ms"), f"{_PARAMS}.halfLifePeriod", "less than 1m"),
    (_usage(stalenessPeriod="-1s"), f"{_PARAMS}.stalenessPeriod", "not above 0"),
    (_usage(waitTimeout="0s"), f"{_PARAMS}.waitTimeout", "not above 0"),
]


@pytest.mark.parametrize(("spec", "path", "text"), _WRONG)
def test_a_shard_that_breaks_a_rule_has_one_problem_at_the_field(
    spec: Json, path: str, text: str
) -> None:
    (problem,) = shard_problems(_shard(**spec))
    assert problem.path == path
    assert text in problem.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"placementStrategy": {"gpu": "spread"}, "kValue": 0.5, "goMemLimit": "2Gi"},
        {"actions": {"dance": {}}, "queueDepthPerAction": {"dance": 1, "reclaim": 0}},
        _budgets(maxJobSearchDuration="0s", minJobSearchDuration="1m"),
        _usage(windowType="cron", cronString="0 0 * * 1", fetchInterval="1m"),
        {"minRuntime": {"preemptMinRuntime": "1d", "reclaimMinRuntime": "0s"}},
    ],
)
def test_a_shard_within_the_rules_has_no_problem(spec: Json) -> None:
    assert list(shard_problems(_shard(**spec))) == []


def test_two_shards_cannot_own_the_same_nodes() -> None:
    older, younger, other = (
        from_builtins(SchedulingShard, {"metadata": {"name": name}, "spec": spec})
        for name, spec in (("z", {}), ("a", {}), ("c", {"partitionLabelValue": "x"}))
    )
    (problem,) = pool_problems(younger, older)
    assert problem.message == "shard a claims the same nodes as shard z"
    assert list(pool_problems(other, older)) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1w", 604_800), ("1d12h", 129_600), ("0", 0), ("5ms", 0.005), ("1.5h", None), ("", None)],
)
def test_prometheus_durations_are_read(text: str, seconds: float | None) -> None:
    assert prometheus_duration_s(text) == seconds
