"""Absurd objects are judged and read in no time, and refused by field."""

import json
from typing import Any

import msgspec
import pytest

from muster.api import cel
from muster.api.bounds import NUMA_ZONES_MAX, SUB_GROUP_LEVELS_MAX, SUB_GROUPS_MAX
from muster.api.codec import Changed, Unreadable, decode, decode_event, decode_page
from muster.api.core import Pod
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.api.topology import Topology, TopologyLevel, TopologySpec
from muster.api.validation.pod_groups import is_tree, subgroup_problems
from muster.api.validation.topologies import topology_problems

Plain = dict[str, Any]
pytestmark = pytest.mark.timeout(20)


def chain(levels: int) -> tuple[SubGroup, ...]:
    return tuple(
        SubGroup(name=f"s{at}", parent=f"s{at - 1}" if at else None, min_member=None)
        for at in range(levels)
    )


def group(parts: tuple[SubGroup, ...]) -> PodGroup:
    return PodGroup(spec=PodGroupSpec(sub_groups=parts))


def test_sub_groups_deeper_than_the_limit_are_refused() -> None:
    deepest, deeper = chain(SUB_GROUP_LEVELS_MAX), chain(SUB_GROUP_LEVELS_MAX + 1)
    assert is_tree(deepest)
    assert not is_tree(deeper)
    said = [problem.message for problem in subgroup_problems(group(deepest))]
    assert not any("levels deep" in message for message in said)
    (problem,) = subgroup_problems(group(deeper))
    assert problem.message == (
        "spec.subGroups[64].parent: subgroup s64 is more than 64 levels deep; "
        "name a parent further up"
    )


@pytest.mark.parametrize("levels", [SUB_GROUPS_MAX, 100_000])
def test_sub_groups_beyond_the_limit_of_count_or_depth_are_refused(levels: int) -> None:
    (problem,) = subgroup_problems(group(chain(levels)))
    assert problem.path in ("spec.subGroups", "spec.subGroups[64].parent")
    flat = tuple(SubGroup(name=f"s{at}", min_member=1) for at in range(levels))
    problems = list(subgroup_problems(group(flat)))
    assert bool(problems) is (levels > SUB_GROUPS_MAX)
    assert is_tree(flat) is (levels <= SUB_GROUPS_MAX)


def test_a_topology_of_many_levels_is_refused_by_its_count() -> None:
    levels = tuple(TopologyLevel(node_label=f"level-{at}") for at in range(50_000))
    (problem,) = topology_problems(Topology(spec=TopologySpec(levels=levels)))
    assert str(problem) == (
        "spec.levels: 50000 levels are more than 16 (keep those that pods are placed by)"
    )


def test_a_node_topology_with_too_many_zones_is_rejected_by_name() -> None:
    def zones(count: int) -> dict[str, object]:
        return {"metadata": {"name": f"of-{count}"}, "zones": [{"name": "z"}] * count}

    listed = {"items": [zones(NUMA_ZONES_MAX), zones(NUMA_ZONES_MAX + 1)]}
    page = decode_page(NodeResourceTopology, json.dumps(listed))
    assert [one.metadata.name for one in page.objects] == ["of-64"]
    (reject,) = page.rejects
    assert str(reject) == "of-65: $.zones: Expected `array` of length <= 64"


def nested(levels: int) -> bytes:
    """Lists in lists, and texts with brackets that are none."""
    return b'["]\\"[",' * levels + b"1" + b"]" * levels


@pytest.mark.parametrize("levels", [1000, 10_000, 200_000])
def test_too_deeply_nested_fields_are_left_out_and_the_rest_is_decoded(levels: int) -> None:
    deep = b'{"metadata":{"name":"deep"},"extra":' + nested(levels) + b',"after":{"a":[1]}}'
    page = decode_page(Plain, b'{"items":[' + deep + b',{"metadata":{"name":"a"}}]}')
    assert [one["metadata"]["name"] for one in page.objects] == ["deep", "a"]
    assert page.rejects == []
    assert page.objects[0]["after"] == {"a": [1]}
    assert page.objects[0]["extra"][0] == ']"['
    event = decode_event(Pod, b'{"type":"ADDED","object":' + deep + b"}")
    assert isinstance(event, Changed)
    assert event.object.metadata.name == "deep"
    with pytest.raises(Unreadable):
        decode(Plain, b"[" * levels)


def test_nested_loops_of_a_cel_expression_cost_too_much() -> None:
    ten = json.dumps(list(range(10)))
    text = "true"
    for name in "abcdefgh":
        text = f"{ten}.all({name}, {text})"
    with pytest.raises(cel.TooCostly, match="use fewer loops in loops"):
        cel.compiled(text, ("object",)).evaluate({"object": {}})


def test_numbers_beyond_a_float_are_unreadable() -> None:
    class Amount(msgspec.Struct):
        quota: float = 0.0

    for text in ("1e400", "9" * 400, "NaN", "Infinity"):
        with pytest.raises(Unreadable):
            decode(Amount, f'{{"quota": {text}}}')
