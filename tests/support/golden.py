"""Golden pairs of the pod grouper: a workload and its pods, and the groups that come of them.

objects: owners first; `owner: Kind/name` in place of an owner reference
pods:    name -> {owner, labels, annotations}
groups:  name -> spec; `uid(Kind/name)` stands for an object's uid
members: pod -> its group, and `group/part` where it has a sub-group
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.support.grouping import grouped

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "podgrouper"
_BUILT_IN = ("v1", "apps/v1", "batch/v1")


@dataclass(frozen=True, slots=True)
class Golden:
    """One pair."""

    name: str
    objects: list[dict[str, Any]]
    pods: Mapping[str, Mapping[str, Any]]
    groups: Mapping[str, Any]
    members: Mapping[str, str]

    def things(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Every object to create in order, pods last, each with its owner as `Kind/name`."""
        for written in copy.deepcopy(self.objects):
            owner = written.pop("owner", "")
            yield written, owner
        for name, given in self.pods.items():
            yield _pod(name, given), given.get("owner", "")

    def custom_kinds(self) -> set[tuple[str, str]]:
        kinds = {(thing["apiVersion"], thing["kind"]) for thing in self.objects}
        return {one for one in kinds if one[0] not in _BUILT_IN}

    def is_custom(self) -> bool:
        """Whether an API server must be told of its kinds first."""
        return bool(self.custom_kinds())


def goldens() -> list[Golden]:
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def play(things: Iterable[tuple[dict[str, Any], str]]) -> dict[str, Any]:
    """What a grouper in a world of dictionaries makes of objects and their owners."""
    made: dict[str, dict[str, Any]] = {}
    owned = []
    for thing, owner in things:
        made[f"{thing['kind']}/{thing['metadata']['name']}"] = thing
        if owner:
            kind, _, name = owner.partition("/")
            thing["owner"] = (made[owner]["apiVersion"], kind, name)
        owned.append(thing)
    return grouped(owned).outcome()


def played(golden: Golden) -> tuple[dict[str, Any], dict[str, str]]:
    """Groups and members of a pair."""
    outcome = play(golden.things())
    assert outcome["events"] == []
    groups = {_plain(one["name"]): one["spec"] for one in outcome["podgroups"]}
    members = {}
    for name, changed in outcome["pods"].items():
        part = changed.get("labels", {}).get("kai.scheduler/subgroup-name", "")
        group = _plain(changed["annotations"]["pod-group-name"])
        members[name] = f"{group}/{part}" if part else group
    return groups, members


def _plain(text: str) -> str:
    return text.replace("<uid:", "uid(").replace(">", ")")


def _pod(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(given.get("labels") or {})}
    if given.get("annotations"):
        metadata["annotations"] = dict(given["annotations"])
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "image": "work"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _read(path: Path) -> Golden:
    found = yaml.safe_load(path.read_text())
    return Golden(path.stem, found["objects"], found["pods"], found["groups"], found["members"])
