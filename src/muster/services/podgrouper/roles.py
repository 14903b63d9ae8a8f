"""What the pod grouper may do: read every kind of workload that it knows, write pod groups."""

from collections.abc import Iterable

from muster.api import kinds
from muster.api.roles import READ, Rule, may, may_ask_who_asks, may_read, may_use
from muster.services.podgrouper.groupers.table import TABLE

_MIDDLE = (
    ("apps", "DaemonSet"),
    ("grove.io", "PodClique"),
    ("grove.io", "PodCliqueScalingGroup"),
    ("kubevirt.io", "VirtualMachine"),
    ("run.ai", "Karta"),
    ("scheduler.grove.io", "PodGang"),
    ("scheduling.k8s.io", "PodGroup"),
    ("scheduling.k8s.io", "Workload"),
    ("serving.knative.dev", "Configuration"),
    ("serving.knative.dev", "Revision"),
)
"""Kinds that stand between a pod and its top owner, or beside it."""


def rules() -> list[Rule]:
    return [
        *may_read(
            kinds.POD,
            kinds.POD_GROUP,
            kinds.PRIORITY_CLASS,
            kinds.CONFIG_MAP,
            kinds.NAMESPACE,
            kinds.TOPOLOGY,
        ),
        *may(("patch",), kinds.POD),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("create", "patch"), kinds.POD_GROUP),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
        *_workloads(),
    ]


def _workloads() -> Iterable[Rule]:
    by_group: dict[str, set[str]] = {}
    known = [(group, kind) for group, _, kind in TABLE if kind != "Pod"]
    for group, kind in [*known, *_MIDDLE]:
        by_group.setdefault(group, set()).add(_plural(kind))
    for group, plurals in sorted(by_group.items()):
        yield from may_use(group, plurals, READ)
        # Clusters that guard owner references want the right to hold up an owner's deletion.
        yield from may_use(group, [f"{one}/finalizers" for one in plurals], ("patch", "update"))


def _plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"
