"""Grove: a PodCliqueSet makes cliques of equal pods, and gangs that say which of them start whole.

Each replica of the set is one gang: its cliques, and of its scaling groups as many replicas as have
to be there. Every further replica of a scaling group is a gang of its own. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.client.kinds import Plain, plain_kind
from muster.sim.operators.children import Child, copied, count, pod_child
from muster.sim.workloads.objects import owner_reference

POD_CLIQUE: Final = plain_kind("grove.io", "v1alpha1", "PodClique", "podcliques")
POD_GANG: Final = plain_kind("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs")
_PREFIX: Final = "grove.io/"
_GANG: Final = f"{_PREFIX}podgang"
_PART_OF: Final = "app.kubernetes.io/part-of"


@dataclass(frozen=True, slots=True)
class Clique:
    """One clique of one replica: what its pods are like, and the gang that they start with."""

    name: str
    gang: str
    template: Mapping[str, Any]

    @property
    def pods(self) -> int:
        # Grove's own default: none is one.
        return count((self.template.get("spec") or {}).get("replicas")) or 1

    @property
    def least(self) -> int:
        return count((self.template.get("spec") or {}).get("minAvailable"), self.pods)


def cliques_of(pod_clique_set: Plain) -> Iterator[Clique]:
    """Of every replica, those of its own gang before those of others."""
    spec, called = pod_clique_set["spec"], pod_clique_set["metadata"]["name"]
    template = spec.get("template") or {}
    templates = {one["name"]: one for one in template.get("cliques") or ()}
    groups = [one for one in template.get("podCliqueScalingGroups") or () if one.get("cliqueNames")]
    grouped = {name for group in groups for name in group["cliqueNames"]}
    alone = {name: one for name, one in templates.items() if name not in grouped}
    there = [one for one in groups if count(one.get("replicas"))]
    for replica in range(count(spec.get("replicas"), 0)):
        gang = f"{called}-{replica}"
        yield from (Clique(f"{gang}-{name}", gang, one) for name, one in alone.items())
        for group in there:
            yield from _scaled(group, gang, templates)


def _scaled(
    group: Mapping[str, Any], gang: str, templates: Mapping[str, Mapping[str, Any]]
) -> Iterator[Clique]:
    """The cliques of all replicas of a scaling group."""
    within, least = f"{gang}-{group['name']}", count(group.get("minAvailable"))
    for at in range(count(group.get("replicas"))):
        own = gang if at < least else f"{within}-{at - least}"
        for name in group["cliqueNames"]:
            yield Clique(f"{within}-{at}-{name}", own, templates[name])


def set_children(pod_clique_set: Plain) -> list[Child]:
    cliques = list(cliques_of(pod_clique_set))
    by_gang: dict[str, list[Clique]] = {}
    for clique in cliques:
        by_gang.setdefault(clique.gang, []).append(clique)
    gangs = [_gang(pod_clique_set, name, members) for name, members in by_gang.items()]
    return [*gangs, *(_clique(pod_clique_set, clique) for clique in cliques)]


def clique_children(pod_clique: Plain) -> list[Child]:
    meta, spec = pod_clique["metadata"], pod_clique["spec"]
    template = {
        "metadata": {"labels": meta.get("labels"), "annotations": meta.get("annotations")},
        "spec": spec.get("podSpec") or {},
    }
    labels = {f"{_PREFIX}podclique": meta["name"]}
    return [
        pod_child(pod_clique, _pod_name(meta["name"], at), template, labels)
        for at in range(count(spec.get("replicas")))
    ]


def _gang(owner: Plain, name: str, members: Sequence[Clique]) -> Child:
    meta, template = owner["metadata"], owner["spec"].get("template") or {}
    metadata = {
        "name": name,
        "labels": {**_passed_on(meta.get("labels")), _PART_OF: meta["name"]},
        "annotations": _passed_on(meta.get("annotations")),
        "ownerReferences": [owner_reference(owner, owner["apiVersion"], owner["kind"])],
    }
    groups = [_pod_group(clique, meta["namespace"]) for clique in members]
    spec: dict[str, Any] = {"podgroups": groups}
    if template.get("priorityClassName"):
        spec["priorityClassName"] = template["priorityClassName"]
    return Child(POD_GANG, {"metadata": metadata, "spec": spec})


def _pod_group(clique: Clique, namespace: str) -> dict[str, Any]:
    names = [_pod_name(clique.name, at) for at in range(clique.pods)]
    return {
        "name": clique.name,
        "minReplicas": clique.least,
        "podReferences": [{"namespace": namespace, "name": name} for name in names],
    }


def _clique(owner: Plain, clique: Clique) -> Child:
    template = clique.template
    metadata = {
        "name": clique.name,
        "labels": {
            **(template.get("labels") or {}),
            _PART_OF: owner["metadata"]["name"],
            _GANG: clique.gang,
        },
        "annotations": dict(template.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner, owner["apiVersion"], owner["kind"])],
    }
    spec = {**copied(template.get("spec") or {}), "replicas": clique.pods}
    return Child(POD_CLIQUE, {"metadata": metadata, "spec": spec})


def _pod_name(clique: str, at: int) -> str:
    return f"{clique}-{at}"


def _passed_on(texts: Mapping[str, str] | None) -> dict[str, str]:
    """A gang has what its set says, but for Grove's own words."""
    return {key: value for key, value in (texts or {}).items() if not key.startswith(_PREFIX)}
