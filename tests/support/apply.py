"""Manifests as users write them, created in a lab: kinds by name, no schema needed."""

from typing import Any

import yaml
from tests.support.lab import Lab

from muster.client.kinds import Plain, plain_kind

_CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "PriorityClass",
    "Queue",
    "Topology",
}


def kind_of(thing: Any) -> Any:
    group, _, version = thing["apiVersion"].rpartition("/")
    kind = thing["kind"]
    return plain_kind(group, version, kind, plural_of(kind), namespaced=kind not in _CLUSTER_WIDE)


def plural_of(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("y"):
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


async def apply(lab: Lab, text: str) -> list[Plain]:
    """Create every document of a YAML text."""
    return [await apply_one(lab, thing) for thing in yaml.safe_load_all(text) if thing]


async def apply_one(lab: Lab, thing: Any) -> Plain:
    kind = kind_of(thing)
    namespace = thing["metadata"].get("namespace") or lab.namespace
    made: Plain = await lab.cluster.writer.create(kind, thing, namespace if kind.namespaced else "")
    return made


def any_shape(api_version: str, kind: str, *more_versions: str) -> dict[str, Any]:
    """A CRD for a kind whose objects may hold anything."""
    group, _, version = api_version.rpartition("/")
    plural = plural_of(kind)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == version,
            "schema": {"openAPIV3Schema": schema},
        }
        for name in (version, *more_versions)
    ]
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


def owner_of(thing: Plain) -> dict[str, Any]:
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": thing["metadata"]["name"],
        "uid": thing["metadata"]["uid"],
    }
