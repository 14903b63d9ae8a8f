"""What controllers make of a manifest, down to its pods. Pure.

Of most kinds each pod template is taken as often as the numbers around it say. Kinds whose pods are
told apart by what their operator writes on them, or that make other objects first, are made as the
operators of the simulated world make them; what those look like stands there once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.sim.operators.children import Child, count
from muster.sim.operators.job_sets import job_set_children
from muster.sim.operators.serving import lws_children, ray_children, ray_job_children
from muster.sim.workloads.objects import JOB

PODS_MAX: Final = 5000
"""Of one submission: a number in a manifest must not take all of our memory."""
LETTERS_MAX: Final = 64 << 20
"""Of all templates, each as often as it makes a pod; pods of 5 KiB, which is long, take half."""
_DEPTH_MAX: Final = 32
_COUNTS: Final = ("replicas", "parallelism", "numWorkers", "size", "numOfHosts")
_TEMPLATES: Final = ("template", "workerTemplate", "podTemplate")
_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"


class BadManifest(Exception):
    """It cannot be planned; the text names the field and what to write."""


@dataclass(slots=True)
class Making:
    """What is made of one submission."""

    made: dict[ObjectRef, Object] = field(default_factory=dict)
    """Objects between manifests and pods."""
    warnings: list[str] = field(default_factory=list)
    _letters: int = LETTERS_MAX
    """What templates may still take."""
    _pods: int = 0

    def pods_of(self, top: Object) -> Iterator[tuple[Object, Sequence[Object]]]:
        """Each with its owners, nearest first; the manifest itself is the last of them."""
        spec = top.get("spec")
        if isinstance(spec, dict) and (where := _suspended(spec)):
            self.warnings.append(
                f"{top['kind']} {top['metadata']['name']}: {where} is true: it makes no pods as "
                "long as it is; planned is what comes when it is taken back"
            )
            top = {**top, "spec": _resumed(spec)}
        yield from self._below(top, ())

    def _below(
        self, one: Object, above: tuple[Object, ...]
    ) -> Iterator[tuple[Object, Sequence[Object]]]:
        if one["kind"] == "Pod":
            yield {**one, "metadata": {**one["metadata"]}}, above
            return
        make = _OPERATORS.get((_group(one), one["kind"]))
        if make is None:
            for pod in self._by_templates(one):
                yield pod, (one, *above)
            return
        self._measure(one, _shaped(make.parts, one))
        children, status = _shaped(make.children, one)
        owner = {**one, "status": status} if status else one
        for at, child in enumerate(children):
            self._pods += child.kind.kind == "Pod"
            self._check_pods()
            below = _child(child, one, at)
            if below["kind"] != "Pod":
                metadata = below["metadata"]
                of = (below["apiVersion"], below["kind"], metadata["namespace"], metadata["name"])
                self.made[ObjectRef(*of)] = below
            yield from self._below(below, (owner, *above))

    def _by_templates(self, top: Object) -> Iterator[Object]:
        """The pods of a kind that nothing more is known of."""
        metadata = top["metadata"]
        reference = _reference(top)
        number = 0
        for path, template, times in _templates(top.get("spec"), (), 1, 0):
            self._take(template, min(times, PODS_MAX + 1 - self._pods))
            for _ in range(times):
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
                self._pods += 1
                self._check_pods()

    def _measure(self, one: Object, parts: Sequence[tuple[Any, int]]) -> None:
        """Before an operator makes anything, which it does all at once: it fits into memory."""
        for part, times in parts:
            self._take(part, min(times, PODS_MAX + 1))
        if sum(times for _, times in parts) > PODS_MAX:
            raise BadManifest(f"it makes more than {PODS_MAX} pods: plan a part of it")

    def _take(self, template: Object, count: int) -> None:
        self._letters -= len(str(template)) * count
        if self._letters < 0:
            raise BadManifest(
                f"its pod templates, each as often as it makes a pod, are more than {LETTERS_MAX} "
                "letters: plan a part of it, or leave out env and volumes"
            )

    def _check_pods(self) -> None:
        if self._pods > PODS_MAX:
            raise BadManifest(f"it makes more than {PODS_MAX} pods: plan a part of it")


_T = TypeVar("_T")
_Parts = list[tuple[Any, int]]
_Made = tuple[Sequence[Child], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Operator:
    """What an operator does about one object of its kind."""

    parts: Callable[[Any], _Parts]
    """Parts of the object, and how often each is in what it makes."""
    children: Callable[[Any], _Made]
    """What it makes, and what it then writes into the status."""


def _shaped(ask: Callable[[Any], _T], one: Object) -> _T:
    """Nothing checks the objects of other people's kinds: any field may hold anything."""
    try:
        return ask(one)
    except (AttributeError, LookupError, TypeError, ValueError) as misshapen:
        raise BadManifest(
            f"{one['kind']} {one['metadata']['name']} is not shaped as its kind says: {misshapen}; "
            "compare it with the kind's schema"
        ) from None


