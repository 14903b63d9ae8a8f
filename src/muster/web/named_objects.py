"""Objects that manifests name and are made of, read when somebody plans one of those."""

from collections.abc import Awaitable, Callable
from typing import Final

from muster.api import kinds
from muster.api.meta import Key
from muster.client.errors import ApiError, BadObject, Unreachable
from muster.client.read import Reader
from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import ObjectRef

Read = Callable[[ObjectRef], Awaitable[Object | None]]
"""None: it is not there, or may not be read."""

_KINDS: Final = {
    (kind.api_version, kind.kind): kind
    for kind in (kinds.CLUSTER_TRAINING_RUNTIME, kinds.TRAINING_RUNTIME)
}


async def nothing_is_there(_: ObjectRef) -> Object | None:
    """Where no cluster is at hand."""
    return None


def reading(reader: Reader) -> Read:
    async def read(ref: ObjectRef) -> Object | None:
        kind = _KINDS.get((ref.api_version, ref.kind))
        if kind is None:
            return None
        try:
            return await reader.get(kind, Key(ref.namespace, ref.name))
        except (ApiError, BadObject, Unreachable):
            return None

    return read
