"""Which pods are grouped, by which owner, and which fields of a live group stay."""

from typing import Any

import pytest
from tests.support.grouping import grouped, pod

from muster.services.podgrouper.decide import mistaken_label, unknown_class, unread_owner
from muster.services.podgrouper.groupers.group import Group, GroupingError
from muster.services.podgrouper.groupers.workload import GroupingSettings, ObjectRef
from muster.services.podgrouper.owners import OwnerForbidden, OwnerMissing, owner_chain

_SKIP = {"kai.scheduler/skip-podgrouper": "true"}


def widget(name: str = "w", owner: Any = None, **annotations: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {},
    }
    return body if owner is None else {**body, "owner": owner}


_OF_WIDGET = ("example.com/v1", "Widget", "w")


@pytest.mark.row(83)
def test_a_pod_or_an_owner_may_opt_out_of_grouping() -> None:
    opted_out = pod("a")
    opted_out["metadata"]["annotations"] = _SKIP
    assert grouped([opted_out]).outcome()["podgroups"] == []
    assert grouped([widget(**_SKIP), pod("a", _OF_WIDGET)]).outcome()["podgroups"] == []


@pytest.mark.row(83)
def test_a_pod_without_owner_joins_the_pod_group_of_its_annotation() -> None:
    joined = pod("a")
    joined["metadata"]["annotations"] = {"pod-group-name": "by-hand"}
    outcome = grouped([joined]).outcome()
    assert outcome["podgroups"] == []
    assert outcome["pods"] == {"a": {}}
    # One that is owned must also opt out, or its owner's kind decides.
    owned = pod("b", _OF_WIDGET)
    owned["metadata"]["annotations"] = {"pod-group-name": "by-hand"}
    (group,) = grouped([widget(), owned]).outcome()["podgroups"]
    assert group["name"] == "pg-w-<uid:Widget/w>"


def test_pods_of_other_schedulers_are_not_grouped() -> None:
    other = pod("a")
    other["spec"]["schedulerName"] = "default-scheduler"
    assert grouped([other]).outcome()["podgroups"] == []


def test_fields_that_users_set_on_a_pod_group_stay_except_its_minimum() -> None:
    world = grouped([widget(), pod("a", _OF_WIDGET, **{"kai.scheduler/queue": "red"})])
    name = "pg-w-<uid:Widget/w>"
    by_hand = {
        "queue": "blue",
        "markUnschedulable": False,
        "schedulingBackoff": 1,
        "topologyConstraint": {"topology": "racks"},
        "minMember": 7,
    }
    world.patch("PodGroup", name, {"spec": by_hand})
    world.pod_event("a")
    (group,) = world.outcome()["podgroups"]
    # The minimum is the workload's; the rest belongs to whoever set it.
    assert group["spec"] == {**by_hand, "minMember": 1, "priorityClassName": "train"}


def test_the_node_pool_label_of_a_pod_is_copied_to_its_pod_group() -> None:
    in_pool = pod("a", _OF_WIDGET, **{"kai.scheduler/node-pool": "fast"})
    (group,) = grouped([widget(), in_pool]).outcome()["podgroups"]
    assert group["labels"]["kai.scheduler/node-pool"] == "fast"


def thing(name: str, *owners: str) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "Thing", "name": owner, "uid": f"u-{owner}"}
        for owner in owners
    ]
    metadata = {"name": name, "namespace": "n", "uid": f"u-{name}", "ownerReferences": references}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


def walk(start: dict[str, Any], *known: dict[str, Any], forbidden: str = "") -> list[str]:
    objects = {one["metadata"]["name"]: one for one in known}
    steps = owner_chain(start)
    try:
        ref = next(steps)
        while True:
            ref = steps.send(OwnerForbidden() if ref.name == forbidden else objects.get(ref.name))
    except StopIteration as end:
        return [one["metadata"]["name"] for one in end.value]


