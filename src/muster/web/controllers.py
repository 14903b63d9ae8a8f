"""What controllers make of a manifest, down to its pods. Pure.

Of most kinds each pod template is taken as often as the numbers around it say; those of which that
is not enough stand in `muster.web.operators`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.sim.operators.children import Child
from muster.web.operators import BLUEPRINTS, OPERATORS, Find, Operator, described_elsewhere

PODS_MAX: Final = 5000
"""Of one submission: a number in a manifest must not take all of our memory."""
LETTERS_MAX: Final = 64 << 20
"""Of all templates, each as often as it makes a pod; pods of 5 KiB, which is long, take half."""
_DEPTH_MAX: Final = 32
_COUNTS: Final = ("replicas", "parallelism", "numWorkers", "size", "numOfHosts")
_TEMPLATES: Final = ("template", "workerTemplate", "podTemplate")
_LISTS_OF_TEMPLATES: Final = ("componentSpecs",)
_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"


class BadManifest(Exception):
    """It cannot be planned; the text names the field and what to write."""


def templates_of(top: Object) -> Iterator[Object]:
    """The pod templates of a manifest, or the pod that it is itself."""
    if top["kind"] == "Pod":
        yield top
        return
    yield from (template for _, template, _ in _templates(top.get("spec"), (), 1, 0))


def suspended_by(spec: Mapping[str, Any]) -> str:
    """The field that keeps a controller from making anything; "": none does."""
    policy = spec.get("runPolicy")
    if isinstance(policy, dict) and policy.get("suspend") is True:
        return "spec.runPolicy.suspend"
    return "spec.suspend" if spec.get("suspend") is True else ""


@dataclass(slots=True)
class Making:
    """What is made of one submission."""

    find: Find
    made: dict[ObjectRef, Object] = field(default_factory=dict)
    """Objects between manifests and pods."""
    problems: list[str] = field(default_factory=list)
    """Why something cannot be planned."""
    warnings: list[str] = field(default_factory=list)
    _letters: int = LETTERS_MAX
    """What templates may still take."""
    _pods: int = 0

    def pods_of(self, top: Object) -> Iterator[tuple[Object, Sequence[Object]]]:
        """Each with its owners, nearest first; the manifest itself is the last of them."""
        if (named := (_group(top), top["kind"])) in BLUEPRINTS:
            return
        if instead := described_elsewhere(*named):
            self.problems.append(
                f"{top['kind']} {top['metadata']['name']}: what its pods are like is known to its "
                f"operator alone: {instead}"
            )
            return
        spec = top.get("spec")
        if isinstance(spec, dict) and (where := suspended_by(spec)):
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
        make = OPERATORS.get((_group(one), one["kind"]))
        if make is None:
            for pod in self._by_templates(one):
                yield pod, (one, *above)
            return
        yield from self._by_operator(one, make, above)

    def _by_operator(
        self, one: Object, make: Operator, above: tuple[Object, ...]
    ) -> Iterator[tuple[Object, Sequence[Object]]]:
        self._measure(one, lambda: make.parts(one))
        if left_out := _shaped(lambda: make.unplanned(one), one):
            self.warnings.append(f"{one['kind']} {one['metadata']['name']}: {left_out}")
        children, status = _shaped(lambda: make.children(one, self.find), one)
        owner = {**one, "status": status} if status else one
        pods: dict[str, Object] = {}
        for at, child in enumerate(children):
            self._pods += child.kind.kind == "Pod"
            self._check_pods()
            below = _child(child, one, at)
            metadata = below["metadata"]
            if below["kind"] == "Pod":
                pods[metadata["name"]] = below
                # A pod may own others, which come after it: a driver its executors.
                by = metadata["ownerReferences"][0]
                own = (pods[by["name"]],) if by["kind"] == "Pod" else ()
                yield from self._below(below, (*own, owner, *above))
                continue
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

    def _measure(self, one: Object, parts: Callable[[], Iterable[tuple[Any, int]]]) -> None:
        """Before an operator makes anything, which it does all at once: it fits into memory."""

        def measured() -> None:
            pods = 0
            for part, times in parts():
                self._take(part, min(times, PODS_MAX + 1))
                pods += times
                if pods > PODS_MAX:
                    raise BadManifest(f"it makes more than {PODS_MAX} pods: plan a part of it")

        _shaped(measured, one)

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


def _shaped(ask: Callable[[], _T], one: Object) -> _T:
    """Nothing checks the objects of other people's kinds: any field may hold anything."""
    try:
        return ask()
    except (AttributeError, LookupError, TypeError, ValueError) as misshapen:
        raise BadManifest(
            f"{one['kind']} {one['metadata']['name']} is not shaped as its kind says: {misshapen}; "
            "compare it with the kind's schema"
        ) from None


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
        elif key in _LISTS_OF_TEMPLATES and isinstance(value, list):
            yield from ((path, one, times) for one in value if _is_pod_template(one))
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
