"""Whatever a server sends: an object, or an Unreadable with its path. Nothing else is raised."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.codec import Unreadable, builtins, decode, decode_event, decode_page, encode
from muster.api.config_defaults import defaulted_config
from muster.api.core import Pod
from muster.api.defaulting import defaulted_shard
from muster.api.kinds import OURS, Kind
from muster.api.podgroup import PodGroup
from muster.api.validation.objects import problems

_KINDS: list[Kind[Any]] = [each for each in vars(kinds).values() if isinstance(each, Kind)]
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "1", "500m", "1e1.5", "banana", "1d", "True", "2026-01-02T03:04:05Z"]),
    st.text(max_size=5),
)
_names = st.sampled_from(
    ["metadata", "name", "labels", "spec", "status", "items", "resources", "gpu", "quota", "global"]
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=4)
    ),
    max_leaves=12,
)

# One object of each of our kinds with something in every corner that the rules look at.
_SEEDS: dict[str, dict[str, Any]] = {
    "PodGroup": {
        "minMember": 2,
        "preemptionDelay": "1m",
        "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
        "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a"}],
    },
    "Queue": {
        "parentQueue": "p",
        "priority": 3,
        "preemptMinRuntime": "1m",
        "resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}},
    },
    "BindRequest": {
        "podName": "p",
        "receivedGPU": {"count": 1, "portion": "0.5"},
        "selectedGPUGroups": ["g"],
        "receivedResourceType": "Fraction",
        "resourceClaimAllocations": [{"name": "c"}],
    },
    "Topology": {"levels": [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack"}]},
    "SchedulingShard": {
        "placementStrategy": {"gpu": "spread"},
        "goMemLimit": "1Gi",
        "plugins": {"elastic": {"arguments": {"a": "b"}}},
        "actions": {"reclaim": {"priority": 1}},
        "queueDepthPerAction": {"reclaim": 1},
        "scenarioSearchBudgets": {"maxActionSearchDuration": {"default": "1m"}},
        "usageDBConfig": {"clientType": "fake", "usageParams": {"windowType": "cron"}},
    },
    "Config": {
        "global": {"replicaCount": 2, "vpa": {"enabled": True}},
        "binder": {"plugins": {"x": {}}, "service": {"image": {"pullPolicy": "Always"}}},
        "prometheus": {"storageSize": "1Gi", "serviceMonitor": {"interval": "1m"}},
        "queueController": {"queueLabelToMetricLabel": "a=b"},
    },
}

_DEFAULTS: dict[str, Callable[[Any], Any]] = {
    "SchedulingShard": defaulted_shard,
    "Config": defaulted_config,
}


@st.composite
def _damaged(draw: st.DrawFn) -> tuple[Kind[Any], str]:
    """An object of ours in which one place holds something else."""
    kind = draw(st.sampled_from(OURS))
    whole: Any = json.loads(json.dumps({"metadata": {"name": "x"}, "spec": _SEEDS[kind.kind]}))
    holder, keys = whole, list(whole)
    while True:
        key = draw(st.sampled_from(keys))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            holder[key] = draw(_values)
            return kind, json.dumps(whole)
        holder, keys = inner, list(range(len(inner))) if isinstance(inner, list) else list(inner)


@given(st.sampled_from(_KINDS), _values)
def test_any_json_is_an_object_or_unreadable(kind: Kind[Any], value: Any) -> None:
    outcome = _outcome(decode, kind, json.dumps(value))
    assert not isinstance(outcome, Unreadable) or outcome.path.startswith("$")


@given(st.sampled_from(_KINDS), st.binary(max_size=60))
def test_any_bytes_are_an_object_or_unreadable(kind: Kind[Any], data: bytes) -> None:
    for read in (decode, decode_page, decode_event):
        outcome = _outcome(read, kind, data)
        assert not isinstance(outcome, Unreadable) or outcome.path.startswith("$")


@given(_damaged())
def test_a_damaged_object_is_decoded_and_validated_or_unreadable(
    damaged: tuple[Kind[Any], str],
) -> None:
    kind, text = damaged
    obj = _outcome(decode, kind, text)
    if isinstance(obj, Unreadable):
        assert obj.path.startswith("$")
        return
    assert all(problem.path and problem.fix for problem in problems(obj))
    assert decode(kind.struct, encode(kind, obj)) == obj


@pytest.mark.row(86)
@given(st.lists(_damaged(), max_size=5))
def test_a_page_holds_exactly_the_objects_that_can_be_decoded_alone(
    many: list[tuple[Kind[Any], str]],
) -> None:
    texts = [text for kind, text in many if kind.kind == "PodGroup"]
    outcomes = [_outcome(decode, kinds.POD_GROUP, text) for text in texts]
    alone = [each for each in outcomes if not isinstance(each, Unreadable)]
    page = decode_page(PodGroup, f'{{"items":[{",".join(texts)}]}}')
    assert page.objects == alone
    assert len(page.objects) + len(page.rejects) == len(texts)


@given(_values)
def test_nulls_read_as_absent(value: Any) -> None:
    text = json.dumps({"metadata": {"name": "p", "labels": None}, "spec": {"volumes": None}})
    assert decode(Pod, text) == decode(Pod, '{"metadata":{"name":"p"},"spec":{}}')
    with_null = json.dumps({"metadata": {"name": "p"}, "status": value, "spec": None})
    without = json.dumps({"metadata": {"name": "p"}, "status": value})
    first, second = (_outcome(decode, kinds.POD, each) for each in (with_null, without))
    assert str(first) == str(second) if isinstance(first, Unreadable) else first == second


@settings(max_examples=50)
@given(_damaged())
def test_defaulting_is_idempotent(damaged: tuple[Kind[Any], str]) -> None:
    kind, text = damaged
    defaulted, obj = _DEFAULTS.get(kind.kind), _outcome(decode, kind, text)
    if defaulted is not None and not isinstance(obj, Unreadable):
        once = defaulted(obj)
        assert builtins(defaulted(once)) == builtins(once)


def _outcome(read: Callable[[type[Any], Any], object], kind: Kind[Any], data: str | bytes) -> Any:
    """What was read, or the refusal."""
    try:
        return read(kind.struct, data)
    except Unreadable as error:
        return error