@pytest.mark.row(83)
def test_the_top_owner_is_found_through_any_chain() -> None:
    chain = [thing(f"t{number}", f"t{number + 1}") for number in range(9)]
    assert walk(thing("p", "t0"), *chain, thing("t9")) == [f"t{number}" for number in range(10)]
    assert walk(thing("p")) == []


def test_a_forbidden_owner_ends_the_owner_chain() -> None:
    assert walk(thing("p", "a"), thing("a", "b"), thing("b"), forbidden="b") == ["a"]


def test_a_missing_replaced_or_ambiguous_owner_is_an_error() -> None:
    with pytest.raises(OwnerMissing, match="not found"):
        walk(thing("p", "a"))
    other = thing("a")
    other["metadata"]["uid"] = "another"
    with pytest.raises(OwnerMissing, match="has another uid"):
        walk(thing("p", "a"), other)
    with pytest.raises(GroupingError, match="with multiple owners"):
        walk(thing("p", "a"), thing("a", "b", "c"))


def _unread(pod_labels: dict[str, str], queue: str = "default-queue") -> str:
    plain = {"metadata": {"name": "driver", "labels": pod_labels}}
    group = Group("pg", "team", {}, {}, {}, queue, "train")
    owner = ObjectRef("sparkoperator.k8s.io/v1beta2", "SparkApplication", "team", "pi")
    return unread_owner(group, plain, owner, GroupingSettings())


def test_a_pod_that_falls_to_the_default_queue_because_its_owner_is_not_readable_is_told() -> None:
    said = _unread({})
    assert said.startswith(
        "it is charged to queue default-queue: the pod grouper may not read SparkApplication pi"
    )
    assert "write the label kai.scheduler/queue on the pod too" in said


@pytest.mark.parametrize(
    ("key", "is_told"),
    [
        ("kai.scheduler/que", True),
        ("kai.scheduler/queues", True),
        ("kai-scheduler/queue", True),
        ("runai/queue", False),
        ("kai.scheduler/priority", False),
        ("kai.scheduler/queue", False),
        ("project", False),
        ("app", False),
    ],
)
def test_who_misspells_the_label_of_the_queue_is_told_which_is_read(
    key: str, is_told: bool
) -> None:
    for of_group, of_pod in (({key: "a"}, {}), ({}, {key: "a"})):
        group = Group("pg", "team", {}, of_group, {}, "default-queue", "train")
        pod = {"metadata": {"name": "p", "labels": of_pod}}
        said = mistaken_label(group, pod, GroupingSettings())
        assert said.startswith("it is charged to queue default-queue: ") == is_told
        assert (f'label "{key}"; did you mean kai.scheduler/queue?' in said) == is_told
    named = Group("pg", "team", {}, {key: "a"}, {}, "team-a", "train")
    assert mistaken_label(named, {"metadata": {"name": "p"}}, GroupingSettings()) == ""


def test_a_pod_whose_queue_somebody_named_is_told_nothing_of_its_owner() -> None:
    assert _unread({"kai.scheduler/queue": "default-queue"}) == ""
    assert _unread({}, queue="team-a") == ""


@pytest.mark.parametrize(
    ("of_group", "of_pod", "is_told"),
    [
        ({"priorityClassName": "hgih"}, {}, True),
        ({}, {"priorityClassName": "hgih"}, True),
        ({"priorityClassName": "build"}, {}, False),
        ({"priorityClassName": "train"}, {}, False),
        ({"priorityClassName": ""}, {}, False),
        ({}, {}, False),
    ],
)
def test_who_names_a_priority_class_that_is_not_there_is_told(
    of_group: dict[str, str], of_pod: dict[str, str], is_told: bool
) -> None:
    group = Group("pg", "team", {}, of_group, {}, "team-a", "train")
    pod = {"metadata": {"name": "p", "labels": of_pod}}
    said = unknown_class(group, pod, {"train", "build"}.__contains__)
    assert said == (
        'it has the priority class train: the label "priorityClassName" names hgih, and there is '
        "no such class; write one that `kubectl get priorityclasses` lists"
        if is_told
        else ""
    )
