"""What there is to ask for: legacy and aggregated discovery documents. Pure."""

import re
from collections.abc import Iterable, Sequence
from functools import cmp_to_key

from muster.sim.apiserver.kinds import Object, ServedKind, ServedKinds

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_STATUS_VERBS = ("get", "patch", "update")
# Kind, group and version of subresources that speak another type; verbs where not get/patch/update.
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "binding": ("Binding", "", "", ("create",)),
    "eviction": ("Eviction", "policy", "v1", ("create",)),
    "token": ("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
    "scale": ("Scale", "autoscaling", "v1", _STATUS_VERBS),
    "log": ("", "", "", ("get",)),
    "finalize": ("", "", "", ("update",)),
}
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def wants_aggregated(accept: str) -> str:
    """The version of aggregated discovery that an Accept header prefers; empty for legacy."""
    for part in accept.split(","):
        if "as=APIGroupDiscoveryList" in part.replace(" ", ""):
            return "v2beta1" if "v2beta1" in part else "v2"
        if part.strip().startswith("application/json"):
            return ""
    return ""


def aggregated(kinds: ServedKinds, version: str, legacy: bool) -> Object:
    """All groups with all resources in one document; `legacy` is the part under /api."""
    items = []
    for group in _groups(kinds):
        if (group == "") is not legacy:
            continue
        versions = [
            {
                "version": v,
                "resources": [_aggregated_resource(row) for row in _rows(kinds, group, v)],
                "freshness": "Current",
            }
            for v in _versions(kinds, group)
        ]
        meta = {"creationTimestamp": None} | ({"name": group} if group else {})
        items.append({"metadata": meta, "versions": versions})
    kind = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
    return {**kind, "metadata": {}, "items": items}


def core_versions() -> Object:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def group_list(kinds: ServedKinds) -> Object:
    groups = [_group(kinds, group) for group in _groups(kinds) if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_document(kinds: ServedKinds, group: str) -> Object | None:
    if group not in _groups(kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(kinds, group)}


def resource_list(kinds: ServedKinds, group: str, version: str) -> Object | None:
    rows = _rows(kinds, group, version)
    if not rows:
        return None
    resources = [entry for row in rows for entry in _legacy_resources(row)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Kubernetes' order: v2, v1, v1beta2, v1alpha1, then the rest by name."""
    return sorted(versions, key=cmp_to_key(_compare))


def _compare(left: str, right: str) -> int:
    one, two = _rank(left), _rank(right)
    return -1 if one > two else 1 if one < two else (left > right) - (left < right)


def _rank(version: str) -> tuple[int, int, int]:
    found = _VERSION.match(version)
    if not found:
        return (-1, 0, 0)
    level = {None: 2, "beta": 1, "alpha": 0}[found[2]]
    return (level, int(found[1]), int(found[3] or 0))


def _groups(kinds: ServedKinds) -> list[str]:
    return list(dict.fromkeys(row.group for row in kinds))


def _versions(kinds: ServedKinds, group: str) -> list[str]:
    return sorted_versions({row.version for row in kinds if row.group == group})


def _rows(kinds: ServedKinds, group: str, version: str) -> list[ServedKind]:
    rows = [row for row in kinds if (row.group, row.version) == (group, version)]
    return sorted(rows, key=lambda row: row.plural)


def _group(kinds: ServedKinds, group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in _versions(kinds, group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _subresource(row: ServedKind, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    kind, group, version, verbs = _SUBRESOURCES.get(name, ("", "", "", _STATUS_VERBS))
    return kind or row.kind, group, version, verbs


def _subresources(row: ServedKind) -> list[str]:
    """Subresources by name; custom kinds list their status first."""
    return sorted(row.subresources, reverse=row.is_custom)


def _legacy_resources(row: ServedKind) -> list[Object]:
    entry: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    entries = [entry]
    for name in _subresources(row):
        kind, group, version, verbs = _subresource(row, name)
        entries.append(
            {
                "name": f"{row.plural}/{name}",
                "singularName": "",
                "namespaced": row.namespaced,
                **({"group": group, "version": version} if group else {}),
                "kind": kind,
                "verbs": list(verbs),
            }
        )
    return entries


def _aggregated_resource(row: ServedKind) -> Object:
    entry: Object = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    _add_names(entry, "shortNames", row.short_names)
    _add_names(entry, "categories", row.categories)
    if row.subresources:
        entry["subresources"] = [_aggregated_subresource(row, name) for name in _subresources(row)]
    return entry


def _aggregated_subresource(row: ServedKind, name: str) -> Object:
    kind, group, version, verbs = _subresource(row, name)
    response = {
        "group": group or row.group,
        "version": version or row.version,
        "kind": kind,
    }
    return {"subresource": name, "responseKind": response, "verbs": list(verbs)}


def _add_names(entry: Object, name: str, values: Sequence[str]) -> None:
    if values:
        entry[name] = list(values)
