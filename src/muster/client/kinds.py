"""What the client needs to know about a kind of object: where it lives and what it is read into.

A `Kind` is a value; the client is generic over it. Read into a struct of the needed fields
(`muster.api`), or into a plain `dict` where the whole object matters.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")


class Key(NamedTuple):
    """Which object of its kind. `namespace` is empty for cluster-wide kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Header(NamedTuple):
    """The part of the metadata that the client itself reads."""

    key: Key
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object, and the Python type that one of them is read into."""

    group: str
    version: str
    kind: str
    plural: str
    type: type[T]
    namespaced: bool = True

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where this kind (in a namespace), or one object of it, is found on the server."""
        if namespace and not self.namespaced:
            raise ValueError(f"{self} have no namespace, but {namespace!r} was given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self} live in namespaces, but none was given for {name!r}")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if namespace else ""
        one = f"/{name}" if name else ""
        below = f"/{subresource}" if subresource else ""
        return f"{root}{inside}/{self.plural}{one}{below}"

    def read(self, body: bytes | msgspec.Raw) -> T:
        """One object from its JSON; raises `msgspec.DecodeError` when it is not one."""
        found: T = _decoder(self).decode(body)
        return found

    def header(self, obj: T) -> Header:
        if isinstance(obj, dict):
            metadata = obj.get("metadata") or {}
            key = Key(metadata.get("namespace") or "", metadata.get("name") or "")
            return Header(key, metadata.get("uid") or "", metadata.get("resourceVersion") or "")
        meta: Any = obj.metadata  # type: ignore[attr-defined]
        return Header(Key(meta.namespace, meta.name), meta.uid, meta.resource_version)

    def key(self, obj: T) -> Key:
        return self.header(obj).key


@lru_cache(maxsize=256)
def _decoder(kind: Kind[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind.type)
