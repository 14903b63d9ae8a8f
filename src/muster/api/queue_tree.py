"""Which queues hang from a root, judged by the names of their parents alone. Pure.

A queue outside the tree runs nothing; everybody who says so (admission, the status of queues, the
scheduler) says it by the rules of this page.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from muster.api.bounds import QUEUE_LEVELS_MAX


class Rootless(Enum):
    """Why a queue hangs from no root."""

    PARENT_MISSING = "an ancestor does not exist"
    CYCLE = "it is its own ancestor, or below a queue that is"
    TOO_DEEP = "it has too many ancestors"


class Parents(Protocol):
    """Which queues there are, and the name of each one's parent; "" for a root."""

    def __contains__(self, name: object, /) -> bool: ...
    def __getitem__(self, name: str, /) -> str: ...


def rootless_by_name(parent_of: Mapping[str, str]) -> dict[str, Rootless | None]:
    """`rootless` of every queue, at the cost of looking at each once."""
    ends: dict[str, tuple[Rootless | None, int]] = {}
    for start in parent_of:
        way: dict[str, int] = {}
        here = start
        while here in parent_of and here not in ends and here not in way:
            way[here] = len(way)
            here = parent_of[here]
            if not here:  # A root, also where somebody's queue has no name.
                break
        path = list(way)
        if here and here in way:
            circle = path[way[here] :]
            ends |= dict.fromkeys(circle, (Rootless.CYCLE, len(circle)))
            path = path[: way[here]]
        missing = (Rootless.PARENT_MISSING if here else None, 0)
        end, length = ends.get(here, missing) if here else missing
        for name in reversed(path):
            length += 1
            ends[name] = (end, length)
    return {
        name: Rootless.TOO_DEEP if length > QUEUE_LEVELS_MAX else end
        for name, (end, length) in ends.items()
    }


def rootless(name: str, parent_of: Parents) -> Rootless | None:
    """None for a queue that hangs from a root. Looks at no more ancestors than there may be."""
    seen = {name}
    while parent := parent_of[name]:
        if parent not in parent_of:
            return Rootless.PARENT_MISSING
        if parent in seen:
            return Rootless.CYCLE
        if len(seen) == QUEUE_LEVELS_MAX:
            return Rootless.TOO_DEEP
        seen.add(parent)
        name = parent
    return None
