"""What a grouper is given: the pod, its owners, what else it may read, and the settings.

A grouper is a plain function of these values. What it needs beyond the pod and its owners (the
RayCluster behind a RayJob, say) it asks of `ClusterReads`; the reconciler answers from its caches,
or raises `NotRead`, fetches the object and calls the grouper again. So groupers do no I/O.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from muster.api import names
from muster.api.kinds import is_path_segment
from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.group import Group, Object
from muster.services.podgrouper.groupers.rule_book import GroupingRule

_DNS = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_API_VERSION = re.compile(rf"({_DNS}(\.{_DNS})*/)?{_DNS}")
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_NAME_SIZE = 253
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Which object to read. `namespace` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def problem(self) -> str:
        """Why no object can be meant; empty: one may be.

        API servers store references that point at anything, and what they say becomes the path of
        a request: `../..` for a version would make it another request, in our name.
        """
        if len(self.api_version) > _NAME_SIZE or not _API_VERSION.fullmatch(self.api_version):
            return f"apiVersion: {_shown(self.api_version)} is not <group>/<version>"
        if not _KIND.fullmatch(self.kind):
            return f"kind: {_shown(self.kind)} is not the name of a kind"
        if not 0 < len(self.name) <= _NAME_SIZE or not is_path_segment(self.name):
            return f"name: {_shown(self.name)} is not the name of an object"
        return ""


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


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
