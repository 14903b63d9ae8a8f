"""Rights as Kubernetes writes them: what a service may do, as policy rules of a ClusterRole."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster.api.kinds import Kind

Rule = Mapping[str, Any]

READ = ("get", "list", "watch")


def may(
    verbs: Iterable[str], *kinds: Kind[Any], subresource: str = "", only: Iterable[str] = ()
) -> list[Rule]:
    """These verbs on these kinds, or on one of their subresources; `only` on objects so named."""
    below = f"/{subresource}" if subresource else ""
    by_group: dict[str, list[str]] = {}
    for kind in kinds:
        by_group.setdefault(kind.group, []).append(f"{kind.plural}{below}")
    named = {"resourceNames": sorted(only)} if only else {}
    return [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": sorted(verbs), **named}
        for group, resources in sorted(by_group.items())
    ]


def may_read(*kinds: Kind[Any]) -> list[Rule]:
    return may(READ, *kinds)


def may_use(group: str, resources: Iterable[str], verbs: Iterable[str]) -> list[Rule]:
    """The same for kinds that we have no struct for."""
    return [{"apiGroups": [group], "resources": sorted(resources), "verbs": sorted(verbs)}]


def may_ask_who_asks() -> list[Rule]:
    """What it takes to guard metrics and debug pages; `system:auth-delegator` has the same."""
    return [
        *may_use("authentication.k8s.io", ["tokenreviews"], ["create"]),
        *may_use("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]
