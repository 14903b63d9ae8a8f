"""Plays recorded grouper cases in a world of dictionaries: no API server, no controller."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.services.podgrouper import decide
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.group import Group, GroupingError
from muster.services.podgrouper.groupers.table import group_of
from muster.services.podgrouper.groupers.workload import (
    GroupingSettings,
    KindDefaults,
    ObjectRef,
    Workload,
)
from muster.services.podgrouper.owners import OwnerForbidden, owner_chain

NAMESPACE = "<ns>"
_UID = re.compile(r"<uid:[^>]*>")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUB_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CLUSTER_SCOPED = {"Node", "PriorityClass", "ClusterWidget", "Namespace"}


class GrouperCluster:
    """The objects of one namespace, and a grouper that is told of every pod event."""

    def __init__(
        self, settings: GroupingSettings, classes: Sequence[str], profile: Mapping[str, Any]
    ) -> None:
        self.settings = settings
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.classes = set(classes)
        self.selector = dict(profile.get("selector") or {})
        self.readable = profile.get("readable")
        self.plurals: dict[tuple[str, str], str] = profile["plurals"]
        self.descriptions = profile.get("kartas") or []
        self.written: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, str]] = []
        self.sentences: list[str] = []
        """What people read of an event: the original's words, and then ours."""

    # What a grouper may read.

    def get(self, ref: ObjectRef) -> Any:
        return self.objects.get((ref.kind, ref.name))

    def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Any]:
        return [
            thing
            for (kind, _), thing in self.objects.items()
            if kind == "Pod" and labels.items() <= fields.labels(thing).items()
        ]

    def pod_groups(self, namespace: str) -> dict[str, Any]:
        return {name: it for (kind, name), it in self.objects.items() if kind == "PodGroup"}

    def has_priority_class(self, name: str) -> bool:
        return name in self.classes or ("PriorityClass", name) in self.objects

    def topology_with(self, node_label: str) -> str:
        found = (
            name
            for (kind, name), thing in self.objects.items()
            if kind == "Topology"
            and any(level["nodeLabel"] == node_label for level in thing["spec"]["levels"])
        )
        return min(found, default="")

    def kartas(self, group: str, version: str, kind: str) -> list[Any]:
        wanted = {
            "run.ai/karta-group": group,
            "run.ai/karta-version": version,
            "run.ai/karta-kind": kind,
        }
        return [one for one in self.descriptions if one["metadata"]["labels"] == wanted]

    # Steps of a case.

    def create(self, thing: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
        thing = _copy(thing)
        kind, name, metadata = thing["kind"], thing["metadata"]["name"], thing["metadata"]
        metadata["uid"] = f"<uid:{kind}/{name}>"
        if kind not in _CLUSTER_SCOPED:
            metadata["namespace"] = NAMESPACE
        metadata.update(stored.get(f"{kind}/{name}") or {})
        self.objects[(kind, name)] = thing
        if kind == "Pod":
            self.written[name] = _copy(metadata)
            self.pod_event(name)

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        thing = self.objects.get((kind, name))
        if thing is None:
            return
        _merge(thing, patch)
        if kind == "Pod":
            self.written[name] = _merged(self.written[name], patch.get("metadata") or {})
            self.pod_event(name)

    def delete(self, kind: str, name: str) -> None:
        self.objects.pop((kind, name), None)

    def bind(self, pod: str, node: str) -> None:
        self.objects[("Pod", pod)]["spec"]["nodeName"] = node
        self.pod_event(pod)

    def pod_event(self, name: str) -> None:
        """The grouper's own patch of a pod is an event of that pod too."""
        for _ in range(3):
            if not self._reconcile(self.objects[("Pod", name)]):
                return

    def _reconcile(self, pod: dict[str, Any]) -> bool:
        """One reconcile; True when the pod was patched."""
        if not decide.is_ours(pod, self.settings) or not self._selected(pod):
            return False
        try:
            owners = self._owners(pod)
            if any(decide.is_skipped(owner) for owner in owners):
                return False
            top = owners[-1] if owners else {"apiVersion": "v1", "kind": "Pod", **pod}
            group = group_of(Workload(pod, top, owners, self, self.settings))
            if group is None:
                return False
            self._apply(group, pod)
        except GroupingError as wrong:
            self._event(pod, str(wrong))
            self.sentences.append(wrong.sentence)
            return False
        patch = decide.pod_patch(group, pod)
        if patch:
            _merge(pod, patch)
        return patch is not None

    def _selected(self, pod: Mapping[str, Any]) -> bool:
        return self.selector.items() <= fields.labels(pod).items()

    def _owners(self, pod: Mapping[str, Any]) -> list[Any]:
        walk = owner_chain(pod)
        try:
            ref = next(walk)
            while True:
                ref = walk.send(self._read(ref))
        except StopIteration as end:
            found: list[Any] = end.value
            return found

    def _read(self, ref: ObjectRef) -> Any:
        group = ref.api_version.rpartition("/")[0]
        plural = self.plurals.get((group, ref.kind), ref.kind.lower() + "s")
        if self.readable is not None and f"{group or 'core'}/{plural}" not in self.readable:
            return OwnerForbidden()
        return self.objects.get((ref.kind, ref.name))

    def _apply(self, group: Group, pod: Mapping[str, Any]) -> None:
        live = self.objects.get(("PodGroup", group.name))
        match decide.group_write(group, pod, live, self.settings):
            case decide.CreateGroup(body):
                _refuse_invalid(body)
                self.objects[("PodGroup", group.name)] = _copy(body)
            case decide.MergeGroup(patch) if live is not None:
                changed = _merged(live, patch)
                _refuse_invalid(changed)
                self.objects[("PodGroup", group.name)] = changed

    def _event(self, pod: Mapping[str, Any], message: str) -> None:
        event = {
            "pod": fields.name_of(pod),
            "type": "Warning",
            "reason": "PodGrouperWarning",
            "message": message,
        }
        if event not in self.events:
            self.events.append(event)

    # What came of it.

    def outcome(self) -> dict[str, Any]:
        groups = sorted(self.pod_groups(NAMESPACE).items())
        return {
            "podgroups": [_shown(group) for _, group in groups],
            "pods": {name: self._changed(name) for name in sorted(self.written)},
            "events": sorted(self.events, key=lambda event: sorted(event.items())),
        }

    def _changed(self, name: str) -> dict[str, Any]:
        thing = self.objects.get(("Pod", name)) or {"metadata": {}}
        found = {}
        for part in ("labels", "annotations"):
            before = self.written[name].get(part) or {}
            now = thing["metadata"].get(part) or {}
            changed = {key: value for key, value in now.items() if before.get(key) != value}
            if changed:
                found[part] = changed
        return found


def play(case: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """What our grouper makes of a case."""
    profile = cluster["profiles"][case["profile"]]
    settings, selector = _settings(profile)
    plurals = {(one["group"], one["kind"]): one["plural"] for one in cluster["foreignKinds"]}
    known = {**profile, "selector": selector, "plurals": plurals}
    world = GrouperCluster(settings, list(cluster["priorityClasses"]), known)
    stored = case.get("stored") or {}
    for thing in case["objects"]:
        world.create(thing, stored)
    for step in case.get("then") or []:
        match step["op"]:
            case "merge-patch":
                world.patch(step["kind"], step["name"], step["patch"])
            case "delete":
                world.delete(step["kind"], step["name"])
            case "create":
                world.create(step["object"], stored)
            case "bind":
                world.bind(step.get("pod") or step["name"], step["node"])
            case other:
                raise AssertionError(f"unknown step {other}")
    return world.outcome()


def expected(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the case expects, in the order of `GrouperCluster.outcome`."""
    wanted = _copy(case["expected"])
    wanted["podgroups"].sort(key=lambda group: str(group["name"]))
    wanted["events"].sort(key=lambda event: sorted(event.items()))
    return wanted


def cases(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if path.name != "cluster.json":
            yield from json.loads(path.read_text())["cases"]


def _settings(profile: Mapping[str, Any]) -> tuple[GroupingSettings, dict[str, str]]:
    flags: dict[str, str] = {}
    words = list(profile["flags"])
    while words:
        key, given, value = words.pop(0).lstrip("-").partition("=")
        flags[key] = value if given else words.pop(0)
    types = (profile.get("configMap") or {}).get("types") or []
    defaults = {
        f"{one['typeName']}.{one['group']}" if one.get("group") else one["typeName"]: KindDefaults(
            one.get("priorityName", ""), one.get("preemptibility", "")
        )
        for one in types
    }
    pairs = [pair for pair in flags.get("pod-label-selector", "").split(",") if pair]
    settings = GroupingSettings(
        scheduler_name=flags.get("scheduler-name", "kai-scheduler"),
        queue_label=flags.get("queue-label-key", "kai.scheduler/queue"),
        node_pool_label=flags.get("nodepool-label-key", "kai.scheduler/node-pool"),
        finds_legacy_groups=flags.get("search-legacy-pg", "true") == "true",
        knative_gangs=flags.get("knative-gang-schedule", "true") == "true",
        kind_defaults=defaults,
    )
    return settings, dict(pair.split("=") for pair in pairs)


def _shown(group: Mapping[str, Any]) -> dict[str, Any]:
    metadata = group["metadata"]
    return {
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": metadata.get("ownerReferences") or [],
        "spec": group.get("spec") or {},
    }


def _copy(thing: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(thing))
    return copied


def _merge(thing: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            thing.pop(key, None)
        elif isinstance(value, Mapping):
            if not isinstance(thing.get(key), dict):
                thing[key] = {}
            _merge(thing[key], value)
        else:
            thing[key] = json.loads(json.dumps(value))


def _merged(thing: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    copied = _copy(thing)
    _merge(copied, patch)
    return copied


def _refuse_invalid(group: Mapping[str, Any]) -> None:
    """What the API server would refuse, in its words."""
    name = group["metadata"]["name"]
    problems = [*_name_problems(name), *_spec_problems(group["spec"])]
    if problems:
        listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise GroupingError(f'PodGroup.scheduling.run.ai "{name}" is invalid: {listed}')


def _name_problems(name: str) -> Iterator[str]:
    # A placeholder stands for a uid of 36 characters.
    real = _UID.sub("u" * 36, name)
    about = f'metadata.name: Invalid value: "{name}"'
    if len(real) > 253:
        yield f"{about}: must be no more than 253 characters"
    if not _NAME.fullmatch(real):
        yield (
            f"{about}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
            "characters, '-' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )


def _spec_problems(spec: Mapping[str, Any]) -> Iterator[str]:
    if (spec.get("minMember") or 0) < 0:
        yield (
            f"spec.minMember: Invalid value: {spec['minMember']}: spec.minMember in body should be "
            "greater than or equal to 0"
        )
    for index, part in enumerate(spec.get("subGroups") or []):
        for field in ("name", "parent"):
            if field in part and not _SUB_GROUP.fullmatch(part[field]):
                path = f"spec.subGroups[{index}].{field}"
                yield (
                    f'{path}: Invalid value: "{part[field]}": {path} in body should match '
                    "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"
                )
