"""What changed from one cycle's records to the next, so that both can be made again from one.

Records are values that snapshots share: what did not change is the same object, so a difference is
found without comparing contents.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from muster.api.codec import from_wire, to_wire
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

_PART: Final = 200
"""Records that are encoded at once: whoever encodes lets others go on in between."""


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


_KINDS: Final = (
    ("nodes", "name"),
    ("tasks", "uid"),
    ("jobs", "key"),
    ("queues", "name"),
    ("topologies", "name"),
)


class Seen:
    """The records of the cycle before, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Mapping[str, Any]] = {kind: {} for kind, _ in _KINDS}
        self._objects: ClusterObjects | None = None

    def advance(self, records: ClusterRecords) -> Delta:
        """What is different in these, which are the ones before from now on."""
        found: dict[str, Any] = {}
        for kind, name in _KINDS:
            old = self._by_name[kind]
            new = {getattr(record, name): record for record in getattr(records, kind)}
            found[kind] = tuple(r for key, r in new.items() if not _is_same(old.get(key), r))
            found[f"gone_{kind}"] = tuple(key for key in old if key not in new)
            self._by_name[kind] = new
        objects = records.cluster_objects
        if self._objects is not objects and self._objects != objects:
            found["cluster_objects"] = objects
        self._objects = objects
        return Delta(**found)

    def forget(self) -> None:
        """The next delta is all there is."""
        self.__init__()  # type: ignore[misc]


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


def encoded(delta: Delta) -> Iterator[bytes]:
    """As lines of JSON: of each field some of its values."""
    for field in Delta.__struct_fields__:
        value = getattr(delta, field)
        if not value:
            continue
        for part in _parts(value) if isinstance(value, tuple) else (value,):
            yield msgspec.json.encode({field: part}, enc_hook=to_wire) + b"\n"


def decoded(lines: bytes) -> Delta:
    """The inverse. Raises msgspec.DecodeError."""
    found: dict[str, Any] = {}
    for line in lines.splitlines():
        part = msgspec.json.decode(line, type=Delta, dec_hook=from_wire)
        for field in Delta.__struct_fields__:
            value = getattr(part, field)
            if value:
                before = found.get(field, ())
                found[field] = before + value if isinstance(value, tuple) else value
    return Delta(**found)


def _parts(values: tuple[object, ...]) -> Iterable[tuple[object, ...]]:
    return (values[at : at + _PART] for at in range(0, len(values), _PART))


def _is_same(old: object, new: object) -> bool:
    return old is new or old == new
