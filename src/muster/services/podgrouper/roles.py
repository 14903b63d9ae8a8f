"""What the pod grouper may do: read every kind of workload that it knows, write pod groups."""

from collections.abc import Iterable

from muster.api import kinds
from muster.api.meta import Key
from muster.api.names import GROUPING_RULES_CONFIG_MAP, LEASE_POD_GROUPER, Names
from muster.api.roles import (
    READ,
    Rights,
    Rule,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    may_use,
)
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
_WATCHED = (("run.ai", "Karta"), ("scheduling.k8s.io", "PodGroup"))
"""Of all these, the kinds of which more is wanted than an owner by its name."""


def rights(known: Names, config_maps: Iterable[Key] = ()) -> Rights:
    """`config_maps`: where defaults of kinds and rules are, beside the usual place of rules."""
    everywhere = [
        *may_read(
            kinds.POD,
            kinds.POD_GROUP,
            kinds.PRIORITY_CLASS,
            kinds.NAMESPACE,
            kinds.TOPOLOGY,
        ),
        # Anything may own a pod; of these most clusters have some that do. One by name is enough.
        *may(("get",), kinds.CONFIG_MAP),
        *may(("patch",), kinds.POD),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("create", "patch"), kinds.POD_GROUP),
        *may_record_events(),
        *may_ask_who_asks(),
        *_workloads(),
    ]
    within = {known.namespace: may_lead(LEASE_POD_GROUPER)}
    for namespace, name in (Key(known.namespace, GROUPING_RULES_CONFIG_MAP), *config_maps):
        within.setdefault(namespace, []).extend(may(READ, kinds.CONFIG_MAP, only=(name,)))
    return Rights(everywhere, within)


def _workloads() -> Iterable[Rule]:
    by_group: dict[str, set[str]] = {}
    known = [(group, kind) for group, _, kind in TABLE if kind != "Pod"]
    for group, kind in [*known, *_MIDDLE]:
        by_group.setdefault(group, set()).add(_plural(kind))
    for group, kind in _WATCHED:
        yield from may_use(group, [_plural(kind)], ("list", "watch"))
    for group, plurals in sorted(by_group.items()):
        yield from may_use(group, plurals, ("get",))
        # Clusters that guard owner references want the right to hold up an owner's deletion.
        yield from may_use(group, [f"{one}/finalizers" for one in plurals], ("patch", "update"))


def _plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"
