"""A grouper in a world of dictionaries: workloads as YAML in, the groups of their pods out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import yaml
from tests.support.play_grouper import GrouperCluster

from muster.services.podgrouper.groupers.rule_book import rule_book
from muster.services.podgrouper.groupers.workload import GroupingSettings

CLASSES = ("train", "build", "inference")


def grouped(objects: Sequence[Any], rules: str = "rules: []") -> GrouperCluster:
    """The world after the grouper has seen these objects, owners first."""
    book = rule_book(rules)
    assert not book.problems, book.problems
    world = GrouperCluster(replace(GroupingSettings(), rules=book.rules), CLASSES, {"plurals": {}})
    for thing in objects:
        world.create(owned(thing), {})
    return world


def documents(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one]


def owned(thing: Any) -> Any:
    """With the `owner: Kind/name` and `apiVersion` shorthand of tests written out."""
    owner = thing.pop("owner", None)
    if owner:
        api_version, kind, name = owner
        uid = f"<uid:{kind}/{name}>"
        reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        thing["metadata"]["ownerReferences"] = [reference]
    return thing


def pod(name: str, owner: tuple[str, str, str] | None = None, **labels: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": "kai-scheduler"},
    }
    return body if owner is None else {**body, "owner": owner}
