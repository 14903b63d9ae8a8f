"""Changes of a cluster's records, as a value: to tables, to records, and back.

What differs from one cycle to the next, what somebody asks about ("with one node more"), and what a
plan would add are all this. Its one way into tables is `apply`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from muster.model.cluster_objects import ClusterObjects
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    TopologyRecord,
)
from muster.model.tables import ClusterTables


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """Records that are new or different, and names of those that are gone."""

    nodes: tuple[NodeRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    topologies: tuple[TopologyRecord, ...] = ()
    cluster_objects: ClusterObjects | None = None
    """None: as before."""
    gone_nodes: tuple[str, ...] = ()
    gone_tasks: tuple[str, ...] = ()
    gone_jobs: tuple[str, ...] = ()
    gone_queues: tuple[str, ...] = ()
    gone_topologies: tuple[str, ...] = ()

    def __add__(self, other: "Delta") -> "Delta":
        """This one, and then the other."""
        joined: dict[str, Any] = {}
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            joined[name] = mine + theirs if isinstance(mine, tuple) else theirs or mine
        return Delta(**joined)


KINDS: Final = (
    ("nodes", "name"),
    ("tasks", "uid"),
    ("jobs", "key"),
    ("queues", "name"),
    ("topologies", "name"),
)
"""Kinds of records, and what names one."""


def apply(tables: ClusterTables, delta: Delta) -> None:
    """Bring tables to what they were with the delta."""
    for name in delta.gone_tasks:
        tables.remove_task(name)
    for name in delta.gone_jobs:
        tables.remove_job(name)
    for name in delta.gone_nodes:
        tables.remove_node(name)
    for name in delta.gone_queues:
        tables.remove_queue(name)
    for name in delta.gone_topologies:
        tables.remove_topology(name)
    if delta.cluster_objects is not None:
        tables.set_cluster_objects(delta.cluster_objects)
    tables.extend(
        ClusterRecords(delta.nodes, delta.tasks, delta.jobs, delta.queues, delta.topologies)
    )


def changed(records: ClusterRecords, delta: Delta) -> ClusterRecords:
    """The records with the changes made: what `apply` makes of tables, as values."""
    found: dict[str, Any] = {}
    for kind, name in KINDS:
        gone = set(getattr(delta, f"gone_{kind}"))
        before, after = getattr(records, kind), getattr(delta, kind)
        by_name = {getattr(one, name): one for one in (*before, *after)}
        found[kind] = tuple(one for key, one in by_name.items() if key not in gone)
    if delta.cluster_objects is not None:
        found["cluster_objects"] = delta.cluster_objects
    return msgspec.structs.replace(records, **found)


def undone(known: Mapping[str, Mapping[str, Any]], delta: Delta) -> Delta:
    """What takes the changes back from a cluster of which these records, by kind and name, were
    known.
    """
    found: dict[str, Any] = {}
    for kind, name in KINDS:
        touched = [getattr(one, name) for one in getattr(delta, kind)]
        names = dict.fromkeys((*touched, *getattr(delta, f"gone_{kind}")))
        before = known.get(kind, {})
        found[kind] = tuple(before[one] for one in names if one in before)
        found[f"gone_{kind}"] = tuple(one for one in names if one not in before)
    return Delta(**found)
