"""Where one object of a kind is found, and what the client itself reads of it.

The kinds are those of `muster.api.kinds`, each with the struct it is read into; where the whole
object matters it is read into a plain dictionary instead (`plain_kind`).
"""

from typing import Any, NamedTuple, TypeVar

from muster.api.kinds import Kind, is_path_segment
from muster.api.meta import Key

T = TypeVar("T")

Plain = dict[str, Any]


class Header(NamedTuple):
    """The part of the metadata that the client itself reads."""

    key: Key
    uid: str
    resource_version: str


def plain_kind(
    group: str, version: str, kind: str, plural: str, *, namespaced: bool = True
) -> Kind[Plain]:
    """A kind whose objects are read whole, as dictionaries."""
    return Kind(dict, group, version, kind, plural, namespaced)


def plainly(kind: Kind[Any]) -> Kind[Plain]:
    """The same kind, read whole."""
    return Kind(dict, kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


def object_path(kind: Kind[Any], key: Key, subresource: str = "") -> str:
    """Where one object, or a subresource of it, is found on the server."""
    if bool(key.namespace) != kind.namespaced or not key.name:
        wanted = "namespace/name" if kind.namespaced else "a name alone"
        raise ValueError(f"{kind.full_name} are found by {wanted}, not by {tuple(key)}")
    if not all(is_path_segment(step) for step in key if step):
        raise ValueError(f"{kind.full_name}: {tuple(key)} would be the path of something else")
    below = f"/{subresource}" if subresource else ""
    return f"{kind.path(key.namespace)}/{key.name}{below}"


def header(obj: object) -> Header:
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        key = Key(metadata.get("namespace") or "", metadata.get("name") or "")
        return Header(key, metadata.get("uid") or "", metadata.get("resourceVersion") or "")
    meta: Any = obj.metadata  # type: ignore[attr-defined]
    return Header(Key(meta.namespace, meta.name), meta.uid, meta.resource_version)
