"""A local copy that is made from others here: what its maker puts is what it holds."""

from typing import TypeVar

from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.informer import Informer
from muster.client.read import Reader

T = TypeVar("T")


class Derived(Informer[T]):
    """An informer that nobody runs. Its handlers and indexes are told as those of any other."""

    def __init__(self, reader: Reader, kind: Kind[T], log: Log) -> None:
        super().__init__(reader, kind, log=log)

    def put(self, key: Key, found: T | None) -> None:
        """From now on this is there, or nothing."""
        if self._objects.get(key) is not found:
            self._put(key, found)
