"""Patches leave the original alone; what cannot be applied is refused."""

import copy
from typing import Any

import pytest

from muster.sim.apiserver.layouts import builtin
from muster.sim.apiserver.patch import json_patch, merge_patch, strategic_merge_patch
from muster.sim.apiserver.refusal import ApiRefusal

_POD = builtin("io.k8s.api.core.v1.Pod")


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_a_merge_patch_is_applied_without_changing_its_target(
    target: Any, patch: Any, wanted: Any
) -> None:
    before = copy.deepcopy(target)
    assert merge_patch(target, patch) == wanted
    assert target == before


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "remove", "path": "/a/1"}, {"a": [1]}),
        ({"op": "replace", "path": "/a", "value": {}}, {"a": {}}),
        ({"op": "add", "path": "/x~1y~0z", "value": 1}, {"a": [1, 2], "x/y~z": 1}),
        ({"op": "copy", "from": "/a/0", "path": "/b"}, {"a": [1, 2], "b": 1}),
        ({"op": "move", "from": "/a", "path": "/b"}, {"b": [1, 2]}),
    ],
)
def test_a_json_patch_operation_is_applied_without_changing_its_target(
    operation: Any, wanted: Any
) -> None:
    target = {"a": [1, 2]}
    assert json_patch(target, [operation]) == wanted
    assert target == {"a": [1, 2]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "add", "path": "/nothing/below", "value": 1},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "test", "path": "/a/0", "value": 9},
        {"op": "dance", "path": "/a"},
        {"op": "copy", "from": "/nothing", "path": "/b"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_refused(operation: Any) -> None:
    with pytest.raises(ApiRefusal) as refused:
        json_patch({"a": [1, 2]}, [operation])
    assert refused.value.code == 422


def test_a_strategic_patch_retains_items_that_it_does_not_name() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}]}}
    assert strategic_merge_patch(pod, patch, _POD) == {
        "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}
    }


def test_a_strategic_patch_without_the_merge_key_is_refused() -> None:
    with pytest.raises(ApiRefusal, match="merge key"):
        strategic_merge_patch(
            {"spec": {"containers": []}}, {"spec": {"containers": [{"image": "x"}]}}, _POD
        )
