"""What changed from one cycle's records to the next, so that both can be made again from one.

Records are values that snapshots share: what did not change is the same object, so a difference is
found without comparing contents.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from muster.api.codec import from_wire, to_wire
from muster.model.cluster_objects import ClusterObjects
from muster.model.record_changes import KINDS, Delta
from muster.model.records import ClusterRecords

_PART: Final = 200
"""Records that are encoded at once: whoever encodes lets others go on in between."""


class Seen:
    """The records of the cycle before, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Mapping[str, Any]] = {kind: {} for kind, _ in KINDS}
        self._objects: ClusterObjects | None = None

    def advance(self, records: ClusterRecords) -> Delta:
        """What is different in these, which are the ones before from now on."""
        found: dict[str, Any] = {}
        for kind, name in KINDS:
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
