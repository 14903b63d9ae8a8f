"""Custom kinds, grouped by the rules of a user."""

from typing import Any

import pytest
from tests.support.grouping import grouped, pod

from muster.services.podgrouper.groupers.rule_book import rule_book

RUN = ("example.com/v1", "TrainingRun", "bert")
NAME = "pg-bert-<uid:TrainingRun/bert>"

GANG = """
rules:
  - group: example.com
    kind: TrainingRun
    minMember: {cel: object.spec.workers + 1}
    queue: {path: .spec.team}
    priorityClass: {cel: "object.spec.?urgent.orValue(false) ? 'build' : 'train'"}
    topology: {name: racks, required: example.com/rack}
"""
PARTS = """
rules:
  - group: example.com
    kind: TrainingRun
    subGroups:
      - name: leader
        pods: {labels: {role: leader}}
      - name: workers
        minMember: {path: .spec.workers}
        pods: {cel: 'pod.metadata.name.startsWith("bert-worker")'}
        topology: {name: racks, preferred: example.com/rack}
"""


def run(version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "TrainingRun",
        "metadata": {"name": "bert"},
        "spec": spec,
    }


def test_a_rule_sets_min_member_queue_priority_class_and_topology() -> None:
    world = grouped([run(workers=3, team="red", urgent=True), pod("bert-0", RUN)], GANG)
    (group,) = world.outcome()["podgroups"]
    assert group["name"] == NAME
    assert group["spec"] == {
        "minMember": 4,
        "queue": "red",
        "priorityClassName": "build",
        "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": "example.com/rack"},
    }


def test_fields_that_a_rule_does_not_find_have_their_defaults() -> None:
    world = grouped([run(workers=3), pod("bert-0", RUN, **{"kai.scheduler/queue": "blue"})], GANG)
    (group,) = world.outcome()["podgroups"]
    assert group["spec"]["queue"] == "blue"
    assert group["spec"]["priorityClassName"] == "train"


def test_pods_find_their_sub_group_by_label_or_condition() -> None:
    pods = [pod("bert-leader", RUN, role="leader"), pod("bert-worker-0", RUN)]
    outcome = grouped([run(workers=3), *pods], PARTS).outcome()
    (group,) = outcome["podgroups"]
    assert group["spec"]["minSubGroup"] == 2
    assert group["spec"]["subGroups"] == [
        {"name": "leader", "minMember": 1},
        {
            "name": "workers",
            "minMember": 3,
            "topologyConstraint": {
                "topology": "racks",
                "preferredTopologyLevel": "example.com/rack",
            },
        },
    ]
    parts = {name: found["labels"] for name, found in outcome["pods"].items()}
    assert parts == {
        "bert-leader": {"kai.scheduler/subgroup-name": "leader"},
        "bert-worker-0": {"kai.scheduler/subgroup-name": "workers"},
    }


@pytest.mark.parametrize(
    ("spec", "rules", "words"),
    [
        ({}, GANG, "minMember: `object.spec.workers + 1` has no value here: no such key: workers"),
        ({"workers": -1}, GANG, "gives 0 for <ns>/bert; a gang needs a whole number of at least 1"),
        ({"workers": 1, "team": 7}, GANG, "queue gives 7 for <ns>/bert, no text"),
        ({"workers": 1}, PARTS, "none of the sub-groups of the rule for TrainingRun (leader, work"),
        ({"workers": "many"}, PARTS, "minMember gives 'many' for <ns>/bert"),
    ],
)
def test_a_rule_that_fails_for_a_workload_is_an_event_on_its_pods(
    spec: dict[str, Any], rules: str, words: str
) -> None:
    outcome = grouped([run(**spec), pod("stranger", RUN)], rules).outcome()
    assert outcome["podgroups"] == []
    (event,) = outcome["events"]
    assert words in event["message"]


def test_a_rule_for_one_version_beats_a_rule_for_all() -> None:
    rules = """
rules:
  - {group: example.com, version: v1, kind: TrainingRun, minMember: 5}
  - {group: example.com, kind: TrainingRun, minMember: 7}
"""
    sizes = {}
    for version in ("v1", "v2"):
        owner = (f"example.com/{version}", "TrainingRun", "bert")
        (group,) = grouped([run(version), pod("p", owner)], rules).outcome()["podgroups"]
        sizes[version] = group["spec"]["minMember"]
    assert sizes == {"v1": 5, "v2": 7}


def test_rules_do_not_apply_to_built_in_kinds() -> None:
    rules = "rules: [{group: batch, kind: Job, minMember: 9}]"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}
    world = grouped([job, pod("train-0", ("batch/v1", "Job", "train"))], rules)
    (group,) = world.outcome()["podgroups"]
    assert group["spec"]["minMember"] == 1


_MISTAKES = [
    ("just text", "rules: is not a list"),
    ("rules: [", ": is not YAML"),
    ("rules: [7]", "rules[0]: is not a map"),
    ("rules: [{group: a}]", "rules[0].kind: is missing (write the kind)"),
    ("rules: [{kind: 7}]", "rules[0].kind: 7 is not a name"),
    ("rules: [{kind: A, min: 1}]", "rules[0].min: is not a field (known are group, kind, minM"),
    (
        "rules: [{kind: A, minMember: many}]",
        "rules[0].minMember: 'many' is of no known form (write a nu",
    ),
    ("rules: [{kind: A, minMember: {path: 'a|b'}}]", "rules[0].minMember.path: 'a|b' is not a pa"),
    ("rules: [{kind: A, minMember: {cel: 'x.y'}}]", "rules[0].minMember.cel: does not compile"),
    ("rules: [{kind: A, minMember: {cel: 3}}]", "rules[0].minMember.cel: 3 is not an expression"),
    ("rules: [{kind: A, topology: {name: t}}]", "rules[0].topology: names no level"),
    ("rules: [{kind: A, subGroups: {}}]", "rules[0].subGroups: is not a list"),
    ("rules: [{kind: A, subGroups: [{}]}]", "rules[0].subGroups[0].name: is missing"),
    (
        "rules: [{kind: A, subGroups: [{name: a, pods: {labels: [x]}}]}]",
        "rules[0].subGroups[0].pods.labels: is not a map of texts",
    ),
    (
        "rules: [{kind: A, subGroups: [{name: a}, {name: a}]}]",
        "rules[0].subGroups: two have the same name",
    ),
    (
        "rules: [{kind: A, minMember: 1, subGroups: [{name: a}]}]",
        "rules[0].minMember: stands beside subGroups",
    ),
]


@pytest.mark.parametrize(("text", "words"), _MISTAKES)
def test_a_bad_rule_is_a_problem_with_its_field_and_the_fix(text: str, words: str) -> None:
    book = rule_book(text)
    assert book.rules == ()
    (problem,) = book.problems
    assert words in str(problem)
    assert problem.fix


def test_one_bad_rule_leaves_the_others_in_force() -> None:
    book = rule_book("rules: [{kind: A}, {kind: B, minMember: x}, {kind: A}, {kind: C}]")
    assert [rule.kind for rule in book.rules] == ["A", "C"]
    assert [problem.path for problem in book.problems] == ["rules[1].minMember", "rules[2]"]