def _of_job_set(job_set: Any) -> _Parts:
    entries = job_set["spec"].get("replicatedJobs") or ()
    return [(entry, count(entry.get("replicas"))) for entry in entries]


def _of_lws(lws: Any) -> _Parts:
    pattern = lws["spec"].get("leaderWorkerTemplate") or {}
    return [(pattern, count(lws["spec"].get("replicas")) * count(pattern.get("size")))]


def _of_ray_cluster(cluster: Any) -> _Parts:
    groups = cluster["spec"].get("workerGroupSpecs") or ()
    return [
        (cluster["spec"].get("headGroupSpec"), 1),
        *((one, count(one.get("replicas"), 0) * count(one.get("numOfHosts"))) for one in groups),
    ]


def _itself(one: Any) -> _Parts:
    return [(one["spec"], 1)]


def _ray_service(service: Any) -> _Made:
    job = {**service, "spec": {"rayClusterSpec": service["spec"]["rayClusterConfig"]}}
    (cluster,) = ray_job_children(job, ())
    return [cluster], {"activeServiceStatus": {"rayClusterName": cluster.name}}


def _ray_job(job: Any) -> _Made:
    (cluster,) = ray_job_children(job, ())
    return [cluster], {"rayClusterName": cluster.name}


def _cron_job(cron: Any) -> _Made:
    """One run of it."""
    template = cron["spec"]["jobTemplate"]
    metadata = {
        **(template.get("metadata") or {}),
        "name": f"{cron['metadata']['name']}-1",
        "ownerReferences": [_reference(cron)],
    }
    return [Child(JOB, {"metadata": metadata, "spec": template["spec"]})], {}


_OPERATORS: Final[Mapping[tuple[str, str], _Operator]] = {
    ("batch", "CronJob"): _Operator(_itself, _cron_job),
    ("jobset.x-k8s.io", "JobSet"): _Operator(
        _of_job_set, lambda one: (job_set_children(one, ()), {})
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _Operator(
        _of_lws, lambda one: (lws_children(one, ()), {})
    ),
    ("ray.io", "RayCluster"): _Operator(_of_ray_cluster, lambda one: (ray_children(one, ()), {})),
    ("ray.io", "RayJob"): _Operator(_itself, _ray_job),
    ("ray.io", "RayService"): _Operator(_itself, _ray_service),
}


def _child(child: Child, owner: Object, at: int) -> Object:
    """As it would stand in the API server. A child of a kind that has versions has its owner's."""
    metadata, kind = child.body["metadata"], child.kind
    is_alike = _group(owner) == kind.group
    return {
        **child.body,
        "apiVersion": owner["apiVersion"] if is_alike else kind.api_version,
        "kind": kind.kind,
        "metadata": {
            **metadata,
            "namespace": owner["metadata"]["namespace"],
            "uid": f"{owner['metadata']['uid']}-{at}",
        },
    }


def _reference(owner: Object) -> dict[str, Any]:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def _group(one: Object) -> str:
    return str(one["apiVersion"]).rpartition("/")[0]


def _suspended(spec: Mapping[str, Any]) -> str:
    """The field that keeps a controller from making anything; "": none does."""
    policy = spec.get("runPolicy")
    if isinstance(policy, dict) and policy.get("suspend") is True:
        return "spec.runPolicy.suspend"
    return "spec.suspend" if spec.get("suspend") is True else ""


def _resumed(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in spec.items() if key != "suspend"}
    if isinstance(policy := spec.get("runPolicy"), dict):
        found["runPolicy"] = {key: value for key, value in policy.items() if key != "suspend"}
    return found


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
