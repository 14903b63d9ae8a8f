"""The changes that a handler got, object by object, and whether each followed from the last."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster.api.meta import Key
from muster.client.kinds import header

T = TypeVar("T")


@dataclass
class RecordingHandler(Generic[T]):
    """A handler that believes nothing: it checks every change against what it heard before."""

    known: dict[Key, T] = field(default_factory=dict)
    changes: dict[Key, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))

    def handle(self, old: T | None, new: T | None) -> None:
        seen = new or old
        assert seen is not None, "a change of nothing"
        key, uid, version = header(seen)
        assert self.known.get(key) is old, "the old object is the one told last"
        if old is not None and new is not None:
            assert header(old).uid == uid, "another object is not a change of this one"
        self.changes[key].append(("DELETED" if new is None else "SEEN", int(version)))
        if new is None:
            del self.known[key]
        else:
            self.known[key] = new

    def by_name(self, name: str) -> T:
        (found,) = [obj for key, obj in self.known.items() if key.name == name]
        return found

    def versions(self, key: Key) -> list[int]:
        """The versions that were seen of one object, in the order they were told."""
        return [version for what, version in self.changes[key] if what == "SEEN"]
