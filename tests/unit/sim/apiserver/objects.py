"""A reader over plain objects, for tests of what only reads."""

from collections.abc import Iterable, Sequence
from typing import Any


class Shelf:
    """Objects by storage, as the server's steps read them."""

    def __init__(self, objects: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        for storage, obj in objects:
            self.put(storage, obj)

    def put(self, storage: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        self._objects[storage, meta.get("namespace", ""), meta["name"]] = obj

    def drop(self, storage: str, namespace: str, name: str) -> None:
        del self._objects[storage, namespace, name]

    def get(self, storage: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self._objects.get((storage, namespace, name))

    def list(self, storage: str, namespace: str = "") -> Sequence[dict[str, Any]]:
        return [
            obj
            for (kept, where, _), obj in self._objects.items()
            if kept == storage and namespace in ("", where)
        ]
