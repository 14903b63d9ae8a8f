"""Which queues hang from a root, judged by the names of their parents alone. Pure.

A queue outside the tree runs nothing; everybody who says so (admission, the status of queues, the
scheduler) says it by the rules of this page.
"""

from collections.abc import Mapping
from enum import Enum

from muster.api.bounds import QUEUE_LEVELS_MAX


class Rootless(Enum):
    """Why a queue hangs from no root."""

    PARENT_MISSING = "an ancestor does not exist"
    CYCLE = "it is its own ancestor, or below a queue that is"
    TOO_DEEP = "it has too many ancestors"


def rootless(name: str, parent_of: Mapping[str, str]) -> Rootless | None:
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
