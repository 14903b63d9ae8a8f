"""What the services still remember of objects that are gone.

Whatever is keyed by what users write must be let go with it. Walks over the parts of a running
service, and counts the entries of its maps and sets that name something of the story.
"""

import gc
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from muster.base.expiring import ExpiringMap
from muster.runtime.supervisor import Supervisor

_OURS: Final = ("muster.services.", "muster.runtime.", "muster.client.", "muster.model.")
_NOT_FOLLOWED: Final = (ModuleType, FunctionType, BuiltinFunctionType, type, str, bytes, int, float)
_DEPTH_MAX: Final = 12
# Memos of equal parts of pods, which are emptied when they grow; and what was said or counted, of
# which a fixed number is kept: it outlives whom it is about.
_BOUNDED: Final = (
    "PodInterner._interned_values",
    "PodInterner._decoded",
    "Recorder._written",
)
# What has a size that it does not exceed: memos, and moments of those who are gone.
_FULL_SOME_TIME: Final = (
    "Transitions._heap",
    "PodInterner.",
    "Recorder._written",
    "Recorder._subjects",
    "RequirementsCache.",
    "Constraints.",
    "PodRequirements.",
)
_COLLECTIONS: Final = (dict, set, frozenset, list, deque, ExpiringMap)
SLOWLY: Final = {"SchedulerMeters._evicted_series": 700.0}
"""What is kept for somebody who comes to read it every minute, and for how long at most."""


def remembered(supervisor: Supervisor, names: Iterable[str]) -> Mapping[str, int]:
    """Where the names stand as keys, and how many of them there."""
    wanted = frozenset(names)
    found: dict[str, int] = {}
    for path, one in _things_of(supervisor):
        if isinstance(one, dict | set | ExpiringMap) and path not in _BOUNDED:
            kept = sum(_names(key, wanted) for key in one)
            if kept:
                found[path] = max(found.get(path, 0), kept)
    return found


def entries(supervisor: Supervisor) -> Counter[str]:
    """How many entries the collections of a service have, by where they stand; without those that
    have a size of their own.
    """
    found: Counter[str] = Counter()
    for path, one in _things_of(supervisor):
        if isinstance(one, _COLLECTIONS) and not path.startswith(_FULL_SOME_TIME):
            found[path] += len(one)
    return found


def _things_of(supervisor: Supervisor) -> Iterator[tuple[str, Any]]:
    """Everything that a service is made of, once, with the attribute under which it is kept."""
    seen = {id(supervisor.log), id(supervisor.clock), id(supervisor.registry)}
    level: list[tuple[str, Any]] = [(supervisor.name, supervisor)]
    for _ in range(_DEPTH_MAX):
        following: list[tuple[str, Any]] = []
        for path, one in level:
            if id(one) in seen or isinstance(one, _NOT_FOLLOWED):
                continue
            seen.add(id(one))
            yield path, one
            following += _parts(path, one)
        level = following


def _parts(path: str, one: Any) -> list[tuple[str, Any]]:
    """What belongs to a thing of ours, with the name by which it does."""
    if isinstance(one, dict):
        return [(path, part) for part in one.values()]
    if isinstance(one, list | tuple | set | frozenset | deque):
        return [(path, part) for part in one]
    if not type(one).__module__.startswith(_OURS):
        bound = getattr(one, "__self__", None)
        return [] if bound is None else [(path, bound)]
    name = type(one).__name__
    held = dict(getattr(one, "__dict__", {}))
    for cls in type(one).__mro__:
        for slot in getattr(cls, "__slots__", ()):
            if hasattr(one, slot):
                held[slot] = getattr(one, slot)
    return [(f"{name}.{at}", part) for at, part in held.items()]


def _names(key: object, wanted: frozenset[str]) -> bool:
    if isinstance(key, str):
        return key in wanted or key.rpartition("/")[2] in wanted
    if isinstance(key, tuple):
        return any(_names(part, wanted) for part in key)
    if isinstance(key, _NOT_FOLLOWED):  # A class refers to a tuple in which it stands itself.
        return False
    return any(
        _names(part, wanted) for part in gc.get_referents(key) if isinstance(part, str | tuple)
    )
