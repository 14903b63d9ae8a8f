"""Properties of schemas, RBAC rules and node admission, for any input."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.sim.apiserver.pipeline import Attributes, UserInfo
from muster.sim.apiserver.rbac import PolicyRule, escalation
from muster.sim.apiserver.schema import structural
from muster.sim.kubelet.node_admission import NodeAdmission
from muster.sim.workloads.jobs import indexes_from, indexes_text

_NAMES = st.sampled_from(["a", "b", "c"])
_LEAVES = st.one_of(
    st.just({"type": "string", "default": "x"}),
    st.just({"type": "string", "maxLength": 2}),
    st.just({"type": "integer", "minimum": 0}),
    st.just({"type": "boolean", "nullable": True}),
    st.just({"x-kubernetes-int-or-string": True}),
    st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
)
SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(_NAMES, inner, max_size=3).map(
            lambda parts: {"type": "object", "properties": parts, "default": {}}
        ),
        inner.map(lambda part: {"type": "array", "items": part}),
        inner.map(lambda part: {"type": "object", "additionalProperties": part}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


def _schema(part: dict[str, Any]) -> Any:
    return structural({"type": "object", "properties": {"spec": part}})


@given(SCHEMAS, VALUES)
def test_pruning_and_defaulting_are_idempotent(part: Any, value: Any) -> None:
    schema = _schema(part)
    once = {"spec": copy.deepcopy(value)}
    schema.prune(once)
    schema.default(once)
    twice = copy.deepcopy(once)
    assert schema.prune(twice) == []
    schema.default(twice)
    assert twice == once


@given(SCHEMAS, VALUES)
def test_any_value_is_validated_and_an_unchanged_one_is_never_refused(
    part: Any, value: Any
) -> None:
    schema = _schema(part)
    obj = {"spec": value}
    for cause in schema.validate(obj, None):
        assert cause.field
        assert cause.message
    assert schema.validate(obj, copy.deepcopy(obj)) == []


_VERBS = st.lists(st.sampled_from(["get", "list", "delete", "*"]), min_size=1, max_size=2)
_GROUPS = st.lists(st.sampled_from(["", "apps", "*"]), min_size=1, max_size=2)
_RESOURCES = st.lists(st.sampled_from(["pods", "pods/log", "jobs", "*"]), min_size=1, max_size=2)
_OBJECTS = st.lists(st.sampled_from(["x", "y"]), max_size=1)
RULES = st.lists(
    st.builds(
        lambda verbs, groups, resources, names: PolicyRule(
            tuple(verbs), tuple(groups), tuple(resources), tuple(names)
        ),
        _VERBS,
        _GROUPS,
        _RESOURCES,
        _OBJECTS,
    ),
    max_size=4,
)


@given(RULES, RULES)
def test_rules_without_escalation_allow_nothing_beyond_the_held_rules(
    held: list[PolicyRule], given_away: list[PolicyRule]
) -> None:
    if escalation(held, given_away):
        return
    for verb in ("get", "list", "delete", "other"):
        for group in ("", "apps", "other"):
            for resource, below in (("pods", ""), ("pods", "log"), ("jobs", ""), ("other", "")):
                for name in ("", "x", "y"):
                    asked = Attributes(UserInfo("u"), verb, group, "v1", resource, below, "", name)
                    if any(rule.allows(asked) for rule in given_away):
                        assert any(rule.allows(asked) for rule in held)


_PODS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.booleans()), min_size=1, max_size=30
)


@given(_PODS)
def test_node_admission_never_exceeds_the_capacity(steps: list[tuple[int, int, bool]]) -> None:
    room = NodeAdmission({"nvidia.com/gpu": "8", "pods": "4"})
    inside: dict[int, int] = {}
    for number, gpus, enters in steps:
        if not enters:
            room.release(str(number))
            inside.pop(number, None)
        elif number not in inside:
            resources = {"requests": {"nvidia.com/gpu": str(gpus)}}
            spec = {"containers": [{"name": "c", "resources": resources}]}
            if room.admit(str(number), spec) is None:
                inside[number] = gpus
            else:
                assert sum(inside.values()) + gpus > 8 or len(inside) == 4
        assert sum(inside.values()) <= 8
        assert len(inside) <= 4


@given(st.sets(st.integers(0, 60)))
def test_completed_indexes_round_trip(numbers: set[int]) -> None:
    assert indexes_from(indexes_text(numbers)) == numbers
