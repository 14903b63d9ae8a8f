"""A manifest as the jobs and pods that it comes to: templates, then the grouper, then records.

Pure: what the grouper may look at in the cluster is handed in. Pods are what the kind's controller
would make of the templates in it: every part that has a pod template, as often as it says.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api.codec import Unreadable, from_builtins
from muster.api.core import Pod
from muster.api.podgroup import PodGroup
from muster.foresight.plan import Submission, digest_of
from muster.model.build import Aliases, Identity, Priorities, job_record, task_record
from muster.services.podgrouper import decide
from muster.services.podgrouper.groupers.group import GroupingError, Object
from muster.services.podgrouper.groupers.table import group_of
from muster.services.podgrouper.groupers.workload import (
    GroupingSettings,
    NotRead,
    ObjectRef,
    Workload,
)
from muster.web.admitted import Door, Rules

PODS_MAX: Final = 5000
"""Of one submission: a number in a manifest must not take all of our memory."""
JOBS_MAX: Final = 500
"""Of one submission: where all of them wait, each is weighed against all others."""
LETTERS_MAX: Final = 64 << 20
"""Of all templates, each as often as it makes a pod; pods of 5 KiB, which is long, take half."""
_DEPTH_MAX: Final = 32
_COUNTS: Final = ("replicas", "parallelism", "numWorkers", "size")
_TEMPLATES: Final = ("template", "workerTemplate", "podTemplate")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OF_SERVERS: Final = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)
"""What API servers write, whatever they are sent: there in what was read from one."""
_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"


class BadManifest(Exception):
    """It cannot be planned; the text names the field and what to write."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What there is in the cluster that grouping and reading may depend on."""

    priorities: Priorities = field(default_factory=lambda: Priorities.of(()))
    aliases: Aliases = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Object]] = field(default_factory=dict)
    """PodGroups by namespace and name."""
    priority_classes: frozenset[str] = frozenset()
    topologies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Labels of the levels of each."""
    settings: GroupingSettings = field(default_factory=GroupingSettings)
    identity: Identity = field(default_factory=Identity)
    admission: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class _Reads:
    """What groupers may look at, with the pods of the submission among it."""

    world: Surroundings
    submitted: Sequence[Object]

    def get(self, ref: ObjectRef) -> Object | None:
        return None

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        return [
            pod
            for pod in self.submitted
            if labels.items() <= (pod["metadata"].get("labels") or {}).items()
        ]

    def pod_groups(self, namespace: str) -> Mapping[str, Object]:
        return self.world.groups.get(namespace, {})

    def has_priority_class(self, name: str) -> bool:
        return name in self.world.priority_classes

    def topology_with(self, node_label: str) -> str:
        found = (name for name, levels in self.world.topologies.items() if node_label in levels)
        return min(found, default="")

    def kartas(self, group: str, version: str, kind: str) -> Sequence[Object]:
        return ()


def submission_of(
    manifests: Sequence[Any], namespace: str, world: Surroundings, now_s: float
) -> Submission:
    """Raises `BadManifest`."""
    pods: list[tuple[Object, Object]] = []
    room, door = _Room(), Door(world.admission)
    tops = [_checked(one, at, namespace) for at, one in enumerate(_documents(manifests))]
    coming = {top["metadata"]["name"] for top in tops if top["kind"] == "Namespace"}
    for top in tops:
        door.takes(top)
        made_before = len(pods)
        pods += [(pod, top) for pod in _pods(top, room)]
        if len(pods) > made_before:
            door.has_room_for(top, coming)
        if len(pods) > PODS_MAX:
            raise BadManifest(f"it makes more than {PODS_MAX} pods: plan a part of it")
    reads = _Reads(world, [pod for pod, _ in pods])
    made = _Made(world, reads, door, now_s)
    for number, (pod, top) in enumerate(pods):
        made.add(number, pod, top)
    return Submission(
        tuple(made.jobs.values()),
        tuple(made.tasks),
        digest_of(manifests),
        tuple(dict.fromkeys((*door.problems, *made.problems))),
        tuple(dict.fromkeys(door.warnings)),
    )


@dataclass(slots=True)
class _Made:
    world: Surroundings
    reads: _Reads
    door: Door
    now_s: float
    jobs: dict[str, Any] = field(default_factory=dict)
    tasks: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, number: int, pod: Object, top: Object) -> None:
        settings = self.world.settings
        try:
            from_builtins(Pod, pod)
        except Unreadable as problem:
            self.problems.append(f"{pod['metadata']['name']}: {problem}")
            return
        if not decide.is_ours(pod, settings):
            return
        if node := pod["spec"].get("nodeName"):
            self.problems.append(
                f"{pod['metadata']['name']}: spec.nodeName: is {node}: no scheduler decides about "
                "such a pod: leave it out"
            )
            return
        owners = [] if pod is top else [top]
        pod = self.door.pod(pod, top)
        try:
            group = group_of(Workload(pod, top, owners, self.reads, settings))
        except GroupingError as problem:
            self.problems.append(problem.sentence)
            return
        except NotRead as problem:
            self.problems.append(str(problem))
            return
        if group is None:
            return
        write = decide.group_write(group, pod, None, settings)
        assert isinstance(write, decide.CreateGroup), "there is no group yet"
        try:
            self._put(number, dict(write.body), pod, decide.pod_patch(group, pod) or {})
        except Unreadable as problem:
            self.problems.append(str(problem))

    def _put(self, number: int, group: Object, pod: Object, patch: Mapping[str, Any]) -> None:
        record = job_record(
            from_builtins(PodGroup, group), self.world.priorities, self.world.aliases
        )
        if record.key not in self.jobs:
            if len(self.jobs) >= JOBS_MAX:
                raise BadManifest(f"it makes more than {JOBS_MAX} jobs: plan a part of it")
            self.jobs[record.key] = msgspec.structs.replace(
                record, uid=f"planned-{len(self.jobs)}", created_s=self.now_s
            )
        metadata = {**pod["metadata"], "uid": f"planned-pod-{number:06}"}
        for part in ("labels", "annotations"):
            more = (patch.get("metadata") or {}).get(part) or {}
            metadata[part] = {**(metadata.get(part) or {}), **more}
        read = from_builtins(Pod, _with_requests({**pod, "metadata": metadata}))
        task = task_record(read, self.world.identity, self.now_s)
        self.tasks.append(msgspec.structs.replace(task, created_s=self.now_s))


def _with_requests(pod: Object) -> Object:
    """As API servers complete it: what is limited and not asked for is asked for."""
    spec = dict(pod["spec"])
    for kind in ("containers", "initContainers"):
        spec[kind] = [
            {**one, "resources": _completed(one.get("resources") or {})}
            for one in spec.get(kind) or ()
        ]
    return {**pod, "spec": spec}


def _completed(resources: Mapping[str, Any]) -> dict[str, Any]:
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**resources, "requests": requests}


def _documents(manifests: Sequence[Any]) -> Iterator[Any]:
    """One by one: what `kubectl get -o yaml` shows of several objects is a list of them."""
    for manifest in manifests:
        items = manifest.get("items") if isinstance(manifest, dict) else None
        if isinstance(items, list) and str(manifest.get("kind")).endswith("List"):
            yield from items
        else:
            yield manifest


def _checked(manifest: Any, at: int, namespace: str) -> Object:
    """With a namespace, a name and a uid."""
    if not isinstance(manifest, dict):
        raise BadManifest(
            f"document {at}: is not an object: write apiVersion, kind, metadata, spec"
        )
    for name in ("apiVersion", "kind"):
        if not isinstance(manifest.get(name), str) or not manifest[name]:
            raise BadManifest(f"document {at}: {name}: is missing: write it")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        raise BadManifest(f"document {at}: metadata: is missing: write at least a name")
    own = metadata.get("namespace") or namespace
    name = metadata.get("name") or f"{metadata.get('generateName') or 'planned-'}x"
    if not isinstance(own, str) or not isinstance(name, str):
        raise BadManifest(f"document {at}: metadata.name: is not a text: write one")
    if not _NAMESPACE.fullmatch(own):
        raise BadManifest(
            f"document {at}: metadata.namespace: is {own[:80]!r}: write lower case letters, digits "
            "and '-', at most 63"
        )
    kept = {key: value for key, value in metadata.items() if key not in _OF_SERVERS}
    return {
        **{key: value for key, value in manifest.items() if key != "status"},
        "metadata": {**kept, "namespace": own, "name": name, "uid": f"planned-top-{at}"},
    }


@dataclass(slots=True)
class _Room:
    """What templates may still take."""

    letters: int = LETTERS_MAX

    def take(self, template: Object, count: int) -> None:
        self.letters -= len(str(template)) * count
        if self.letters < 0:
            raise BadManifest(
                f"its pod templates, each as often as it makes a pod, are more than {LETTERS_MAX} "
                "letters: plan a part of it, or leave out env and volumes"
            )


def _pods(top: Object, room: _Room) -> Iterator[Object]:
    if top["kind"] == "Pod":
        yield {**top, "metadata": {**top["metadata"]}}
        return
    metadata = top["metadata"]
    reference = {
        "apiVersion": top["apiVersion"],
        "kind": top["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    number = 0
    for path, template, count in _templates(top.get("spec"), (), 1, 0):
        room.take(template, min(count, PODS_MAX + 1 - number))
        for _ in range(count):
            own = _texts_of(template, "metadata", path)
            labels = {**_texts_of(own, "labels", path)}
            if len(path) > 1 and path[0].endswith("ReplicaSpecs"):
                labels.setdefault(_REPLICA_TYPE, path[1].lower())
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **own,
                    "name": f"{metadata['name']}-{number}",
                    "namespace": metadata["namespace"],
                    "labels": labels,
                    "annotations": {**_texts_of(own, "annotations", path)},
                    "ownerReferences": [reference],
                    "uid": f"planned-pod-{number}",
                },
                "spec": template["spec"],
            }
            number += 1
            if number > PODS_MAX:
                raise BadManifest(f"it makes more than {PODS_MAX} pods: plan a part of it")


def _texts_of(part: Mapping[str, Any], name: str, path: tuple[str, ...]) -> Mapping[str, Any]:
    """What stands under a name in a pod template, which is an object or is not there."""
    found = part.get(name) or {}
    if not isinstance(found, dict):
        where = ".".join(("spec", *path, "template"))[:200]
        raise BadManifest(f"{where}: {name}: is not an object: write names and values")
    return found


def _templates(
    part: Any, path: tuple[str, ...], times: int, depth: int
) -> Iterator[tuple[tuple[str, ...], Object, int]]:
    """Pod templates below, with how many pods each makes."""
    if depth > _DEPTH_MAX:
        raise BadManifest("spec: is nested too deeply: plan a simpler manifest")
    if isinstance(part, list):
        for one in part:
            yield from _templates(one, path, times, depth + 1)
    if not isinstance(part, dict):
        return
    times *= _count(part)
    for key, value in part.items():
        if key in _TEMPLATES and _is_pod_template(value):
            yield path, value, times
        else:
            yield from _templates(value, (*path, str(key)), times, depth + 1)


def _count(part: Mapping[str, Any]) -> int:
    wanted = 1
    for name in _COUNTS:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            wanted *= min(max(value, 0), PODS_MAX + 1)
    completions = part.get("completions")
    if isinstance(completions, int) and isinstance(part.get("parallelism"), int):
        wanted = min(wanted, max(completions, 0))
    return wanted


def _is_pod_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)
