"""What a grouper is given: the pod, its owners, what else it may read, and the settings.

A grouper is a plain function of these values. What it needs beyond the pod and its owners (the
RayCluster behind a RayJob, say) it asks of `ClusterReads`; the reconciler answers from its caches,
or raises `NotRead`, fetches the object and calls the grouper again. So groupers do no I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from muster.api import names
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.group import Group, Object
from muster.services.podgrouper.groupers.rule_book import GroupingRule


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Which object to read. `namespace` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str


class NotRead(Exception):
    """The grouper needs this object, and nobody has read it yet."""

    def __init__(self, ref: ObjectRef) -> None:
        super().__init__(ref)
        self.ref = ref


class ClusterReads(Protocol):
    """What a grouper may look at beside the pod and its owners."""

    def get(self, ref: ObjectRef) -> Object | None:
        """The object, None when there is none; raises `NotRead` when it must be fetched first."""
        ...

    def pods(self, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        """Pods with all of these labels."""
        ...

    def pod_groups(self, namespace: str) -> Mapping[str, Object]:
        """The PodGroups of a namespace, by name."""
        ...

    def has_priority_class(self, name: str) -> bool: ...

    def topology_with(self, node_label: str) -> str:
        """The first Topology, by name, that has this label as a level; empty: there is none."""
        ...

    def kartas(self, group: str, version: str, kind: str) -> Sequence[Object]:
        """Karta descriptions of a kind, empty where the kind is not installed."""
        ...


@dataclass(frozen=True, slots=True)
class KindDefaults:
    """What a cluster's owner wants for workloads of one kind that do not say."""

    priority_class: str = ""
    preemptibility: str = ""


@dataclass(frozen=True, slots=True)
class GroupingSettings:
    """Options of the pod grouper, and the defaults of kinds from their ConfigMap."""

    scheduler_name: str = names.DEFAULT.scheduler
    queue_label: str = names.DEFAULT.queue_label
    node_pool_label: str = names.DEFAULT.node_pool_label
    finds_legacy_groups: bool = True
    knative_gangs: bool = True
    uses_kartas: bool = True
    kind_defaults: Mapping[str, KindDefaults] = field(default_factory=dict)
    """By `Kind.group` or `Kind`."""
    rules: Sequence[GroupingRule] = ()
    """For kinds that the table does not have."""

    def defaults_of(self, owner: Object) -> KindDefaults | None:
        group, _ = fields.group_version(owner)
        kind = str(owner.get("kind") or "")
        named = self.kind_defaults.get(f"{kind}.{group}") if group else None
        return named or self.kind_defaults.get(kind)


@dataclass(frozen=True, slots=True)
class Workload:
    """One pod and who owns it. `owners` is nearest first; the last of them is `top`."""

    pod: Object
    top: Object
    owners: Sequence[Object]
    reads: ClusterReads
    settings: GroupingSettings


Grouper = Callable[[Workload], Group | None]
"""None: this pod is not to be grouped."""
