"""Rights as Kubernetes writes them: what a service may do, as policy rules of roles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.api.kinds import EVENT, LEASE, Kind

Rule = Mapping[str, Any]

READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a service may do: in the whole cluster, and what more in single namespaces."""

    everywhere: Sequence[Rule] = ()
    """The rules of its ClusterRole."""
    within: Mapping[str, Sequence[Rule]] = field(default_factory=dict)
    """The rules of its Role in a namespace, by namespace."""


def within(*places: tuple[str, Iterable[Rule]]) -> dict[str, list[Rule]]:
    """Rules by namespace. Namespaces of different uses may be one and the same."""
    found: dict[str, list[Rule]] = {}
    for namespace, rules in places:
        found.setdefault(namespace, []).extend(rules)
    return found


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


def may_lead(*leases: str) -> list[Rule]:
    """Hold leases of these names and no others. (Creating cannot be limited to a name.)"""
    return [*may(("create",), LEASE), *may(("get", "patch"), LEASE, only=leases)]


def may_record_events() -> list[Rule]:
    """About objects of any namespace."""
    return may(("create", "patch"), EVENT)
