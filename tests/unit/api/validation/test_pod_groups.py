"""Each rule about pod groups accepts and refuses, with KAI's messages."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.podgroup import PodGroup
from muster.api.topology import Topology
from muster.api.validation.pod_groups import pod_group_problems
from muster.api.validation.problems import Severity
from muster.services.admission.review import Review
from muster.services.admission.validate_pod_groups import validate_pod_group

pytestmark = pytest.mark.row(86)

Json = dict[str, Any]


def _group(**spec: Any) -> PodGroup:
    return from_builtins(PodGroup, {"metadata": {"name": "g"}, "spec": spec})


def _part(name: str, **more: Any) -> Json:
    return {"name": name, **more}


_LEAF = {"minMember": 1}
_WRONG: list[tuple[Json, str, str, Severity]] = [
    (
        {"minMember": 1, "minSubGroup": 1},
        "spec",
        "minMember and minSubGroup are mutually exclusive: set only one of them",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", **_LEAF), _part("a", **_LEAF)]},
        "spec.subGroups[1].name",
        "duplicate subgroup name a",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", parent="ghost", **_LEAF)]},
        "spec.subGroups[0].parent",
        "parent ghost of a was not found",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", parent="a", **_LEAF)]},
        "spec.subGroups",
        "cycle detected in subgroups: spec.subGroups[].parent: a -> a; "
        "give one of them another parent, or none",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", parent="b"), _part("b", parent="a")]},
        "spec.subGroups",
        "cycle detected in subgroups: spec.subGroups[].parent: a -> b -> a; "
        "give one of them another parent, or none",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", minMember=1, minSubGroup=1)]},
        "spec.subGroups[0]",
        'subgroup "a": minMember and minSubGroup are mutually exclusive',
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a")]},
        "spec.subGroups[0].minMember",
        "subgroup a: minMember is required",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", minMember=1), _part("b", parent="a", minMember=1)]},
        "spec.subGroups[0].minMember",
        'subgroup "a": minMember cannot be set on a mid-level SubGroup (has child SubGroups); '
        "use minSubGroup instead",
        Severity.ERROR,
    ),
    (
        {"subGroups": [_part("a", minSubGroup=2), _part("b", parent="a", minMember=1)]},
        "spec.subGroups[0].minSubGroup",
        'subgroup "a": minSubGroup (2) exceeds the number of direct child SubGroups (1)',
        Severity.WARNING,
    ),
    (
        {"minSubGroup": 2, "subGroups": [_part("a", minMember=1)]},
        "spec.minSubGroup",
        "minSubGroup (2) exceeds the number of direct child SubGroups (1)",
        Severity.WARNING,
    ),
    (
        {"subGroups": [_part("a" * 64, minMember=1)]},
        "spec.subGroups[0].name",
        f"'{'a' * 64}' cannot be the value of the label that pods join by",
        Severity.WARNING,
    ),
    (
        {"schedulingBackoff": 3},
        "spec.schedulingBackoff",
        "3 means the same as 1",
        Severity.WARNING,
    ),
    (
        {"topologyConstraint": {"requiredTopologyLevel": "rack"}},
        "spec.topologyConstraint.topology",
        "a level without a topology constrains nothing",
        Severity.WARNING,
    ),
    (
        {"topologyConstraint": {"topology": "dc"}},
        "spec.topologyConstraint",
        "a topology without a level constrains nothing",
        Severity.WARNING,
    ),
]


@pytest.mark.parametrize(("spec", "path", "message", "severity"), _WRONG)
def test_a_pod_group_that_breaks_a_rule_has_one_problem_at_the_field(
    spec: Json, path: str, message: str, severity: Severity
) -> None:
    (problem,) = pod_group_problems(_group(**spec))
    assert (problem.path, problem.message, problem.severity) == (path, message, severity)
    assert problem.fix


def test_an_unknown_disruption_mode_is_a_warning_with_the_known_ones() -> None:
    def thing(mode: str) -> dict[str, Any]:
        metadata = {"name": "g", "annotations": {"kai.scheduler/disruption-mode": mode}}
        return {"metadata": metadata, "spec": {"queue": "q"}}

    (problem,) = pod_group_problems(from_builtins(PodGroup, thing("pods")))
    assert problem.path == "metadata.annotations[kai.scheduler/disruption-mode]"
    assert (problem.severity, problem.fix) == (Severity.WARNING, "write one of Pod, PodGroup")
    for mode, told in (("pods", 1), ("PodGroup", 0)):
        answer = validate_pod_group(Review("CREATE", thing(mode), None))
        assert answer.allowed
        assert len(answer.warnings) == told


def test_a_leaf_sub_group_with_min_sub_group_has_two_problems() -> None:
    found = pod_group_problems(_group(subGroups=[_part("a", minSubGroup=1)]))
    assert [problem.message for problem in found] == [
        'subgroup "a": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)',
        "subgroup a: minMember is required",
    ]


def test_min_member_on_a_stored_inner_sub_group_is_only_a_warning() -> None:
    group = _group(subGroups=[_part("a", minMember=1), _part("b", parent="a", minMember=1)])
    (problem,) = pod_group_problems(group, is_update=True)
    assert problem.severity is Severity.WARNING


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"minMember": 0, "schedulingBackoff": 1},
        {
            "minSubGroup": 1,
            "subGroups": [
                _part("top", minSubGroup=2),
                _part("a", parent="top", minMember=0),
                _part("b", parent="top", minMember=4),
            ],
        },
        {"topologyConstraint": {"topology": "dc", "preferredTopologyLevel": "rack"}},
    ],
)
def test_a_pod_group_within_the_rules_has_no_problem(spec: Json) -> None:
    assert list(pod_group_problems(_group(**spec))) == []


_DC = from_builtins(
    Topology,
    {"spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "r"}]}},
)
