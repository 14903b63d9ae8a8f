"""What a controller calls: look at one thing as it is now and bring it nearer to what it should be.

Reconciling is level-based: a key says *which* thing may need work, never what happened to it, so
that a missed or repeated event does no harm.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol, TypeVar

K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


@dataclass(frozen=True, slots=True)
class Result:
    """Done for now; look again after `requeue_after_s`, if given, even if nothing changes."""

    requeue_after_s: float | None = None


DONE = Result()


class Reconciler(Protocol[K_contra]):
    """Brings one thing nearer to what it should be. Raises when it must be tried again."""

    async def reconcile(self, key: K_contra) -> Result: ...
