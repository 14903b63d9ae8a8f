"""Namespaces in which writes take long: there one is made at a time, and others wait for it.

Webhooks are asked about some namespaces and not about others, and each may take half a minute. What
waits for one of them keeps neither the workers nor the updates of other namespaces.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class SlowNamespaces(Generic[T]):
    """Counts what is under way, and holds what has to wait for it."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._slow: set[str] = set()
        self._held: dict[str, list[T]] = {}

    def begins(self, namespace: str, one: T) -> bool:
        """Whether this write may begin; else it is held until another has ended."""
        if namespace in self._slow and self._under_way[namespace]:
            self._held.setdefault(namespace, []).append(one)
            return False
        self._under_way[namespace] += 1
        return True

    def lasts_long(self, namespace: str) -> None:
        """What has begun there is still under way after `client.limits.LONG_S`."""
        self._slow.add(namespace)

    def ended(self, namespace: str, was_long: bool) -> Sequence[T]:
        """A write there has ended. Returns what was held, to be begun again: one of it may."""
        self._under_way[namespace] -= 1
        is_idle = not self._under_way[namespace]
        if is_idle:
            del self._under_way[namespace]
        if not was_long:
            self._slow.discard(namespace)
        freed = self._held.pop(namespace, []) if is_idle or not was_long else []
        if is_idle and not freed:
            self._slow.discard(namespace)
        return freed
