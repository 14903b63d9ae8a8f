"""A manifest as the jobs and pods that it comes to: templates, then the grouper, then records.

Pure: what the grouper may look at in the cluster is handed in. Pods are what the kind's controller
would make of the templates in it: every part that has a pod template, as often as it says.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api import names
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
from muster.web.controllers import BadManifest, Making
from muster.web.operators import BLUEPRINTS, runtime_of

JOBS_MAX: Final = 500
"""Of one submission: where all of them wait, each is weighed against all others."""
_NO_PODS: Final = (
    "no pods come of it: it asks for none, or what they are like is not written in it; then plan "
    "one of the pods that its operator makes"
)
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
    read: Mapping[ObjectRef, Object] = field(default_factory=dict)
    """What manifests are made of, as far as it was there: see `named_by`."""


@dataclass(frozen=True, slots=True)
class _Reads:
    """What groupers may look at, with the pods of the submission among it."""

    world: Surroundings
    submitted: Sequence[Object]
    between: Mapping[ObjectRef, Object]

    def get(self, ref: ObjectRef) -> Object | None:
        return self.between.get(ref)

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
    tops = [_checked(one, at, namespace) for at, one in enumerate(_documents(manifests))]
    making, door = Making(_Found(tops, world.read)), Door(world.admission)
    pods: list[tuple[Object, Sequence[Object]]] = []
    coming = {top["metadata"]["name"] for top in tops if top["kind"] == "Namespace"}
    for top in tops:
        door.takes(top)
        made_before = len(pods)
        pods += making.pods_of(top)
        if len(pods) > made_before:
            door.has_room_for(top, coming)
    made = _Made(world, _Reads(world, [pod for pod, _ in pods], making.made), door, now_s)
    for number, (pod, owners) in enumerate(pods):
        made.add(number, pod, owners)
    if not pods and not making.problems:
        made.problems.append(_NO_PODS)
    # Beside jobs of ours somebody else's may be meant so.
    left, beside = ((), made.left) if made.jobs else (made.left, ())
    return Submission(
        tuple(made.jobs.values()),
        tuple(made.tasks),
        digest_of(manifests),
        tuple(dict.fromkeys((*making.problems, *door.problems, *made.problems, *left))),
        tuple(dict.fromkeys((*making.warnings, *door.warnings, *beside))),
    )


def named_by(manifests: Sequence[Any], namespace: str) -> tuple[ObjectRef, ...]:
    """Objects of the cluster that manifests are made of, beside each other."""
    tops = [_checked(one, at, namespace) for at, one in enumerate(_documents(manifests))]
    own = _Found(tops, {})
    refs = (runtime_of(top) for top in tops if top["kind"] == "TrainJob" and _has_spec(top))
    return tuple(dict.fromkeys(ref for ref in refs if ref not in own.there and not ref.problem()))


def _has_spec(top: Object) -> bool:
    spec = top.get("spec")
    return isinstance(spec, dict) and isinstance(spec.get("runtimeRef") or {}, dict)


class _Found:
    """Objects that others are made of: of the submission, or of the cluster."""

    def __init__(self, tops: Sequence[Object], read: Mapping[ObjectRef, Object]) -> None:
        self.there = {**read, **{_ref(top): top for top in tops if _kind_of(top) in BLUEPRINTS}}

    def __call__(self, ref: ObjectRef) -> Object:
        found = self.there.get(ref)
        if found is None:
            where = f"{ref.kind} {ref.name}"
            raise BadManifest(
                f"{where}, of which a TrainJob is made, is not there or may not be read: "
                f"correct the name, or write both into one file (kubectl get {ref.kind.lower()} "
                f"{ref.name} -o yaml)"
            )
        return found


def _kind_of(top: Object) -> tuple[str, str]:
    return str(top["apiVersion"]).rpartition("/")[0], str(top["kind"])


def _ref(top: Object) -> ObjectRef:
    kind, metadata = str(top["kind"]), top["metadata"]
    namespace = "" if kind.startswith("Cluster") else str(metadata["namespace"])
    return ObjectRef(str(top["apiVersion"]), kind, namespace, str(metadata["name"]))


@dataclass(slots=True)
class _Made:
    world: Surroundings
    reads: _Reads
    door: Door
    now_s: float
    jobs: dict[str, Any] = field(default_factory=dict)
    tasks: list[Any] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """To other schedulers."""

    def add(self, number: int, pod: Object, owners: Sequence[Object]) -> None:
        top = owners[-1] if owners else pod
        settings = self.world.settings
        try:
            from_builtins(Pod, pod)
        except Unreadable as problem:
            self.problems.append(f"{pod['metadata']['name']}: {problem}")
            return
        if not decide.is_ours(pod, settings):
            self._leave(top, (pod.get("spec") or {}).get("schedulerName") or "")
            return
        if node := pod["spec"].get("nodeName"):
            self.problems.append(
                f"{pod['metadata']['name']}: spec.nodeName: is {node}: no scheduler decides about "
                "such a pod: leave it out"
            )
            return
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

    def _leave(self, top: Object, other: str) -> None:
        ours = self.world.settings.scheduler_name
        if other == ours:
            return  # Its author groups it.
        named = f"have schedulerName {other}" if other else "have no schedulerName"
        self.left.append(
            f"{top['kind']} {top['metadata']['name']}: its pods {named}, so muster leaves them to "
            f"{other or names.STOCK_SCHEDULER}: write schedulerName: {ours} where they are "
            "described"
        )

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
